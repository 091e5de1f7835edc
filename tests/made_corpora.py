"""Small files in the formats of corpora that cannot be had here, or of which the samples show too little.

Every dialogue is made up. Each writer fills a datapath in ParlAI's layout with the mark by which ParlAI knows that
nothing is to be fetched, and shows what the format allows: utterances in a row, silence, slots without values, numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

COUNT = 57
"""Dialogues in a corpus or domain; no multiple of ten, which shows how splits are rounded."""


def folder_of(datapath: Path, name: str, version: str) -> Path:
    """A new folder of a corpus that ParlAI takes as built."""
    folder = datapath / name
    folder.mkdir(parents=True)
    (folder / ".built").write_text(f"2026-01-01 00:00:00\n{version}")
    return folder


def write_lines(path: Path, records: Iterable[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def said(speaker: str, text: str, *segments: tuple[str, str], **fields: Any) -> dict[str, Any]:
    """An utterance of Taskmaster; segments are text and annotation, several annotations joined by blanks."""
    marked = [{"text": text, "annotations": [{"name": name} for name in names.split()]} for text, names in segments]
    return {"speaker": speaker, "text": text, **({"segments": marked} if segments else {}), **fields}


TASKMASTER = (
    [
        said("USER", "A table for my mother."),
        said("USER", "At eight.", ("eight", "restaurant_reservation.time.reservation restaurant_reservation.time")),
        said("ASSISTANT", "For whom?", ("whom", "restaurant_reservation.name.reservation.accept"), ("?", "other")),
        said("USER", "For Mrs. Park; she = my wife | me.", ("Mrs. Park", "restaurant_reservation.name"), ("", "a.")),
    ],
    [
        said("ASSISTANT", "Hello.", ("Hello", "greeting.word")),
        said("ASSISTANT", "How can I help?"),
        said("USER", "My husband\nneeds a ride."),
        said("ASSISTANT", "Where to?"),
    ],
    [said("ASSISTANT", "Is your mother there?")],
    [said("USER", "Hello"), said("OPERATOR", "This call is recorded.")],
    [said("USER", "Hello"), {"text": "Hm."}],
    [],
)


def write_taskmaster(datapath: Path, dialogues: Sequence[Any] = TASKMASTER, count: int = COUNT) -> Path:
    """Taskmaster-1: the dialogues in turn, over both files."""
    folder = folder_of(datapath, "taskmaster-1", "1.02")
    rows = [
        {"conversation_id": f"dlg-{n}", "instruction_id": f"pizza-ordering-{n % 4}", "utterances": utterances}
        for n in range(count)
        for utterances in [dialogues[n % len(dialogues)]]
    ]
    (folder / "self-dialogs.json").write_text(json.dumps(rows[: count // 2 + 1]))
    (folder / "woz-dialogs.json").write_text(json.dumps(rows[count // 2 + 1 :]))
    return datapath


def call(name: str, response: dict[str, Any], **args: Any) -> dict[str, Any]:
    return {"name": name, "index": 0, "args": args, "response": response}


FIND = call("find_movies", {"name.movie_1": "Up", "seats": [2, 10, "a "]}, genre="for my daughter", year=2009)
BOOK = call("book_tickets", {"status": "success", "paid": 12.5, "seat": {"row": 1}}, count=2, late=True, api_name="x")
TASKMASTER_3 = (
    [
        said("user", "A film for my daughter.", apis=[FIND]),
        said("assistant", "There is Up.", apis=[]),
        said("user", "Two, please."),
        said("user", "She loves it.", apis=[BOOK]),
        said("assistant", "Booked.", apis=[FIND, BOOK]),
        said("user", "Thanks."),
    ],
    [said("assistant", "Hello."), said("assistant", "Movies?", apis=[FIND, BOOK]), said("user", "For my wife.")],
    [said("user", "Nothing, sir.")],
    [],
)


def write_taskmaster3(datapath: Path, dialogues: Sequence[Any] = TASKMASTER_3, count: int = COUNT) -> Path:
    """Taskmaster-3: the dialogues in turn, over the first two of its files."""
    folder = folder_of(datapath, "taskmaster-3", "1.0")
    (folder / "apis.json").write_text(json.dumps({"find_movies": {"args": {"all_of": ["genre"]}}}))
    rows = [
        {"conversation_id": f"dlg-{n}", "vertical": "Movie Tickets", "utterances": dialogues[n % len(dialogues)]}
        for n in range(count)
    ]
    for number in range(20):
        part = rows[number::2] if number < 2 else []
        (folder / f"data_{number:02d}.json").write_text(json.dumps(part))
    return datapath


TASKS = [
    {
        "task_id": f"t{number}",
        "domain": "ANY",
        "bot_prompt": "You help people.",
        "bot_role": f"You are bot {number}. Be kind to the user and his wife.",
        "user_prompt": "Ask the bot.",
        "user_role": f"Ask for your mother, {number} times.",
    }
    for number in range(3)
]
METALWOZ = (
    ["Hello how may I help you?", "A bus for my mother", "She can take the 5", "Thanks"],
    ["Hello how may I help you?", "My husband wants tea", "Green?", "He likes it black", "Fine"],
    ["Hello how may I help you?"],
    [],
)


def write_metalwoz(datapath: Path, count: int = COUNT) -> Path:
    """MetaLWOZ: two domains to train, one to test; one dialogue of an unknown task, and a task that is there twice."""
    folder = folder_of(datapath, "metalwoz", "1.0")
    for name, domains in (("train", ("BUS_BOT", "TEA_BOT")), ("test", ("SKI_BOT",))):
        write_lines(folder / name / "tasks.txt", [*TASKS, {**TASKS[2], "bot_role": "You are another bot."}])
        for domain in domains:
            rows = [
                {
                    "id": f"{domain.lower()}-{n}x",
                    "user_id": f"u{n}",
                    "bot_id": f"b{n}",
                    "domain": domain,
                    "task_id": f"t{n % 4}",
                    "turns": METALWOZ[(n // 4) % 4],
                }
                for n in range(count)
            ]
            write_lines(folder / name / "dialogues" / f"{domain}.txt", rows)
    return datapath


MSR_E2E = (
    [
        ("user", "I and my wife want to see Up", "request(ticket;numberofpeople=2)", "inform(moviename=Up;other=we)"),
        ("agent", "Which city?", "request(city)"),
        ("user", "Seattle = home", "inform(city=Seattle = home)", "thanks()", ""),
        ("user", "tonight", "inform(date=tonight)", "confirm_question(date=tonight)"),
        ("agent", 'At "Regal" or AMC?', "multiple_choice(theater=Regal#AMC;mc_list)", "inform(starttime=9pm)"),
        ("agent", "Both at 9", "inform(price={$5#$6})"),
        ("user", "thank you, sir", "thanks()"),
    ],
    [("agent", "Hello", "greeting()", "inform(greeting=hello)"), ("user", "my mother says hi", "request(inform(x=1)")],
    [("user", "a cab for my mother", "inform(name=mother)"), ("agent", "ok", "inform(result=done)")],
    [("agent", "Anybody\tthere?\nMy husband?")],
)
DOMAINS = ("movie", "restaurant", "taxi")


def write_msr_e2e(datapath: Path, count: int = COUNT) -> Path:
    """MSR-E2E: the dialogues in turn, in every domain; the last has the number of the first again."""
    folder = folder_of(datapath, "msr_e2e", "1.0")
    for domain in DOMAINS:
        lines = ["session.ID\tMessage.ID\tMessage.Timestamp\tMessage.From\tMessage.Text\t\t"]
        for number in range(count):
            session = number % (count - 1) + 1
            for place, (speaker, text, *acts) in enumerate(MSR_E2E[number % len(MSR_E2E)], start=1):
                cells = [str(session), str(place), "2016-01-01", speaker, text, *acts]
                lines.append("\t".join(map(_cell, cells)))
        (folder / f"{domain}_all.tsv").write_text("\n".join(lines) + "\n")
    return datapath


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in '"\t\n') else text


MULTIDOGO = (
    (
        ("customer", "Good morning", "O O"),
        ("agent", "Hello! How can I help you, madam?", ""),
        ("customer", "My mother, Ann Lee, needs a seat", "O O first_name last_name O O O"),
        ("customer", "2 seats", "count O"),
        ("agent", "A seat for her.", ""),
        ("agent", "Which one?", ""),
        ("customer", "9C", "seat"),
        ("customer", "or 9D", "O seat"),
    ),
    (("agent", "Hello, sir.", ""), ("customer", "bye", "O"), ("agent", "Bye, sir", ""), ("agent", ".", "")),
    (("customer", "my wife", "O who"),),
)
MULTIDOGO_DOMAINS = ("airline", "fastfood", "finance", "insurance", "media", "software")


def write_multidogo(datapath: Path) -> Path:
    """MultiDoGO as it is handed out, before ParlAI's builder: every dialogue in every domain and split.

    A fourth dialogue has labels and no text, a fifth has labels for an utterance that nobody says.
    """
    folder = folder_of(datapath, "multidogo", "v1.1") / "multi-domain-goal-oriented-dialogues-dataset-master" / "data"
    (folder / "unannotated").mkdir(parents=True)
    for domain in MULTIDOGO_DOMAINS:
        spoken = ["conversationId,turnNumber,utteranceId,utterance,authorRole"]
        for file in ("train", "dev", "test"):
            labelled = ["conversationId\tturnNumber\tutteranceId\tutterance\tslot-labels\tintent"]
            for name, conversation in zip("abcd", (*MULTIDOGO, MULTIDOGO[2]), strict=True):
                name = f"{domain}-{file}-{name}"
                for number, (role, text, labels) in enumerate(conversation):
                    spoken.append(f'acs-{name}-1,{number},u,"{text}",{role}')
                    if labels:
                        labelled.append(f"{name}\t{number}.0\tu\t{text.lower()}\t{labels}\tintent")
            labelled += [f"{domain}-{file}-d\t7\tu\tnobody\tO\tintent", f"{domain}-{file}-e\t0\tu\tnobody\tO\tintent"]
            place = folder / "paper_splits" / "splits_annotated_at_turn_level" / domain
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{file}.tsv").write_text("\n".join(labelled) + "\n")
        (folder / "unannotated" / f"{domain}.tsv").write_text("\n".join(spoken) + "\n")
    return datapath
