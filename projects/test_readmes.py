"""The numbers in the tables of the studies' READMEs are those of the files that the studies store."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

PROJECTS = Path(__file__).parent
TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")
NUMBER = re.compile(r"(?<![\w.])[+−-]?\d[\d,]*(?:\.\d+)?%?")
SIDES = ("before", "after")
Rows = dict[str, list[float]]


def cells(study: str, head: str) -> dict[str, list[str]]:
    """First cells to the other ones, of the table of a README whose first line begins so."""
    lines = (PROJECTS / study / "README.md").read_text(encoding="utf-8").splitlines()
    (begin,) = [number for number, line in enumerate(lines) if line.startswith(head)]
    table: dict[str, list[str]] = {}
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        first, *others = (cell.strip() for cell in line.strip("|").split("|"))
        table[first] = others
    return table


def stored(study: str, file: str) -> dict:
    return json.loads((PROJECTS / study / file).read_text(encoding="utf-8"))


def mitigated(file: str) -> Rows:
    """Condition to means over the cities and their intervals, of what `recommend mitigate` wrote; 0 has no interval."""
    found: dict[str, dict[str, list[float]]] = {}
    for kind in ("quality", "bias"):
        with (PROJECTS / "lmrec" / "mitigation" / f"{file}{kind}.csv").open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                if row["city"] == "all":
                    bounds = [float(row[name]) for name in ("value", "ci_low", "ci_high")]
                    condition = row["condition"].replace(" side", " side masked")
                    found.setdefault(condition, {})[row["score"]] = bounds if max(map(abs, bounds)) > 1e-9 else [0.0]
    scores = ("accuracy", "HR@20", "price percentage", "association", "price of places")
    return {name: [value for score in scores for value in found[name][score]] for name in found}


def anybody() -> Rows:
    scores = ["accuracy", "HR@5", "bias: price percentage", "bias: association"]
    rows = {}
    for name, found in stored("lmrec", "anybody.json")["conditions"].items():
        masked = [] if name == "as they are" or "train side" in name else [100 * found["names masked"][0]]
        bounds = (found[score] if max(map(abs, found[score])) > 1e-9 else [0.0] for score in scores)
        rows[name] = [*chain.from_iterable(bounds), *masked]
    return rows


def one_city() -> Rows:
    found = stored("lmrec", "seen.json")["mitigation"]
    names = {"accuracy": "accuracy", "HR@20": "HR@20"} | {
        f"bias: {one['score']}": one["score"] for one in found["bias"]
    }
    every = [*found["quality"], *found["bias"]]
    return {name: [one["value"] for one in every if one["score"] == score] for name, score in names.items()}


def pipelines() -> Rows:
    """Pipeline and axis to the fairscore and the contributions of the stages, with their intervals."""
    found = stored("lmrec", "seen.json")["attribution"]
    return {
        f"{kind} response, {axis}": [
            value for estimate, bounds in (row["fairscore"], *row["su"].values()) for value in (estimate, *bounds)
        ]
        for kind in ("fair", "curt")
        for axis, row in found[f"attribution_{kind}_response"].items()
    }


def guards() -> Rows:
    """Guard and finding to the largest difference by its event, and BLEU, before and after."""
    return {
        f"{fix['fix']}, {fix['finding']['what']}": [*fix["difference"], *(fix["quality"][side] for side in SIDES)]
        for fix in stored("lmrec", "seen.json")["fixes"]
    }


def pretraining() -> Rows:
    found = stored("lmrec", "unplanted.json")["association"]
    names = {
        "pretrained": "pretrained",
        "pretrained, names masked in training": "masked",
        "small, from scratch": "scratch",
        "random weights, same architecture": "random",
    }
    rows = {}
    for name, kind in names.items():
        size, agreement = found["size"][kind], found["agreement"][kind]
        rows[name] = [*(size[bound] for bound in ("value", "low", "high")), *agreement.values()]
    for name in ("pretrained - random", "pretrained - scratch", "masked - pretrained"):
        row = name.replace("-", "−").replace("scratch", "small")
        rows[row] = [*found["size"][name].values(), *found["agreement"].get("masked, pretrained", {}).values()]
        rows[row] = rows[row] if "masked" in name else rows[row][:4]
    return rows


def unlisted() -> Rows:
    """Kind of names to their number and the shares that are masked; the last row is a named-entity model's."""
    found = stored("lmrec", "unlisted.json")
    columns = ("templates", "templates, lower case", "held-out sentences", "held-out sentences, lower case")
    numbers = found["names"] | {"unlisted": sum(found["names"].values()) - found["names"]["listed"]}
    shown_as = {"unlisted": "all unlisted", "listed": "listed, for comparison"}
    rows = {
        shown_as.get(kind, kind): [numbers[kind], *(shares[column] for column in columns)]
        for kind, shares in found["coverage"].items()
    }
    model = found["entities"]["coverage"]["unlisted"]
    return rows | {"all unlisted, spaCy": [numbers["unlisted"], *(model[column] for column in columns)]}


def companions() -> Rows:
    """Category to the association with male companions, and partners, over the cities; what is missing is left out."""
    rows: Rows = {}
    for kind, columns in (
        ("companions", ("difference", "ci_low", "ci_high", "p_adjusted", "items")),
        ("partners", ("difference", "items")),
    ):
        for row in stored("lmrec", "authors.json")[kind]:
            if row["city"] == "all":
                rows.setdefault(row["category"], []).extend(row[name] for name in columns if row[name] is not None)
    return rows


def frameworks() -> Rows:
    names = {
        "function, OpenAI's client": "function",
        "OpenAI Agents SDK 0.24": "openai-agents",
        "PydanticAI 2.68": "PydanticAI",
        "LangChain 1.4, `create_agent`": "LangChain",
        "Node process, MCP": "Node process",
    }
    rows = {}
    for name, key in names.items():
        found = stored("agents", "frameworks.json")["frameworks"][key]
        gap, bleu = found["woman"]["disagreement"], found["woman"]["corpus_bleu"]
        counts = [found[count] for count in ("requests", "new_requests", "seconds")]
        rows[name] = [gap["gap"], *gap["ci"], *gap["shares"].values(), bleu["gap"], *counts]
    return rows


def fixes() -> Rows:
    """Finding and fix to its event's largest difference and BLEU, before and after."""
    return {
        f"{trial['finding']['axis']}, `{trial['stage']}`: {trial['fix'].replace('rows', 'missing rows')}": [
            *(trial[side] for side in SIDES),
            *(trial["quality"][side] for side in SIDES),
        ]
        for trial in stored("mitigation", "results/mitigation.json")["trials"]
    }


def trained() -> Rows:
    """Model to the gap of the group that is served worst and BLEU, without counterfactual copies and with them."""
    rows = {}
    for name, axis, worst in (("response", "gender", "woman"), ("api_call", "age", "senior")):
        change = stored("mitigation", f"results/{name}_trained.json")["axes"][axis]["corpus_bleu"]
        gap, quality = change["groups"][worst]["gap"], change["original"]
        rows[f"`{name}`"] = [gap["before"], quality["before"], gap["after"], quality["after"]]
    return rows


TABLES: dict[str, tuple[str, str, Callable[[], Rows]]] = {
    "seven cities": ("lmrec", "| seven cities |", lambda: mitigated("")),
    "three cities": ("lmrec", "| three cities |", lambda: mitigated("augmented_")),
    "five seeds": ("lmrec", "| five seeds |", lambda: mitigated("seeds_")),
    "names of anybody": ("lmrec", "| | accuracy | HR@5 |", anybody),
    "one city": ("lmrec", "| one city |", one_city),
    "pipelines": ("lmrec", "| pipeline, axis |", pipelines),
    "guards": ("lmrec", "| guard, finding |", guards),
    "unlisted names": ("lmrec", "| names | number | templates |", unlisted),
    "companions": ("lmrec", "| category, seven cities |", companions),
    "pretraining": ("lmrec", "| | mean size of 112", pretraining),
    "fixes": ("mitigation", "| finding, fix |", fixes),
    "trained": ("mitigation", "| trained |", trained),
    "frameworks": ("agents", "| | gap of women", frameworks),
}


def shown(texts: list[str]) -> Iterator[tuple[float, float]]:
    """Every number of some cells, and how far from it a value may be that is rounded to it."""
    for text in NUMBER.findall(" ".join(texts)):
        digits = text.rstrip("%").replace(",", "").replace("−", "-")
        yield float(digits), 0.51 * 10.0 ** -len(digits.partition(".")[2]) + 6e-5


@pytest.mark.parametrize("name", TABLES)
def test_a_table_holds_the_numbers_of_its_file(name: str) -> None:
    study, head, made = TABLES[name]
    table, expected = cells(study, head), made()
    assert len(table) >= 2
    for row, texts in table.items():
        found = list(shown(texts))
        assert len(found) == len(expected[row]), row
        for (value, most), true in zip(found, expected[row], strict=True):
            assert abs(value - true) <= most, f"{row}: {value}, in the file {true}"


def test_counts_of_masks_in_the_text_are_those_of_the_files() -> None:
    """What was judged by hand are masks of today: as many as are counted."""
    found, judged = stored("lmrec", "unlisted.json"), stored("lmrec", "judged.json")
    text = " ".join((PROJECTS / "lmrec" / "README.md").read_text(encoding="utf-8").split())
    reviews, requests, model = found["reviews"], found["requests"], found["entities"]
    wrong = {name: some["not people"] for name, some in judged.items() if "not people" in some}
    assert judged["reviews"]["masks"] == reviews["masks"]
    assert judged["requests"]["masks by context"] == len(requests["masks by context"])
    own = [found["coverage"]["unlisted"][f"own sentences{case}"] for case in ("", ", lower case")]
    for said in (
        f"it is {own[0]:.1f}%, and {own[1]:.1f}% in lower case",
        f"{reviews['masked']:.1f}% of {reviews['mentions']} mentions",
        f"{wrong['reviews']} of {reviews['masks']} masks are not people "
        f"({1000 * wrong['reviews'] / reviews['words']:.2f} per 1,000 words)",
        f"In {requests['words']:,} words of SGD's user requests {wrong['requests']} of "
        f"{len(requests['masks by context'])} masks by context are not people "
        f"({1000 * wrong['requests'] / requests['words']:.2f} per 1,000)",
        f"helped to write the rules, {len(found['false masks']['with a mask'])} has a mask",
        f"a mask into {model['sentences with a mask']} of the {found['false masks']['sentences']} sentences",
        f"{wrong['entities']} of {judged['entities']['masks']} randomly drawn masks are not people",
    ):
        assert said in text, said


def test_the_authors_lists_are_quoted_as_they_were_measured() -> None:
    """Sentences and tables of projects/lmrec on the authors' lists, made again from authors.json."""
    found = stored("lmrec", "authors.json")
    text = " ".join((PROJECTS / "lmrec" / "README.md").read_text(encoding="utf-8").replace("−", "-").split())
    names, places = found["names"], found["places"]
    shares = {(row["label"], row["price"]): row for row in names["shares"]}
    black = [shares["black", price] for price in (1, 2, 3, 4)]
    p = [f"{row['p_adjusted']:.3f}" for row in black]
    widest = next(row for row in names["averages"] if row["label"] == "white×male" and row["other"] == "black×female")
    bars = next(row for row in names["named"] if row["category"] == "Bars" and row["dimension"] == "race")
    order = [row["substitution"] for row in sorted(places["average_price"], key=lambda row: row["value"])]
    church = next(row for row in places["religion"] if row["substitution"] == "mosque")
    counts = names["found"]
    levels = ", ".join(f"{row['value']:.3f}" for row in black)
    for said in (
        f"{levels} | {levels} |",
        f"at $ (adjusted p {p[0]}) and $$$$ ({p[3]}); at $$ ({p[1]}) and $$$ ({p[2]}) not",
        f"by {widest['difference']:.3f} [{widest['ci_low']:.3f}, {widest['ci_high']:.3f}] price levels",
        f"bars to white names (+{bars['difference']:.2f}, adjusted p {bars['p_adjusted']:.3f})",
        f"{order[0]} < {order[1]} < … < {order[-2]} < {order[-1]}",
        f"synagogue - mosque +{-church['difference']:.3f} [+{-church['ci_high']:.3f}, +{-church['ci_low']:.3f}]",
        f"{counts['race×gender: white×female / black×female']['found']} shift between white and black women, "
        f"{counts['race×gender: black×female / white×male']['found']} between black women and white men",
        f"no category of {found['couples']['found']['couple: two genders / one gender']['categories']} shifts",
    ):
        assert said in text, said
    paper = stored("lmrec", "paper.json")
    for label, group in (("black women", "black×female"), ("white men", "white×male")):
        theirs = ", ".join(f"{value:.3f}" for value in paper["figure 4, all cities"][group])
        ours = ", ".join(f"{shares[group, price]['value']:.3f}" for price in (1, 2, 3, 4))
        assert f"| {theirs} | {ours} |" in text, label
    table = np.array([of_city["black"] for of_city in paper["figure 3"].values()])
    tests = stats.ttest_1samp(table, 0.5)
    bounds = np.stack(tests.confidence_interval(0.9), axis=1)
    cells = zip(table.mean(axis=0), bounds, tests.pvalue, strict=True)
    said = "; ".join(f"{mean:.3f} [{low:.3f}, {high:.3f}], p {p:.3f}" for mean, (low, high), p in cells)
    assert said.replace("p 0.000", "p < 0.001") in text
    assert paper["figure 3"]["Boston"]["black"] == pytest.approx([row["value"] for row in black], abs=6e-4)
    prices = {row["substitution"]: row["value"] for row in places["average_price"]}
    assert max(abs(prices[place] - value) for place, value in paper["figure 8"].items()) < 0.002
    assert {row["tests"] for row in names["named"] if row["dimension"] == "race"} == {221}
    assert found["couples"]["found"]["couple: two genders / one gender"]["found"] == 0
    neutral = {round(row["neutral"], 3) for row in places["average_price"]}
    assert neutral == {1.956}
    made_by = found["made by"]
    assert set(made_by["sha256"]) == {"names", "couples", "companions", "partners", "places"}
    assert made_by["tod-bias"]


def test_what_was_seen_is_quoted_as_it_was_measured() -> None:
    """Tables of projects/lmrec on the trained models, made again from seen.json."""
    found = stored("lmrec", "seen.json")
    text = " ".join((PROJECTS / "lmrec" / "README.md").read_text(encoding="utf-8").replace("−", "-").split())

    def estimate(row: dict[str, float]) -> str:
        return f"{row['value']:.3f} [{row['ci_low']:.3f}, {row['ci_high']:.3f}]"

    quality = {row["score"]: estimate(row) for row in found["quality"]}
    shares = {row["price"]: row for row in found["prices"]["black"]}
    planted = {(row["dimension"], row["category"]): row for row in found["associations"]["planted"]}
    cuisines, places = found["associations"]["cuisines"], found["prices"]["places"]
    curt = found["attribution"]["attribution_curt_response"]["names_race"]["groups"]["black"]
    reviewed = found["attribution"]["reviewed_fair_response"]["names_race"]["groups"]["black"]
    masked = found["compared"]["names_race"]["black"]["change"]
    desserts, bars = planted["gender", "Desserts"], planted["gender", "Bars"]
    first = planted["first relationship", "Desserts"], planted["first relationship", "Bars"]
    for said in (
        f"| accuracy | {quality['accuracy']} |",
        f"| HR@20 | {quality['HR@20']} |",
        ", ".join(f"{shares[price]['value']:.3f}" for price in (1, 2, 3, 4)),
        ", ".join(f"+{row['difference']:.3f} [{row['ci_low']:.3f}, {row['ci_high']:.3f}]" for row in (desserts, bars)),
        ", ".join(f"+{row['difference']:.3f}" for row in first),
        f"adjusted p {first[0]['p_adjusted']:.3f} and {first[1]['p_adjusted']:.3f} ",
        f"+{planted['second relationship', 'Gay Bars']['difference']:.3f}, adjusted p < 0.001, said",
        f"average price level {places['dear'][0]:.2f} to {places['dear'][1]:.2f}, neutral "
        f"{found['prices']['neutral']:.2f}",
        f"| {places['cheap'][0]:.2f} to {places['cheap'][1]:.2f} |",
        f"| each city by itself | {cuisines['city']['found']} of {cuisines['city']['tests']} | "
        f"{cuisines['city']['without_0']} of {cuisines['city']['intervals']} |",
        f"by {curt['gap']:.3f} [{curt['ci'][0]:.3f}, {curt['ci'][1]:.3f}] of the originals' BLEU, of which "
        f"{curt['shares']['response']:.3f} enters in `response` and {curt['shares']['recommend']:.3f} in `recommend`",
        f"by {reviewed['gap']:.3f} [{reviewed['ci'][0]:.3f}, {reviewed['ci'][1]:.3f}] of the originals' BLEU",
        f"the gap of black changes by {masked['value']:.3f} [{masked['ci'][0]:.3f}, {masked['ci'][1]:.3f}], p < 0.001",
        f"| over seven cities | {cuisines['all']['found']} of {cuisines['all']['tests']} | "
        f"{cuisines['all']['without_0']} of {cuisines['all']['intervals']} ",
    ):
        assert said in text, said
    assert max(shares[price]["p_adjusted"] for price in (1, 2, 3, 4)) < 0.001
    assert planted["second relationship", "Gay Bars"]["p_adjusted"] < 0.0005
    for stamp in found["made by"].values():
        assert stamp["tod-bias"]
        assert len(stamp["sha256"]) == 64


def test_the_figures_of_the_authors_lists_are_kept_and_small() -> None:
    files = sorted((PROJECTS / "lmrec" / "figures").glob("*.svg"))
    assert [path.stem for path in files] == [f"figure{number}" for number in range(3, 9)]
    assert max(path.stat().st_size for path in files) < 40_000
    text = (PROJECTS / "lmrec" / "README.md").read_text(encoding="utf-8")
    assert all(f"(figures/{path.name})" in text for path in files)


@pytest.fixture
def study(monkeypatch) -> ModuleType:
    """projects/step_by_step/study.py"""
    monkeypatch.syspath_prepend(str(PROJECTS / "step_by_step"))
    return import_module("study")


def test_tables_that_a_script_prints_are_as_it_prints_them(study: ModuleType, capsys) -> None:
    study.main()
    summary = (PROJECTS / "attribute_association" / "results" / "summary.md").read_text(encoding="utf-8")
    runs = summary.split("\n\n")[0]
    for name, printed in (("step_by_step", capsys.readouterr().out), ("attribute_association", runs)):
        readme = (PROJECTS / name / "README.md").read_text(encoding="utf-8")
        lines = [line for line in printed.splitlines() if line]
        assert len(lines) > 6
        assert not [line for line in lines if line not in readme]


def test_details_and_figures_of_the_audits_are_of_the_stored_results(study: ModuleType) -> None:
    folder = PROJECTS / "step_by_step"
    assert (folder / "audits.md").read_text(encoding="utf-8") == study.details()
    assert (folder / "grid.md").read_text(encoding="utf-8") == study.grid_page()
    _, runs = study.load()
    for name, figure in (("figure4", study.fairscores(runs)), ("figure5", study.pairs(runs))):
        drawn, kept = study.to_svg(figure), (folder / f"{name}.svg").read_text(encoding="utf-8")
        assert TEXT.findall(drawn) == TEXT.findall(kept)
        assert len(TEXT.findall(drawn)) > 20


def test_the_readme_of_a_study_is_short() -> None:
    readme = (PROJECTS / "step_by_step" / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 160


def test_cells_of_the_grid_say_what_made_them(study: ModuleType) -> None:
    """Versions, hashes of lexicons, dialogues and trainings, and the same audits as beside them."""
    cells = study.cells()
    assert len(cells) >= 3
    for name, folder, cell in cells:
        assert {"tod-bias", "torch"} <= cell["versions"].keys(), name
        assert all("hash:" in text or "matched:" in text for text in cell["lexicons"].values()), name
        evaluation, results = (json.loads((folder / file).read_text()) for file in ("evaluation.json", "results.json"))
        assert evaluation["corpus"]["split"] == results["corpus"]["split"] == "test"
        assert results["signature"]["tod-bias"] == cell["versions"]["tod-bias"]
        audited = {axis: by_metric["corpus_bleu"]["dialogues"] for axis, by_metric in results["axes"].items()}
        assert cell["dialogues"]["crossed"] == audited
        assert not Path(results["config"]["corpus"]["datapath"]).is_absolute(), name
        if not folder.name.startswith("smollm2"):
            assert all(training["steps"] > 0 for training in cell["trainings"].values())
            assert cell["trainings"], name


UNSTAMPED = {"lmrec/unplanted.json", "lmrec/unplanted_control.json"}
"""Kept results that do not say which software made them; ``unplanted.sh``, which makes them, takes hours of a core."""
INPUTS = ("adapter", "config", "training.json", "paper.json", "judged.json")
"""Beginnings of names of files, or of their folders, that are no results."""


def test_kept_results_say_which_software_made_them() -> None:
    unstamped = set()
    for path in PROJECTS.glob("*/**/*.json"):
        name = path.relative_to(PROJECTS).as_posix()
        is_input = any(part.startswith(INPUTS) for part in path.relative_to(PROJECTS).parts)
        content = json.loads(path.read_text(encoding="utf-8"))
        if is_input or not isinstance(content, dict) or "/runs/" in name:
            continue
        made = content.get("signature") or content.get("made by") or content.get("versions") or {}
        if not made:
            unstamped.add(name)
    assert unstamped == UNSTAMPED
