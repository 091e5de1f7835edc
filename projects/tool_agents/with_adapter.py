"""A model with an adapter added to its weights, as an ordinary checkpoint that `transformers serve` loads.

python projects/tool_agents/with_adapter.py models/smollm2 projects/tool_agents/adapter models/star
"""

import shutil
import sys
from pathlib import Path


def merge(model: str, adapter: str, out: str) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    PeftModel.from_pretrained(plain, adapter).merge_and_unload().save_pretrained(out)
    # the model's own words, the adapter's chat template, with what tells the server how calls are written
    for folder, name in (
        (model, "tokenizer.json"),
        (adapter, "tokenizer_config.json"),
        (adapter, "chat_template.jinja"),
    ):
        shutil.copy(Path(folder, name), out)
    if Path(adapter, "training.json").is_file():  # whether it reads descriptions of services
        shutil.copy(Path(adapter, "training.json"), out)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python with_adapter.py MODEL ADAPTER OUT")
    merge(*sys.argv[1:])
