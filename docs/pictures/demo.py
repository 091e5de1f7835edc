"""The picture of the README, from a run of the demo: ``tod-bias attribute --out runs/demo``, then
``python docs/pictures/demo.py runs/demo``. The figure has the groups of all axes by BLEU, with fewer decimals."""

import re
import sys
from pathlib import Path

from tod_bias.report.canvas import to_svg
from tod_bias.report.figures import groups
from tod_bias.results import AuditResult

rows = [row for row in AuditResult.load(sys.argv[1]).rows if row.metric.name == "corpus_bleu"]
svg = to_svg(groups(rows))
svg = svg[svg.index("<svg") :]
svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
svg = re.sub(r"(?<![#\w.>−+])-?\d+\.\d+", lambda number: f"{float(number[0]):.3f}".rstrip("0").rstrip("."), svg)
svg = re.sub(r"[ \n]*\n[ \n]*", "\n", svg)
svg = svg.replace("<svg ", '<svg role="img" ', 1)
(Path(__file__).parent / "demo.svg").write_text(svg, encoding="utf-8")
