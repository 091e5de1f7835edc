"""Agents in separate processes: a line with the messages in, a line with the response out.

Other lines than JSON objects are logs: some libraries write warnings to the standard output.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import secrets
import shlex
import shutil
import signal
import weakref
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tod_bias.errors import StageError, UnansweredError, shortened

log = logging.getLogger(__name__)

_LONGEST = 1 << 22
"""Bytes of a line."""
_TAIL = 2000
"""Bytes of a process's last log lines that are kept for a message."""
_ENDING = 2.0
"""Seconds for a process to end after it closed its output."""


def new_key() -> str:
    """Return a random key that assigns requests to their turn."""
    return f"sk-tod-bias-{secrets.token_hex(20)}"


def response_in(text: str | bytes, where: str) -> str:
    """The response in ``{"content": "…"}``.

    Raises:
        UnansweredError: it is none.
    """
    try:
        content = json.loads(text)["content"]
        if isinstance(content, str):
            return content
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    shown = shortened(text.decode(errors="replace") if isinstance(text, bytes) else text, 120)
    raise UnansweredError(f'{where}: expected {{"content": "…"}}, got {shown!r}')


class AgentProcess:
    """A process that serves one turn at a time.

    Args:
        process: as it was started.
        key: its key to the proxy.
        where: name of the process in messages.
        note_log: called with each line of standard output that is not a response.
    """

    def __init__(self, process: Process, key: str, where: str, note_log: Callable[[str], None]) -> None:
        self.key = key
        self.loop = asyncio.get_running_loop()
        self.process, self._where, self._note_log = process, where, note_log
        self._logged = b""
        self._line = asyncio.ensure_future(self._next_line())
        self._reading = asyncio.ensure_future(self._read_errors())

    @property
    def is_ready(self) -> bool:
        """True if the process waits for a turn: it has neither ended nor written unexpected output."""
        return self.loop is asyncio.get_running_loop() and not self._line.done()

    async def _next_line(self) -> bytes:
        """Return the next line that is not a log; empty at the end of the output."""
        assert self.process.stdout is not None
        while (line := await self.process.stdout.readline()) and not line.lstrip().startswith(b"{"):
            if line.strip():
                self._note_log(line.decode(errors="replace").strip())
                self._note(line)
        return line

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        while part := await self.process.stderr.read(1 << 16):
            self._note(part)

    def _note(self, part: bytes) -> None:
        self._logged = (self._logged + part)[-_TAIL:]

    async def respond(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The response to messages.

        Raises:
            UnansweredError: the process ended, or wrote something else.
        """
        assert self.process.stdin is not None
        with suppress(ConnectionError):
            self.process.stdin.write(json.dumps({"messages": messages}).encode() + b"\n")
            await self.process.stdin.drain()
        try:
            line = await self._line
        except ValueError:
            raise UnansweredError(f"{self._where}: wrote a line of more than {_LONGEST >> 20} MB") from None
        if not line:
            raise UnansweredError(await self._how_it_ended())
        response = response_in(line, f"{self._where}: of the line that it wrote")
        self._line = asyncio.ensure_future(self._next_line())
        return response

    async def _how_it_ended(self) -> str:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(self.process.wait(), self._reading), _ENDING)
        code = self.process.returncode
        how = "closed its output" if code is None else f"ended with exit code {code}"
        if code == 0:
            return f"{self._where}: {how} in the middle of a turn: it has to read line by line until its input ends"
        said = _last_words(self._logged.decode(errors="replace"))
        return f"{self._where}: {how} in the middle of a turn" + (f": {shortened(said, 300)}" if said else "")

    def kill(self) -> None:
        """End it, and the processes that it started."""
        _kill(self.process)
        if self.loop.is_running():
            for task in (self._line, self._reading):
                self.loop.call_soon_threadsafe(task.cancel)


_TRAILING = re.compile(r"\s|[\]})]|Node\.js v")
"""Beginnings of lines that follow an error: its place, its content, and Node's version."""


def _last_words(log: str) -> str:
    """Return the line that explains why a process ended."""
    lines = [line for line in log.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not _TRAILING.match(line)), "".join(lines[-1:])).strip()


def _kill(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _kill_all(processes: set[Process]) -> None:
    for process in processes:
        _kill(process)


class ProcessPool:
    """Processes of one command, started on demand.

    Args:
        command: with its arguments, in shell syntax; no shell runs it.
        folder: where it runs.
        environment: gives the environment of a process that has a key.

    Raises:
        StageError: the command does not exist.
    """

    def __init__(self, command: str, folder: Path, environment: Callable[[str], Mapping[str, str]]) -> None:
        self._where = f"command {command!r}"
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise StageError(f"{self._where}: {error}") from error
        program = self._words[0] if self._words else ""
        if shutil.which(program) is None and shutil.which(folder / program) is None:
            raise StageError(f"{self._where}: unknown program {program!r}")
        self._folder, self._environment = folder, environment
        self._idle: list[AgentProcess] = []
        self._alive: set[Process] = set()
        self._has_warned = False
        weakref.finalize(self, _kill_all, self._alive)

    def _warn(self, line: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            said = shortened(line, 120)
            log.warning('%s: wrote %r, which is no {"content": "…"}: such lines are taken as logs', self._where, said)

    async def take(self) -> AgentProcess:
        """A process that waits for a turn."""
        while self._idle:
            process = self._idle.pop()
            if process.is_ready:
                return process
            self.drop(process)
        key = new_key()
        try:
            made = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=self._folder,
                env=self._environment(key),
                start_new_session=True,
                limit=_LONGEST,
            )
        except OSError as error:
            raise StageError(f"{self._where}: cannot be started ({error})") from error
        self._alive.add(made)
        return AgentProcess(made, key, self._where, self._warn)

    def give_back(self, process: AgentProcess) -> None:
        """Return a process that has served its turn to the pool."""
        self._idle.append(process)

    def drop(self, process: AgentProcess) -> None:
        """Stop a process that failed or whose turn is no longer needed, and start another one."""
        process.kill()
        self._alive.discard(process.process)
