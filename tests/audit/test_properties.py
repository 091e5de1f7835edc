"""What holds for the result of every system, tried with systems of chance."""

import json
import random

import pandas as pd
import pytest
from random_systems import KINDS, WOMEN, audit_of, audited, drawn, people, random_system

from tod_bias import Pipeline, Twin
from tod_bias.systems.hosted import AgentStage, HostedFlow, ask

SYSTEMS = [(seed, seed % 3) for seed in range(1, 6)]
"""Seeds, and numbers of stages with a harm."""
HARMED = [(seed, harms) for seed, harms in SYSTEMS if harms]
CLOSE = {"abs": 1e-9}


def rows_of(result):
    """Every estimate of a gap, with the shares it is split into and the unattributed rest."""
    for row in result.axes["gender"].values():
        yield row.disparity, row
        for group in row.groups.values():
            yield group.gap, group
        if row.widest is not None:
            yield row.widest.gap, row.widest


def said(result):
    """What findings say, without examples."""
    return [finding.model_dump(exclude={"example"}) for finding in result.findings]


@pytest.mark.parametrize("system", HARMED)
def test_shares_add_up_to_every_gap(system):
    gaps = 0
    for gap, row in rows_of(audit_of(*system)):
        shares = sum(part.shapley.value for part in row.contributions.values())
        assert shares == pytest.approx(gap.value, **CLOSE)
        gaps += gap.value != 0
    assert gaps > 10


def hosted(seed, *, swapped=False):
    """An agent that treats women differently in one of its stages, or two, and by itself."""
    places = ("itself", *random.Random(seed).sample(("model", "tools"), seed % 3))

    def value(place, text, *before):
        is_harmed = place in places and any(word in text for word in WOMEN)
        return KINDS[drawn(seed, place, text.split()[-1], is_harmed, *before) % 3]

    async def model(asked, before):
        return {"kind": value("model", asked)}

    async def tools(asked, before):
        return f"{value('tools', asked['text'], asked['kind'])} for {asked['text'].split()[-1]}"

    async def agent(turn):
        kind = (await ask("model", turn.user))["kind"]
        found = await ask("tools", {"text": turn.user, "kind": kind})
        return f"A {value('itself', turn.user)} is booked for case, and a {found}."

    stages = {"model": AgentStage(model, f"model {seed}"), "tools": AgentStage(tools, f"tools {seed}")}
    made = Pipeline(stages, flow=HostedFlow(agent, "Booking"))
    return made.swap(stages) if swapped else made


@pytest.mark.parametrize("seed", range(3))
def test_all_stages_replaced_by_twins_leave_exactly_what_is_unattributed(seed):
    """The gaps of the agent with twins for stages are the unattributed rest of the agent's own gaps."""
    metrics = {"metrics": ["corpus_bleu", "disagreement"]}
    rows, rest = (
        audited(hosted(seed, swapped=swapped), **metrics).axes["gender"]["corpus_bleu"] for swapped in (False, True)
    )
    pairs = [(rows.disparity, rows, rest.disparity)]
    pairs += [(group.gap, group, rest.groups[name].gap) for name, group in rows.groups.items()]
    for gap, row, left in pairs:
        shares = sum(part.shapley.value for part in row.contributions.values())
        assert shares + row.unattributed.value == pytest.approx(gap.value, **CLOSE)
        assert row.unattributed.value == pytest.approx(left.value, **CLOSE)
    assert rows.groups["woman"].unattributed.value != 0


@pytest.mark.parametrize("system", HARMED[:2])
def test_twins_everywhere_answer_as_on_the_original(system):
    """Each word has one counterpart here, so that T changes no n-gram of a reference, and nothing is left."""
    pipeline = random_system(system[0], harms=system[1])
    twins = audited(Pipeline({name: Twin(stage) for name, stage in pipeline.stages.items()}), metrics=["corpus_bleu"])
    own, left = (result.axes["gender"]["corpus_bleu"] for result in (audit_of(*system), twins))
    assert own.disparity.value != 0
    assert [gap.value for gap, _ in rows_of(twins)] == pytest.approx([0.0] * len([*rows_of(twins)]), **CLOSE)
    assert [own.artefact.value, left.artefact.value] == pytest.approx([0.0, 0.0], **CLOSE)
    assert not [finding for finding in twins.findings if finding.is_difference]


def field_of(metric):
    """Stage, field and value of an event of a field; None for any other metric."""
    kind, _, place = metric.partition(":")
    stage, _, field = place.partition(".")
    field, _, value = field.partition("=")
    return (stage, field, value) if kind == "value" else None


@pytest.mark.parametrize("system", HARMED)
def test_counts_of_a_group_are_those_of_the_table_of_turns(system):
    """A value is counted in the outputs of the stage, over the original and the counterfactuals of each dialogue."""
    result = audit_of(*system)
    turns = result.turns
    turns = turns[turns["arm"].isin(["original", ""])]
    source = result.variants.dropna(subset="source").groupby("dialogue")["source"].first()
    group = turns["group"].astype(object).where(turns["role"] != "original", turns["dialogue"].map(source))
    outputs = pd.DataFrame(
        [{name: output for name, _, output, _ in json.loads(facts)["out"]} for facts in turns["facts"]],
        index=turns.index,
    )
    checked = 0
    for metric, row in result.axes["gender"].items():
        if (place := field_of(metric)) is not None:
            stage, field, value = place
            shown = outputs[stage].map(
                lambda output, field=field, value=value: json.dumps(output[field]).strip('"') == value
            )
            for name, found in row.groups.items():
                assert found.counts == (shown[group == name].sum(), 24), (metric, name)
                checked += 1
    assert checked >= 9
    for finding in result.findings:
        assert finding.counts == {
            name: row.counts for name, row in result.axes["gender"][finding.metric].groups.items()
        }


@pytest.mark.parametrize("system", SYSTEMS[:3])
def test_the_order_of_the_dialogues_does_not_matter(system):
    """As long as every group has one word for a term; several are dealt in the order of the corpus."""
    dialogues = people()
    random.Random(system[0]).shuffle(dialogues)
    first, second = audit_of(*system), audited(random_system(system[0], harms=system[1]), dialogues)
    assert [*first.metrics] == [*second.metrics]
    for (one, _), (other, _) in zip(rows_of(first), rows_of(second), strict=True):
        assert [other.value, other.se] == pytest.approx([one.value, one.se], **CLOSE)
    assert [leads(finding) for finding in first.findings] == [leads(finding) for finding in second.findings]


def leads(finding):
    return finding.axis, finding.verdict, finding.group, finding.metric, finding.also, finding.stage, finding.counts


class Note:
    """A stage that looks at the case and not at the group."""

    signature = "note"

    def __call__(self, inputs):
        return [{"number": drawn("note", item.user.split()[-1])} for item in inputs]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("system", SYSTEMS[:2])
def test_a_fair_stage_more_changes_no_finding(system, place):
    stages = [*random_system(system[0], harms=system[1]).stages.items()]
    wider = audited(Pipeline(dict([*stages[:place], ("note", Note()), *stages[place:]])))
    assert said(wider) == said(audit_of(*system))
    for row in wider.axes["gender"].values():
        assert row.contributions["note"].shapley.value == 0
