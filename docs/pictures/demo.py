"""The picture of the README, from a run of the demo: ``tod-bias attribute --out runs/demo``, then
``python docs/pictures/demo.py runs/demo``. It is the run's own figure, with fewer decimals and no spaces to spare."""

import re
import sys
from pathlib import Path

svg = (Path(sys.argv[1]) / "figures" / "groups-corpus_bleu.svg").read_text(encoding="utf-8")
svg = svg[svg.index("<svg") :]
svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
svg = re.sub(r"(?<![#\w.>−+])-?\d+\.\d+", lambda number: f"{float(number[0]):.3f}".rstrip("0").rstrip("."), svg)
svg = re.sub(r"[ \n]*\n[ \n]*", "\n", svg)
svg = svg.replace("<svg ", '<svg role="img" ', 1)
(Path(__file__).parent / "demo.svg").write_text(svg, encoding="utf-8")
