import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # saved_lists.py; tests are no package
