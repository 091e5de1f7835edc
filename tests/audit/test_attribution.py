import os
import shutil
from itertools import permutations

import pandas as pd
import pytest
import sacrebleu
from builders import (
    WORDS,
    WRONG,
    equivariant_pipeline,
    fair_pipeline,
    gender,
    hurt,
    numbered,
    outputs_of,
    with_counterfactuals,
)

from tod_bias import Dialogue, Pipeline, StageInput, Turn, Twin, attribute
from tod_bias.audit.estimates import contributions
from tod_bias.models.generator import shared_generator
from tod_bias.perturb import draw_rewrites
from tod_bias.results import AuditResult
from tod_bias.stages import Lookup, LookupDb, Outcome, Replay
from tod_bias.statistics.arms import all_arms, arm_key
from tod_bias.systems.execution import Execution, Run

STAGES = ("api_call", "db", "response")
WRONG_OUTPUTS = {**WRONG, "db": Lookup(Outcome.NO_ROW)}
QUICK = {"bootstrap": 50, "permutations": 200}


def eq1_of(turns, score):
    """Su eq. 1 of the rewritten dialogues that a condition chooses, from the rows of turns.parquet."""

    def eq1(is_chosen):
        rewritten = turns[(turns["arm"] == "") & (turns["role"] == "group")]
        rewritten = rewritten[rewritten.apply(is_chosen, axis=1)]
        originals = turns[(turns["arm"] == "original") & turns["dialogue"].isin(rewritten["dialogue"])]
        return abs(score(originals) - score(rewritten)) / score(originals)

    return eq1


def gender_bleu(result):
    return result.axes["gender"]["corpus_bleu"]


@pytest.mark.parametrize("design", ["crossed", "draws"])
@pytest.mark.parametrize("biased", STAGES)
def test_the_one_biased_stage_gets_everything(corpus, biased, design):
    corpus = numbered(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline({**stages, biased: hurt(stages[biased], WRONG_OUTPUTS[biased])})
    axis = gender_bleu(attribute(pipeline, corpus, design=design, draws=2, **QUICK))
    woman = axis.groups["woman"]
    assert woman.gap.value > 0.1
    widest = axis.widest
    assert widest.worse == "woman"
    for whole, parts in ((axis.disparity, axis.shares), (woman.gap, woman.shares), (widest.gap, widest.shares)):
        assert parts[biased].value == pytest.approx(whole.value, abs=1e-12)
        assert all(parts[name].value == 0 for name in STAGES if name != biased)
    assert axis.artefact.value == 0


@pytest.mark.parametrize("order", [STAGES, STAGES[::-1]])
def test_su_gives_the_one_biased_stage_everything_in_any_order(corpus, order):
    corpus = numbered(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline({**stages, "db": hurt(stages["db"], WRONG_OUTPUTS["db"])})
    su = gender_bleu(attribute(pipeline, corpus, order=order, **QUICK)).su
    assert su.attribution["order"] == list(order)
    assert su.attribution["db"].value == pytest.approx(su.fairscore.value, abs=1e-12)
    assert su.attribution["residual"].value == 0
    assert su.total.value == 0  # the paper's bar: what is left when the database is swapped


def test_a_draw_is_one_set_of_dialogues_to_su(corpus):
    stages = equivariant_pipeline(numbered(corpus)).stages
    pipeline = Pipeline({**stages, "response": hurt(stages["response"], "I found it for her.")})
    result = attribute(pipeline, numbered(corpus), design="draws", draws=1, **QUICK)

    def bleu(rows):
        return sacrebleu.corpus_bleu(rows["response"].tolist(), [rows["reference"].tolist()]).score / 100

    su = gender_bleu(result).su
    assert su.fairscore.value == pytest.approx(eq1_of(result.turns, bleu)(lambda row: True), abs=1e-12)
    with_three = gender_bleu(attribute(pipeline, numbered(corpus), design="draws", draws=3, **QUICK)).su
    assert with_three.fairscore.value != pytest.approx(su.fairscore.value)
    assert set(with_three.pairs) == set(su.pairs)


def test_the_counterfactuals_say_which_draw_they_are_of(corpus):
    pipeline = fair_pipeline(corpus)
    variants = attribute(pipeline, corpus, axes=["gender", "placebo"], design="draws", draws=2, **QUICK).variants
    rewritten = variants[variants["role"] == "group"].groupby("dialogue", observed=True)["draw"]
    assert rewritten.agg(set).map(sorted).tolist() == [[0, 1]] * rewritten.ngroups
    assert set(variants.loc[variants["role"] != "group", "draw"]) == {0}
    assert set(attribute(pipeline, corpus, axes=["gender", "placebo"], **QUICK).variants["draw"]) == {0}


def test_a_fair_system_has_no_disparity_at_all(corpus):
    result = attribute(fair_pipeline(corpus), corpus, axes=["gender"], metrics=["corpus_bleu", "disagreement"], **QUICK)
    for name, axis in result.axes["gender"].items():
        p = 1 if name == "corpus_bleu" else None  # without a placebo disagreement claims nothing
        assert axis.disparity.value == 0
        assert all(pair.value == 0 and pair.p == p for pair in axis.pairs.values())
        assert axis.mde is None  # nothing varied, so nobody knows how much it could have
        assert axis.verdict == "inconclusive"
    assert result.corpus.rewritable == {"gender": 18}  # every fourth dialogue mentions nobody
    assert result.corpus.left_out == {"gender": 6}


def test_an_imperfect_fair_system_is_not_called_unfair_for_what_rewriting_does_to_references(corpus):
    """Twins everywhere: T changes n-grams of the references, which eq. 1 sees, and the disparity does not."""
    corpus = [
        Dialogue(f"{n}", "", (Turn(f"My {person} is here.", response=f"Welcome, your {person} is at table {n}."),))
        for n, person in enumerate(("wife", "mother", "sister", "girlfriend", "aunt") * 3)
    ]

    def host(inputs):
        return ["Welcome, your parent is at a table." for _ in inputs]

    axis = gender_bleu(attribute(Pipeline({"response": Twin(host)}), corpus, **QUICK))
    assert axis.artefact.value != 0  # "mother" becomes the "parent" that the host speaks of
    assert axis.disparity.value == 0
    assert axis.verdict == "inconclusive"
    assert axis.su.fairscore.value > 0


def test_contributions_keep_their_signs(corpus):
    """api_call harms those that are rewritten as women, response makes up for a part of it."""
    corpus = numbered(corpus)
    gold = Replay.gold(with_counterfactuals(corpus), "response")

    def policy(inputs):
        return [{"to": "women"} if any(word in item.context for word in WORDS) else {} for item in inputs]

    def answer(inputs):
        answers = []
        for item, right in zip(inputs, gold(inputs), strict=True):
            woman = any(word in item.context for word in WORDS)
            wrong = bool(item.outputs["api_call"])
            answers.append(right if not wrong else f"{right} or so" if woman else f"or so, or so, it is {right}")
        return answers

    axis = gender_bleu(attribute(Pipeline({"api_call": policy, "response": answer}), corpus, **QUICK))
    woman = axis.groups["woman"]
    parts = {name: part.value for name, part in woman.shares.items()}
    assert parts["api_call"] > woman.gap.value > 0 > parts["response"]
    assert sum(parts.values()) == pytest.approx(woman.gap.value, abs=1e-12)
    assert axis.interactions["api_call×response"].value != 0


def test_record_says_how_many_could_be_and_were_rewritten_and_what_of(corpus):
    whole = attribute(fair_pipeline(corpus), corpus, **QUICK)
    part = attribute(fair_pipeline(corpus), corpus, max_per_axis=5, **QUICK)
    assert part.corpus.rewritable == whole.corpus.rewritable == whole.corpus.audited
    assert part.corpus.audited == {"gender": 5}
    assert (whole.config.design.max_per_axis, part.config.design.max_per_axis) == (None, 5)
    assert part.corpus.hash == whole.corpus.hash
    other = attribute(fair_pipeline(corpus[1:]), corpus[1:], **QUICK)
    assert other.corpus.hash != whole.corpus.hash
    assert whole.signature["stage db"].startswith("tod_bias.stages:LookupDb|rows:")


def test_a_retrained_model_is_loaded_anew(gpt2, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(gpt2, folder)
    first = shared_generator(folder)
    assert shared_generator(folder) is first
    os.utime(folder / "model.safetensors", ns=(1, 1))
    second = shared_generator(folder)
    assert second is not first
    assert second.fingerprint == first.fingerprint


def test_parts_add_up_and_numbers_are_sacrebleus(corpus):
    corpus = numbered(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline(
        {
            "api_call": hurt(stages["api_call"], {}, ("mother",)),
            "db": hurt(LookupDb.from_dialogues(corpus), Lookup(Outcome.EMPTY), ("wife", "father")),
            "response": hurt(stages["response"], "I found it for him.", ("sister", "brother")),
        }
    )
    result = attribute(pipeline, corpus, **QUICK)
    axis = gender_bleu(result)
    for whole, parts in [
        (axis.disparity, axis.shares),
        *((group.gap, group.shares) for group in axis.groups.values()),
        (axis.widest.gap, axis.widest.shares),
    ]:
        assert sum(part.value for part in parts.values()) == pytest.approx(whole.value, abs=1e-9)
    key = ["axis", "dialogue", "variant"]
    turns = result.turns.merge(result.variants[[*key, "source"]], on=key)

    def bleu(rows):
        return sacrebleu.corpus_bleu(rows["response"].tolist(), [rows["reference"].tolist()]).score / 100

    original = bleu(turns[turns["arm"] == "original"])
    assert axis.original.value == pytest.approx(original, abs=1e-12)
    signed = (original - axis.arms[""]) / original
    assert axis.disparity.value + axis.artefact.value == pytest.approx(signed, abs=1e-12)
    eq1 = eq1_of(turns, bleu)
    crossed = [eq1(lambda row, name=name: row["group"] == name) for name in ("man", "woman", "non-binary")]
    assert axis.su.fairscore.value == pytest.approx(sum(crossed) / 3, abs=1e-12)
    assert {name: pair.value for name, pair in axis.su.pairs.items()} == {
        f"{one}>{other}": pytest.approx(
            eq1(lambda row, one=one, other=other: (row["source"], row["group"]) == (one, other)), abs=1e-12
        )
        for one, other in permutations(("man", "woman", "non-binary"), 2)
        if one != "non-binary"  # of whom no dialogue speaks
    }
    for arm in all_arms(STAGES):  # each dialogue has two counterfactuals, so that all weigh the same
        assert axis.arms[arm_key(arm)] == pytest.approx(bleu(turns[turns["arm"] == arm_key(arm)]), abs=1e-12)
    originals = turns[(turns["arm"] == "original") & turns["user"].str.contains("husband|father|brother|Please|please")]
    men = originals[originals["dialogue"].isin(turns[turns["source"] == "man"]["dialogue"])]
    rewritten = turns[(turns["arm"] == "") & (turns["group"] == "man")]
    assert axis.groups["man"].score.value == pytest.approx(bleu(pd.concat([men, rewritten])), abs=1e-2)


def test_opposite_directions_cancel_in_the_disparity_and_not_between_groups():
    dialogues = [
        Dialogue(f"{person}{n}", "", (Turn(f"My {person} is here.", response=f"Welcome to place {n}, my friend."),))
        for n in range(8)
        for person in ("wife", "husband")
    ]
    pipeline = Pipeline(
        {
            "response": hurt(
                Replay.gold(with_counterfactuals(dialogues), "response"), "No, not for you, my friend.", ("wife",)
            )
        }
    )
    perturber = gender().__class__(gender().lexicon, sources=["woman", "man"], targets=["woman", "man"])
    axis = gender_bleu(attribute(pipeline, dialogues, axes=[perturber], **QUICK))
    assert axis.disparity.value == pytest.approx(0, abs=1e-12)
    assert axis.pairs["man>woman"].value > 0.4
    assert axis.pairs["woman>man"].value == -axis.pairs["man>woman"].value
    assert axis.pairs["man>woman"].dialogues == 16  # of both sources: the same dialogues as either
    assert axis.groups["woman"].gap.value > 0.2 > -0.2 > axis.groups["man"].gap.value
    assert axis.verdict == "these terms only"  # one word stands for everybody
    assert axis.groups["woman"].gap.scope == "terms"
    assert (axis.omnibus.p < 0.05, axis.omnibus.scope) == (True, "terms")


def test_shapley_of_a_hand_made_table():
    table = {frozenset(): 10.0, frozenset("a"): 4.0, frozenset("b"): 6.0, frozenset("ab"): 2.0}
    assert contributions(table, [("a", "b")]) == {"a": 6.0, "b": 2.0}
    assert contributions(table, [("a", "b"), ("b", "a")]) == {"a": 5.0, "b": 3.0}
    assert contributions({**table, frozenset("a"): 12.0}, [("a", "b")])["a"] == -2.0  # negative shares are real


def test_arms_are_those_of_the_swapped_pipelines(corpus):
    """The level-by-level execution gives what swapping each pipeline and running it alone gives."""
    corpus = numbered(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline({name: hurt(stage, WRONG_OUTPUTS[name]) for name, stage in stages.items()})
    dialogue = corpus[1]
    rewrite = draw_rewrites(gender(), dialogue, 1)[0]
    trace = Execution(pipeline)([Run(dialogue, rewrite)])[0]
    copy = rewrite(dialogue)
    inputs = [StageInput(copy.turns[:n], turn.user) for n, turn in enumerate(copy.turns)]
    for number, arm in enumerate(all_arms(STAGES)):
        swapped = pipeline.swap(arm).under(rewrite)
        assert [item.outputs for item in swapped(inputs)] == outputs_of(trace, number)


def test_free_running_twin_answers_as_on_the_original(corpus):
    echo = lambda inputs: [f"{len(item.history)} {item.context[-40:]}" for item in inputs]  # noqa: E731
    result = attribute(Pipeline({"response": echo}), corpus, history="system", design="draws", draws=1, **QUICK)
    turns = result.turns.set_index(["arm", "dialogue", "turn"])
    assert result.config.run.history == "system"
    for number, dialogue in enumerate(corpus):
        for rewrite in draw_rewrites(gender(), dialogue, 1):
            original = turns.loc[("original", dialogue.id, 1), "response"]
            assert turns.loc[("response", dialogue.id, 1), "response"] == rewrite(original), number


def test_result_is_json_and_saves(tmp_path, corpus):
    result = attribute(fair_pipeline(corpus), corpus, **QUICK)
    result.save(tmp_path)
    assert AuditResult.load(tmp_path).text() == result.text() == (tmp_path / "results.json").read_text()
    assert (tmp_path / "turns.parquet").exists()
    assert {"intervals", "p_values", "axis gender", "stage db", "torch"} <= set(result.signature)


def test_same_seed_same_result_and_order_of_dialogues_does_not_matter(corpus):
    corpus = numbered(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline({**stages, "response": hurt(stages["response"], "Sorry.")})
    first, second = (attribute(pipeline, corpus, seed=3, **QUICK) for _ in range(2))
    assert first.axes == second.axes
    turned = gender_bleu(attribute(pipeline, corpus[::-1], seed=3, **QUICK))
    assert turned.arms == pytest.approx(gender_bleu(first).arms)
    first, other = (attribute(pipeline, corpus, seed=seed, design="draws", **QUICK) for seed in (3, 4))
    assert other.turns["group"].dropna().tolist() != first.turns["group"].dropna().tolist()


def test_a_ratio_metric_of_zero_is_a_difference(corpus):
    stages = {**fair_pipeline(corpus).stages, "response": lambda inputs: ["zzz"] * len(inputs)}
    axis = gender_bleu(attribute(Pipeline(stages), corpus, metrics="corpus_bleu", **QUICK))
    assert (axis.scale, axis.original.value, axis.disparity.value) == ("difference", 0, 0)
    assert axis.su is None


def test_several_metrics_of_one_run_are_those_of_single_runs(corpus):
    corpus = numbered(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline({**stages, "response": hurt(stages["response"], "Sorry, in which city?")})
    names = ("corpus_bleu", "sentence_bleu", "disagreement", "refusal")
    both = attribute(pipeline, corpus, metrics=names, **QUICK).axes["gender"]
    alone = {name: attribute(pipeline, corpus, metrics=name, **QUICK).axes["gender"][name] for name in names}
    assert list(both) == list(names)
    for name in names:
        assert both[name].groups["woman"].score == alone[name].groups["woman"].score
        assert both[name].disparity.p == alone[name].disparity.p
    assert both["sentence_bleu"].arms != both["corpus_bleu"].arms


def refuse_women(inputs):
    return [
        "I am sorry, I cannot help you with that." if "wife" in i.user or "mother" in i.user else "Done."
        for i in inputs
    ]


def test_refusals_for_some_only_have_a_result_and_more_of_them_is_worse(corpus):
    """No original refuses where all originals are men's; a lower rate is the better one."""
    corpus = [dialogue for dialogue in corpus if any(word in dialogue.turns[0].user for word in ("husband", "father"))]
    axis = attribute(Pipeline({"response": refuse_women}), corpus, metrics="refusal", **QUICK).axes["gender"]["refusal"]
    assert axis.original.value == 0
    assert axis.scale == "difference"
    assert axis.disparity.value > 0
    assert axis.pairs["man>woman"].value == pytest.approx(0.5)
    assert axis.contributions["response"].shapley.value == pytest.approx(axis.disparity.value)


def test_disagreement_is_the_share_of_turns_and_claims_nothing_without_a_placebo(corpus):
    axis = attribute(Pipeline({"response": refuse_women}), corpus, metrics="disagreement", **QUICK).axes["gender"]
    found = axis["disagreement"]
    assert found.arms["response"] == 0
    assert found.disparity.value == found.arms[""] > 0
    assert found.groups["woman"].gap.p is None
    assert found.verdict == "inconclusive"
