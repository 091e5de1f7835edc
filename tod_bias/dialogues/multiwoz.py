"""MultiWOZ 2.2 (Zang et al. 2020) from ``DATAPATH/multiwoz_v22/``.

MultiWOZ has no API calls. They are derived as ParlAI's ``multiwoz_v22`` does with its default options: from
the user's dialogue state, where the system's dialogue acts inform, offer nothing or book; the result is the first
matching row of the domain's database with the ``COUNT`` of all, or what the act says. Dialogues with a hospital or the
police are left out, as their database is not well formed.

ParlAI's task carries two things from one dialogue to the next, in the order in which the file system names the files;
here they do not depend on other dialogues: a call is dropped when it repeats the last one of the *same* dialogue, and
equal calls are looked up each on their own. Values that a database row lacks are left out, where ParlAI writes ``nan``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.distribution import Distribution, joined
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import CorpusError
from tod_bias.io.documents import loads

MULTIWOZ = Distribution(
    "multiwoz_v22",
    "MultiWOZ 2.2",
    "multiwoz_v22",
    "budzianowski/multiwoz on GitHub (MultiWOZ_2.2)",
    "multiwoz_v22",
)
DOMAINS = ("attraction", "bus", "hotel", "restaurant", "taxi", "train")
"""Domains that are read; dialogues with other services are left out."""
_OTHER_DOMAINS = ("hospital", "police")
"""Still, a user's state may ask for one of them."""

Acts = Mapping[str, Sequence[Sequence[str]]]
"""A system turn's dialogue acts: ``Restaurant-Inform`` and the like to pairs of slot and value."""


def read_multiwoz_v22(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """The dialogues of a split, in order of their files; ids are those of the corpus (``PMUL4398.json``).

    Raises:
        CorpusError: a file is not there, or not in MultiWOZ 2.2's format; names the file and the dialogue.
    """
    files = MULTIWOZ.split_files(datapath, split)
    folder = files[0].parent.parent
    ontology = Ontology(folder)
    acts = MULTIWOZ.records(folder / "dialog_acts.json", dict)
    for file in files:
        for number, record in enumerate(MULTIWOZ.records(file, list), start=1):
            with MULTIWOZ.reading(file, f"dialogue {number}"):
                services = record["services"]
                if not services or not set(services) <= set(DOMAINS):
                    continue
                name = record["dialogue_id"]
                if name not in acts:
                    raise CorpusError(f"{folder / 'dialog_acts.json'}: holds no acts of dialogue {name!r} of {file}")
                dialogue = Dialogue(name, joined(services), tuple(_turns(record["turns"], acts[name], ontology)))
            yield dialogue


def _turns(spoken: Sequence[Mapping[str, Any]], acts: Mapping[str, Any], ontology: Ontology) -> Iterator[Turn]:
    last: dict[str, str] = {}
    for number, (user, system) in enumerate(zip(spoken[::2], spoken[1::2], strict=True)):
        if (user["speaker"], system["speaker"]) != ("USER", "SYSTEM"):
            raise ValueError("turns do not alternate between USER and SYSTEM")
        call, result = _exchange(user.get("frames", []), acts[str(2 * number + 1)]["dialog_act"], ontology)
        if call == last:
            call, result = {}, {}
        last = call or last
        yield Turn.with_call(user["utterance"], call, result, system["utterance"])


def _answers_search(act: str, pairs: Sequence[Sequence[str]], intent: str, ontology: Ontology) -> bool:
    """True if an act gives the outcome of a search: no results, or slots of its results."""
    if "NoOffer" in act:
        return True
    return "Inform" in act and all(pair[0] == "choice" or ontology.has(intent, pair[0]) for pair in pairs)


def _exchange(
    frames: Sequence[Mapping[str, Any]], acts: Acts, ontology: Ontology
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the call and its result for a user's state and the acts of the answer; the last frame counts."""
    call: dict[str, str] = {}
    result: dict[str, str] = {}
    for frame in frames:
        state = frame.get("state", {})
        intent = state.get("active_intent", "NONE")
        if intent == "NONE":
            continue
        start = len(frame["service"]) + 1
        constraints = {slot[start:]: values for slot, values in state["slot_values"].items()}
        constrained = {**{slot: values[0] for slot, values in constraints.items()}, API_NAME: intent}
        for act, pairs in acts.items():
            if "find" in intent and _answers_search(act, pairs, intent, ontology):
                call, result = constrained, ontology.find(intent, constraints, acts)
            elif "book" in intent and "Book" in act:
                call, result = constrained, {pair[0]: pair[1] for pair in pairs}
    return call, result


class Ontology:
    """The slots of every intent and the databases, read when first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[str, list[dict[str, Any]]] = {}

    @cached_property
    def _slots(self) -> dict[str, set[str]]:
        slots = {}
        path = self._folder / "schema.json"
        with MULTIWOZ.reading(path):
            for service in MULTIWOZ.records(path, list):
                start = len(service["service_name"]) + 1
                of_service = {slot["name"][start:] for slot in service["slots"]}
                for intent in service["intents"]:
                    slots[intent["name"]] = of_service
        slots.setdefault("find_taxi", slots.get("book_taxi", set()))  # the dialogues call it so, the schema does not
        return slots

    def has(self, intent: str, slot: str) -> bool:
        """True if an intent has a slot."""
        return slot in self._slots.get(intent, ())

    def find(self, intent: str, constraints: Mapping[str, list[str]], acts: Acts) -> dict[str, str]:
        """The first row that meets the constraints, and what the system recommends, with the ``COUNT`` of all."""
        domain = next((domain for domain in (*DOMAINS, *_OTHER_DOMAINS) if domain in intent), None)
        if domain is None:
            raise ValueError(f"unknown intent {intent!r}")
        if domain == "hospital":
            return self._find_department(constraints)
        if domain == "taxi":  # it has no database
            informed = acts.get("Taxi-Inform")
            return {pair[0]: pair[1] for pair in informed} if informed is not None else {domain: domain}
        wanted = dict(constraints)
        for act, pairs in acts.items():
            if "Recommend" in act:
                recommended: dict[str, list[str]] = {}
                for slot, value, *_ in pairs:
                    if self.has(intent, slot):
                        recommended.setdefault(slot, []).append(value)
                wanted |= recommended
        rows = [row for row in self._rows(domain) if all(_meets(row, *item) for item in wanted.items())]
        return {**{slot: _text(value) for slot, value in rows[0].items()}, "COUNT": str(len(rows))} if rows else {}

    def _find_department(self, constraints: Mapping[str, list[str]]) -> dict[str, str]:
        """Return the hospital's address, which is in comments of its file, and the department if one is requested."""
        path = self._folder / "db" / "hospital_db.json"
        lines = MULTIWOZ.text(path).splitlines()
        with MULTIWOZ.reading(path, "after its comments"):
            departments = loads("\n".join(line for line in lines if not line.startswith("#")))
        parts = [line.strip("# ").lower().partition(":") for line in lines[1:] if line.startswith("# ")]
        wanted = constraints.get("department", ())
        phones = {row["department"]: str(row) for row in departments if row["department"] in wanted}
        return {name: value for name, _, value in parts} | phones

    def _rows(self, domain: str) -> list[dict[str, Any]]:
        if domain not in self._tables:
            rows = MULTIWOZ.records(self._folder / "db" / f"{domain}_db.json", list)
            self._tables[domain] = [{slot.lower().replace(" ", ""): row[slot] for slot in row} for row in rows]
        return self._tables[domain]


_COMPARISONS: Mapping[str, Callable[[str, str], bool]] = {
    "arriveby": lambda value, bound: value < bound,
    "leaveat": lambda value, bound: value > bound,
}
"""Times are compared, as text; everything else must be one of the values."""


def _meets(row: Mapping[str, Any], slot: str, values: Sequence[str]) -> bool:
    if slot in _COMPARISONS:
        return _COMPARISONS[slot](row[slot], values[0])
    return row.get(slot) in values


def _text(value: Any) -> str:
    return str(value) if isinstance(value, (str, dict)) else joined(value)
