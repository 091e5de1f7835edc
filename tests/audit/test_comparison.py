"""Two runs against each other: what changes is what their results say, and a run against itself changes nothing."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from builders import fair_pipeline, hurt, polite_tone, small_corpus

from tod_bias import Pipeline, attribute, compare
from tod_bias.audit.comparison import FinishedRun, MismatchError
from tod_bias.audit.estimates import AxisEstimates
from tod_bias.audit.record import signature_of
from tod_bias.changes import Change, Comparison
from tod_bias.metrics.choice import metric
from tod_bias.results import AuditResult, RunError
from tod_bias.statistics.settings import Inference

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from paired_worlds import cases, run

AXES = ("gender",)
METRICS = ("corpus_bleu", "slot_f1")


def corpus(count=60):
    return small_corpus(count)


def pipelines():
    fair = fair_pipeline(corpus())
    return {
        "curt": Pipeline({**fair.stages, "tone": hurt(polite_tone, "Sorry.")}),
        "fair": Pipeline({**fair.stages, "tone": polite_tone}),
        "short": fair,
    }


def audit(pipeline, dialogues=None, **options):
    settings = {"axes": AXES, "metrics": METRICS, "bootstrap": 50, "permutations": 200}
    return attribute(pipeline, dialogues or corpus(), **(settings | options))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Run folders by name."""
    folder = tmp_path_factory.mktemp("runs")
    for name, pipeline in pipelines().items():
        audit(pipeline).save(folder / name)
    return folder


def changes(part, path=()):
    """Every change in a part of a comparison, with its place."""
    if isinstance(part, Change):
        yield path, part
    elif not isinstance(part, (str, int, float, tuple, type(None))):
        for key, value in dict(part).items():
            yield from changes(value, (*path, key))


def part_of(record, name):
    return record[name] if isinstance(record, dict) else getattr(record, name)


def test_a_run_read_back_says_what_it_said(folders):
    saved = FinishedRun.read(folders / "curt")
    inference = Inference(resamples=50, permutations=200)
    for name, table in saved.axes["gender"].tables.items():
        found = AxisEstimates(table, metric(name), saved.result.stages, inference).claims().result
        said = saved.result.axes["gender"][name]
        for key in ("original", "contributions", "artefact", "arms", "terms", "spread"):
            assert getattr(found, key) == getattr(said, key)
        for group, about in found.groups.items():
            assert (about.score, about.contributions) == (said.groups[group].score, said.groups[group].contributions)


def test_a_run_against_itself_is_exactly_0_everywhere(folders):
    result = compare(folders / "curt", folders / "curt", permutations=100, margin=0.2)
    assert result.same
    found = list(changes({"quality": result.quality, "axes": result.axes}))
    assert len(found) > 30
    for path, change in found:
        assert change.change.value == 0, path
        assert change.change.ci is None or change.change.ci[0] <= 0 <= change.change.ci[1]
        assert change.change.p in (1, None)
        assert change.verdict in ("", "inconclusive", "equivalent")


def test_a_change_is_the_difference_of_what_both_runs_say(folders):
    result = compare(folders / "curt", folders / "fair", permutations=100)
    runs = [AuditResult.load(folders / name) for name in ("curt", "fair")]
    for name in METRICS:
        record = result.axes["gender"][name]
        one, other = (run.axes["gender"][name] for run in runs)
        places = [("original",), ("disparity",), ("rewritten",)]
        places += [("groups", group, part) for group in one.groups for part in ("score", "gap")]
        triples = [(record.contributions[name], one.shares[name], other.shares[name]) for name in one.shares]
        for place in places:
            change, before, after = record, one, other
            for key in place:
                change, before, after = (part_of(some, key) for some in (change, before, after))
            triples.append((change, before, after))
        for change, before, after in triples:
            assert change.before == pytest.approx(before.value, abs=1e-12)
            assert change.after == pytest.approx(after.value, abs=1e-12)
            assert change.change.value == pytest.approx(after.value - before.value, abs=1e-12)


def test_a_repaired_system_is_better_and_a_broken_one_worse(folders):
    settings = {"permutations": 500, "metrics": ["corpus_bleu"]}
    repaired = compare(folders / "curt", folders / "fair", **settings)
    broken = compare(folders / "fair", folders / "curt", **settings)
    for result, verdict in ((repaired, "better"), (broken, "worse")):
        record = result.axes["gender"]["corpus_bleu"]
        assert record.groups["woman"].gap.verdict == verdict
        assert record.groups["man"].gap.verdict == verdict  # nearer to 0, from the other side
        assert record.groups["woman"].score.verdict == verdict
        assert record.contributions["api_call"].verdict == "inconclusive"


def test_stages_that_one_system_lacks_are_left_out_and_named(folders):
    result = compare(folders / "curt", folders / "short", permutations=100)
    assert result.stages.common == ["api_call", "db", "response"]
    record = result.axes["gender"]["corpus_bleu"]
    assert list(record.contributions) == ["api_call", "db", "response"]
    assert record.disparity.after == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dialogues": corpus(48)}, r"different dialogues: \d+ of .* in .*, 48 of .*same file"),
        ({"corpus": "demo", "split": "valid"}, "corpus split differs: none|corpus split differs: "),
        ({"seed": 3}, "seed differs: 0 in .*3 in"),
        ({"design": "draws", "draws": 1}, "design differs: crossed in .*draws in"),
        ({"history": "system"}, "history differs: gold in .*system in"),
        ({"max_per_axis": 20}, "max_per_axis differs: .*20 in"),
        ({"variants": 1}, "variants differs: .*1 in"),
        ({"cluster": "none"}, "--cluster differs: domain in .*none in"),
        ({"metrics": ("corpus_bleu",)}, "metrics differ: .*--metrics corpus_bleu"),
    ],
)
def test_runs_that_do_not_match_are_refused_in_one_line(folders, options, named):
    other = audit(pipelines()["fair"], **options)
    with pytest.raises(MismatchError, match=named) as raised:
        compare(folders / "fair", other)
    assert "\n" not in str(raised.value)


def test_axes_that_one_run_lacks_are_named(folders):
    echo = Pipeline({"response": lambda inputs: [item.user for item in inputs]})
    dialogues = [*corpus()[:-1], aged()]
    one = audit(echo, dialogues, axes=("gender",), metrics="corpus_bleu")
    other = audit(echo, dialogues, axes=("age", "gender"), metrics="corpus_bleu")
    with pytest.raises(MismatchError, match=r"axes differ: .*--axes gender"):
        compare(one, other)
    with pytest.raises(
        MismatchError, match="audited different dialogues"
    ):  # of other dialogues no metrics and axes are asked
        compare(folders / "fair", other)


def aged():
    last = corpus()[-1]
    first = replace(last.turns[0], user="My senior uncle wants noodles tonight, can you help?")
    return replace(last, turns=(first, *last.turns[1:]))


def test_a_folder_without_turns_or_of_an_earlier_version_says_what_to_do(folders, tmp_path):
    (tmp_path / "results.json").write_text((folders / "fair" / "results.json").read_text())
    with pytest.raises(RunError, match=r"holds no turns\.parquet; repeat"):
        compare(tmp_path, folders / "fair")
    audit(pipelines()["fair"]).save(tmp_path / "old")
    (tmp_path / "old" / "variants.parquet").unlink()
    with pytest.raises(RunError, match=r"holds turns\.parquet but no variants\.parquet, another version wrote it"):
        compare(tmp_path / "old", folders / "fair")


def test_a_comparison_is_read_as_it_was_written(folders, tmp_path):
    result = compare(folders / "curt", folders / "fair", permutations=100)
    assert Comparison.load(result.save(tmp_path)) == result
    assert signature_of({}).items() <= result.signature.items()


@pytest.mark.slow
def test_intervals_of_changes_cover():
    """Short; tests/benchmarks/paired_worlds.py makes the whole table."""
    seen = run(cases()["mended, better on average"], 30, 1, resamples=50, dialogues=8000)
    for name in ("quality", "disparity", "contribution response", "gap woman", "score woman"):
        assert 0.83 <= seen.share(name) <= 1
    assert seen.said("gap woman", "better") > 0.9
    assert seen.said("quality", "better") > 0.9
    same = run(cases()["women .1 worse in both"], 16, 2, resamples=50, margin=0.2, dialogues=8000)
    assert same.said("gap woman", "better") + same.said("gap woman", "worse") <= 0.1
    assert same.said("gap woman", "equivalent") > 0.85
