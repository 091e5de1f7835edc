"""Modules by the names they had before the rooms."""

import importlib

import pytest

from tod_bias import former_names


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("dialogue", ["Dialogue", "Turn", "slots_to_text", "turns_from_text", "read_jsonl", "write_jsonl", "API_NAME"]),
        ("corpus", ["CORPORA", "load_corpus", "read_sgd_file", "DEMO"]),
        ("pipeline", ["Pipeline", "StageInput", "Twin", "Stage", "Rewrite", "call_stage"]),
        ("generation", ["Generator", "GenerationSettings"]),
        ("training", ["train", "TrainingSettings", "hold_out"]),
        ("attribution", ["attribute", "Attribution"]),
        ("evaluation", ["evaluate"]),
        ("metrics", []),
        ("inference", ["interval", "resample", "holm"]),
        ("estimates", ["contributions", "Inference"]),
        ("arms", ["Execution", "Run", "all_arms", "arm_key"]),
        ("configuration", ["load_pipeline"]),
        ("words", ["word_statistics"]),
    ],
)
def test_they_still_import(module, names):
    found = importlib.import_module(f"tod_bias.{module}")
    for name in names:
        assert getattr(found, name)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = found.no_such_name


def test_every_home_is_there():
    for homes in former_names.FORMER.values():
        for home in homes:
            importlib.import_module(f"tod_bias.{home}")


def test_no_other_name_is_made_up():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tod_bias.no_such_module")
