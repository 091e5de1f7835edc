"""What the command says of itself, and of the next step."""

import pytest
from builders import small_corpus

from tod_bias.cli.application import main
from tod_bias.dialogues.jsonl import write_jsonl


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    out, err = capsys.readouterr()
    return stopped.value.code, out, err


@pytest.mark.parametrize(("asked", "said"), [(["help"], "Commands"), (["help", "words"], "Share of words")])
def test_help_is_what_it_is_elsewhere(capsys, asked, said):
    code, out, err = run(capsys, *asked)
    assert (code, err) == (0, "")
    assert said in out


def test_perturb_says_what_comes_after_the_tellings(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_jsonl(small_corpus(), "corpus.jsonl")
    code, out, err = run(capsys, "perturb", "--corpus", "corpus.jsonl", "--axes", "gender", "--chat", "--out", "told")
    assert (code, out) == (0, "")
    assert "tellings.jsonl" in err
    assert "--responses" in err
