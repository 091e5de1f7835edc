"""Stages that call a language model over a chat API: which tools to call, and what to say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from tod_bias.dialogues.calls import MALFORMED
from tod_bias.dialogues.dialogue import arguments_of
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import StageError
from tod_bias.io.documents import read_text
from tod_bias.systems.arguments import Arguments
from tod_bias.systems.chat.messages import RECORDED, messages_of, output_of, text_of
from tod_bias.systems.chat.replies import PROBLEMS, message_of
from tod_bias.systems.chat.settings import PATH, ChatSettings
from tod_bias.systems.functions import read_schemas
from tod_bias.systems.stage import RemoteStage, StageInput

if TYPE_CHECKING:
    from tod_bias.systems.chat.client import Client

_OPENING = Lock()
_TEXT = (".md", ".txt")
_LONGEST_NAME = 1000
"""Characters of a file's name."""


class ChatStage(RemoteStage):
    """Base class of chat stages: makes a request of an input and an output of a reply."""

    names_no_file = frozenset(["model", "base_url", "api_key_env"])
    """Arguments in a pipeline file that are never paths, even if a file of that name exists."""

    def __init__(
        self,
        *,
        system: str | Path = "",
        tools: str | Path | Sequence[Mapping[str, Any]] | None = None,
        concurrency: int | None = None,
        **settings: Any,
    ) -> None:
        if concurrency is not None:
            settings["concurrency"] = concurrency
        self.settings = ChatSettings.of(settings)
        self.system = _text(system)
        self.tools = read_schemas(tools) if tools is not None else []
        """OpenAI's function schemas of the tools that the model is offered."""
        self._client: Client | None = None
        functions = [entry["function"] for entry in self.tools]
        self._arguments = {
            function["name"]: Arguments(function["name"], function.get("parameters", {})) for function in functions
        }
        self.concurrency = self.settings.concurrency
        self.is_random = self.settings.is_random
        price = self.settings.price
        self.price = None if price is None else (price.input, price.output)
        self.replaces_system = self.system not in ("", RECORDED)

    @property
    def client(self) -> Client:  # type: ignore[override]
        """The server and its key, for all threads; the library that calls servers is loaded when this is first read."""
        with _OPENING:
            if self._client is None:
                from tod_bias.systems.chat.client import Client

                self._client = Client(self.settings)
            return self._client

    @cached_property
    def signature(self) -> str:  # type: ignore[override]
        """Identify everything that determines the answers: server, model, settings, system prompt and tools, without
        the key.

        Texts among the settings and the address's path, which might hold one, are in a digest.
        """
        fields = self.settings.fields()
        plain = {name: value for name, value in fields.items() if name == "model" or isinstance(value, (int, float))}
        shown = {"url": self.settings.host, **plain}
        texts = [self.system, self.tools]
        rest = _digest([self.settings.base_url, fields])
        return f"{json.dumps(shown, sort_keys=True, ensure_ascii=False)}|settings:{rest}|prompt:{_digest(texts)}"

    def check_access(self) -> None:
        """Check that calls can be made before slow work begins.

        Raises:
            StageError: the environment variable of the key is not set.
        """
        self.settings.key  # noqa: B018 reading it finds what is wrong

    def request(self, item: StageInput) -> dict[str, Any]:
        """The body of the request for one input."""
        body = self.settings.fields() | {"messages": messages_of(item, self.system)}
        if self.tools:
            body["tools"] = self.tools
        if item.sample and "seed" in body:
            body["seed"] += item.sample
        return body

    def key(self, body: Mapping[str, Any], draw: str = "") -> str:
        """The name under which a reply is cached: of the server and the request, whichever stage makes it.

        Args:
            body: what :meth:`request` made.
            draw: which draw it is, where answers are drawn.
        """
        return f"chat-{_digest([self.settings.base_url, PATH, body, draw])}"

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """One output per input; sends every request. The engine does so itself, and caches the replies."""

        def ask(item: StageInput) -> Any:
            return self.output(self.client.ask(self.request(item)))

        with ThreadPoolExecutor(self.concurrency) as pool:
            return list(pool.map(ask, inputs))


class ToolCalls(ChatStage):
    """The policy of a tool-calling assistant: reads the dialogue, its calls and results, and calls tools or none.

    Its output is ``{"content": text, "tool_calls": [call, …]}``, calls as mappings with the tool's name under
    ``api_name``. Arguments that are not a JSON object are kept under ``malformed_arguments`` and counted.

    Args:
        system: the system prompt, or a file that holds it; ``recorded`` or nothing: that of each recorded chat.
        tools: OpenAI function schemas, as a list or a JSON file.
        concurrency: calls at once.
        settings: fields of :class:`~tod_bias.systems.chat.settings.ChatSettings`.

    Raises:
        StageError: a setting cannot be, or a file cannot be read; when it is called: the key's variable is not set.
    """

    def output(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        """The assistant's message."""
        return output_of(reply)

    def outcome(self, output: Any) -> str:
        """Return why the first invalid call cannot be made, or that the text is too long; empty if all is well."""
        return self._mistake(output)[0]

    def tool(self, item: StageInput, output: Any) -> str:
        """The tool of that call."""
        return self._mistake(output)[1]

    def _mistake(self, output: Any) -> tuple[str, str]:
        for call in output["tool_calls"]:
            name = str(call[API_NAME])
            if call.keys() == {API_NAME, MALFORMED}:
                return PROBLEMS.get(call[MALFORMED], "malformed arguments"), name
            known = self._arguments.get(name)
            if known is None:
                return "unknown tool", name
            if known.problem(arguments_of(call)):
                return "arguments against the schema", name
        return PROBLEMS.get(output["content"], ""), ""


class Answer(ChatStage):
    """The final text of an assistant: reads what :class:`ToolCalls` reads and all results, and speaks to the user.

    With the same model, prompt and tools as the policy it repeats the last request of the policy, which costs nothing.

    Args:
        system: the system prompt, or a file that holds it; ``recorded`` or nothing: that of each recorded chat.
        tools: OpenAI function schemas, as a list or a JSON file; calls in the answer are left out.
        concurrency: calls at once.
        settings: fields of :class:`~tod_bias.systems.chat.settings.ChatSettings`.

    Raises:
        StageError: a setting cannot be, or a file cannot be read; when it is called: the key's variable is not set.
    """

    def output(self, reply: Mapping[str, Any]) -> str:
        """The text."""
        return text_of(message_of(reply))

    def outcome(self, output: Any) -> str:
        """``empty answer``, ``text too long``, or nothing."""
        return PROBLEMS.get(output, "") if output.strip() else "empty answer"


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _text(system: str | Path) -> str:
    if not isinstance(system, (str, Path)):
        raise StageError(f"system: expected a text or a file, got {type(system).__name__}")
    if system == RECORDED:
        return RECORDED
    is_name = isinstance(system, str) and "\n" not in system and len(system) < _LONGEST_NAME
    is_file = isinstance(system, Path) or (is_name and (system.lower().endswith(_TEXT) or Path(system).is_file()))
    if not is_file:
        return str(system)
    try:
        return read_text(system).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StageError(f"system: {system} cannot be read: {error}") from error
