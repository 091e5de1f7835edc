"""``python -m tod_bias.agents.plugin`` prints the folder to put on ``PYTHONPATH``."""

from pathlib import Path

print(Path(__file__).parent.resolve())
