"""Requests and replies as OpenAI batch files, so that the models of an audit can run elsewhere.

One line per request, ``{"custom_id": …, "method": "POST", "url": "/v1/chat/completions", "body": {…}}``; the replies
come back as lines with the same ``custom_id`` and ``{"response": {"status_code": 200, "body": {…}}}``. A provider's
batch API and ``vllm run-batch`` read the one and write the other. A stage that reads another's output can only be
called when that is known, so a run takes several rounds, with a file per round and stage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tod_bias.cache import Cache
from tod_bias.dialogues.text import json_line
from tod_bias.documents import loads, text_lines
from tod_bias.errors import PendingError, TodBiasError, shortened
from tod_bias.files import write_lines
from tod_bias.folder import writable
from tod_bias.systems.chat.client import PATH, problem_of
from tod_bias.systems.chat.replies import bounded
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import RemoteStage, innermost

_KEY = re.compile(r"chat-[0-9a-f]{32}")
_FILE = re.compile(r"wave(\d+)_.*\.jsonl")
_MOST = 50_000
"""Requests in one file, as OpenAI allows."""
_LARGEST = 190_000_000
"""Characters in one file; OpenAI takes 200 MB."""
_PASSING = (408, 409, 425, 429)

Pending = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Stage to the requests that must still be sent, by key."""


def check_calls_server(pipeline: Pipeline) -> None:
    """See to it that batch files have anything to hold.

    Raises:
        TodBiasError: no stage of a pipeline calls a server.
    """
    if not any(isinstance(innermost(stage), RemoteStage) for stage in pipeline.stages.values()):
        raise TodBiasError("batch files hold requests to servers, and no stage calls one; leave them out")


def write_batches(folder: str | Path, pending: Pending) -> PendingError:
    """Write the requests that must still be sent; where the files of the last round hold just these, they stay.

    Args:
        folder: for the files, ``wave001_policy.jsonl``.
        pending: the requests.

    Returns:
        The error that says which files wait.
    """
    folder = writable(folder)
    wanted = {key for some in pending.values() for key in some}
    rounds: dict[int, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if match := _FILE.fullmatch(path.name):
            rounds.setdefault(int(match[1]), []).append(path)
    last = max(rounds, default=0)
    files = rounds.get(last, [])
    if not files or {key for path in files for key in _keys_in(path)} != wanted:
        files = _written(folder, pending, last + 1)
    names = ", ".join(path.name for path in files)
    return PendingError(
        f"{len(wanted)} requests wait in {folder}: {names}; have them answered (a provider's batch API, vllm "
        "run-batch), then run the same command with --batch-in and all output files",
        files,
    )


def _keys_in(path: Path) -> Iterator[str]:
    for _, record in _records(path):
        yield str(record.get("custom_id"))


def _written(folder: Path, pending: Pending, wave: int) -> list[Path]:
    files: list[Path] = []
    done: set[str] = set()
    for name, requests in pending.items():
        lines = [_line(key, body) for key, body in requests.items() if key not in done]
        done.update(requests)
        stem = f"wave{wave:03d}_{re.sub(r'[^A-Za-z0-9_-]+', '_', name)}"
        parts = list(_parts(lines))
        for number, part in enumerate(parts, start=1):
            path = folder / (f"{stem}.jsonl" if len(parts) == 1 else f"{stem}_{number}.jsonl")
            write_lines(path, part)
            files.append(path)
    return files


def _line(key: str, body: Mapping[str, Any]) -> str:
    return json_line({"custom_id": key, "method": "POST", "url": f"/v1{PATH}", "body": body})


def _parts(lines: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for line in lines:
        if part and (len(part) >= _MOST or size + len(line) > _LARGEST):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


def read_batches(paths: Sequence[str | Path], cache: Cache) -> dict[str, str]:
    """Put the outputs that batch output files hold into a cache.

    Lines that are requests (a folder may hold both) are passed over, and so are failures that may pass: these requests
    are sent again.

    Args:
        paths: files, or folders of ``.jsonl`` files; all there are, as refusals are not cached.
        cache: where outputs go.

    Returns:
        Key to reason, of requests that were refused for good.

    Raises:
        TodBiasError: a file cannot be read or holds what is no batch output; it holds no output of this project's.
    """
    refused: dict[str, str] = {}
    given = [Path(path) for path in paths]
    files = [file for path in given for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    count = 0
    for file in files:
        outputs: dict[str, str] = {}
        for number, record in _records(file):
            key = record.get("custom_id")
            if "body" in record and "response" not in record:
                continue
            if not isinstance(key, str) or not _KEY.fullmatch(key):
                raise TodBiasError(f"{file}, line {number}: custom_id {key!r:.60} is of no request of ours")
            count += 1
            output, reason = _read_reply(record)
            if output is not None:
                outputs[key] = output
                refused.pop(key, None)
            elif reason:
                refused[key] = reason
        cache.put(outputs)
    if not count:
        raise TodBiasError(f"--batch-in {', '.join(map(str, paths))}: holds no output; expected batch output files")
    return refused


def _read_reply(record: Mapping[str, Any]) -> tuple[str | None, str]:
    """The output in a line of a batch output file as JSON, or why the request was refused for good; neither of a
    failure that may pass."""
    response = record.get("response")
    status = response.get("status_code", 200) if isinstance(response, Mapping) else None
    body = response.get("body") if isinstance(response, Mapping) else None
    if status == 200 and not record.get("error"):
        problem = problem_of(body)
        if problem or not isinstance(body, Mapping):
            return None, f"the reply is no chat completion: {problem}"
        return json.dumps(bounded(body)), ""
    if isinstance(status, int) and 400 <= status < 500 and status not in _PASSING:
        return None, shortened(f"status {status}: {record.get('error') or body}", 300)
    return None, ""


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        for number, line in text_lines(path):
            try:
                record = loads(line)
            except ValueError as error:
                raise TodBiasError(f"{path}, line {number}: no JSON: {error}") from error
            if not isinstance(record, Mapping):
                raise TodBiasError(f"{path}, line {number}: expected an object, got {type(record).__name__}")
            yield number, record
    except (OSError, UnicodeDecodeError) as error:
        raise TodBiasError(f"{path}: cannot be read: {error}") from error
