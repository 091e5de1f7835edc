"""The settings of a chat stage in a pipeline file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, ValidationInfo, field_validator

from tod_bias.dialogues.values import checked
from tod_bias.errors import StageError, invalid, reason_in
from tod_bias.systems.chat.keys import holds_key, looks_like_key, names_key, path_holds_key

PATH = "/chat/completions"
"""Below the base URL."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USUAL_NAME = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]*|[A-Z0-9]*(?:KEY|TOKEN)")
"""A name of a variable that is surely no key, and may be shown."""
_LONG_PART = 20
"""Characters of a part of an address's path that is not shown: it may be a key."""
_NO_KEY = "keys are never read from files; name the environment variable with api_key_env"
_HIDDEN = "the value is not shown"


class Price(BaseModel):
    """Price of a million tokens, in any one currency."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    input: float = Field(ge=0, allow_inf_nan=False)
    """Tokens that the model reads."""
    output: float = Field(ge=0, allow_inf_nan=False)
    """Tokens that it writes."""


class ChatSettings(BaseModel):
    """A model behind a server that speaks OpenAI's chat API, and how it is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: str = Field(min_length=1)
    """The model's name there."""
    base_url: str = "https://api.openai.com/v1"
    """The server, up to and with ``/v1``."""
    api_key_env: str | None = None
    """The environment variable that holds the key; None for a server that wants none."""
    temperature: float | None = Field(default=0.0, ge=0, le=2)
    """0 asks for the likeliest answer; null sends none, and the server's own counts."""
    seed: int | None = None
    """Sent along; with several samples the number of the sample is added to it."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens in an answer at the most."""
    response_format: dict[str, Any] | None = None
    """Sent as it is, for instance a JSON schema."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request, such as ``top_p`` or ``max_completion_tokens``."""
    concurrency: int = Field(default=8, ge=1, le=1024)
    """Calls at once."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """Upper limit of requests per minute."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds until an answer is given up."""
    retries: int = Field(default=6, ge=0, le=100)
    """How often a request is retried after a transient failure."""
    price: Annotated[Price, Strict(False)] | None = None
    """Price of a million tokens, for a dry run: ``{input: 0.15, output: 0.6}``."""

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("expected an address such as http://localhost:8000/v1")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("an address holds no key and no password; name a variable with api_key_env instead")
        if path_holds_key(parts.path):
            raise ValueError("a part of its path looks like a key; name a variable that holds it with api_key_env")
        if parts.port is not None and not parts.port:  # reading it finds one that is no number
            raise ValueError("expected a port above 0")
        return url.rstrip("/")

    @field_validator("api_key_env")
    @classmethod
    def _variable(cls, name: str | None) -> str | None:
        if name is not None and not _NAME.fullmatch(name):
            raise ValueError("expected the name of an environment variable, such as OPENAI_API_KEY")
        return name

    @field_validator("options")
    @classmethod
    def _no_field_twice(cls, options: dict[str, Any]) -> dict[str, Any]:
        known = {"model", "messages", "tools", "stream", "n", *cls.model_fields} & options.keys()
        if known:
            raise ValueError(f"{sorted(known)[0]!r} cannot stand there")
        return options

    @field_validator("options", "response_format")
    @classmethod
    def _json(cls, value: dict[str, Any] | None, info: ValidationInfo) -> dict[str, Any] | None:
        checked(value or {}, "value")
        if holds_key(value, in_schema=info.field_name == "response_format"):
            raise ValueError(_NO_KEY)
        return value

    @field_validator("model")
    @classmethod
    def _no_key(cls, name: str) -> str:
        if looks_like_key(name):
            raise ValueError(_NO_KEY)
        return name

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ChatSettings:
        """The settings in a mapping.

        Raises:
            StageError: one is missing, unknown or cannot be; a value that could be a key is never shown.
        """
        whole = {
            name: float(value)
            if name in ("temperature", "timeout", "requests_per_minute") and isinstance(value, int)
            else value
            for name, value in given.items()
        }
        if secret := sorted(name for name in whole if names_key(name)):
            raise StageError(
                f"{secret[0]}: keys are never read from files; put the key into an environment variable and name it: "
                "api_key_env: OPENAI_API_KEY"
            )
        try:
            return cls.model_validate(whole)
        except ValidationError as error:
            raise StageError(_line(error)) from None  # the cause would show what was given

    @property
    def key(self) -> str:
        """Return the key from the environment; empty if no variable is named.

        Raises:
            StageError: the variable is not set, or its value cannot be a key.
        """
        if self.api_key_env is None:
            return ""
        is_name = self.api_key_env in os.environ or (
            _USUAL_NAME.fullmatch(self.api_key_env) and not looks_like_key(self.api_key_env)
        )
        name = self.api_key_env if is_name else "that it names (the name is not shown, as it may be a key)"
        value = os.environ.get(self.api_key_env, "").strip()
        if not value:
            raise StageError(
                f"api_key_env: the environment variable {name} is not set; export it, or leave api_key_env out "
                "where the server asks for no key"
            )
        if not (value.isascii() and value.isprintable()) or " " in value:
            raise StageError(f"api_key_env: what the environment variable {name} holds can be no key (not shown)")
        return value

    @property
    def host(self) -> str:
        """Server without the path; the path may contain secrets."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def shown_url(self) -> str:
        """The address for a message: without those parts of its path that are long."""
        parts = urlsplit(self.base_url).path.split("/")
        return self.host + "/".join("…" if len(part) >= _LONG_PART else part for part in parts)

    @property
    def is_random(self) -> bool:
        """True if equal requests may get different replies."""
        return self.temperature is None or self.temperature > 0

    def fields(self) -> dict[str, Any]:
        """Fields that are sent with every request."""
        named = {
            "temperature": self.temperature,
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "response_format": self.response_format,
        }
        return {"model": self.model, **{name: value for name, value in named.items() if value is not None}} | (
            self.options
        )


def _line(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"])) or "settings"
    if first["type"] == "extra_forbidden" and name.startswith("price."):
        return f"{name}: is unknown; a price has {', '.join(Price.model_fields)}"
    if first["type"] == "extra_forbidden":
        return f"{name}: is unknown; a chat stage takes system, tools, {', '.join(ChatSettings.model_fields)}"
    if name.partition(".")[0] in ("api_key_env", "base_url", "options", "response_format") or holds_key(first["input"]):
        return f"{name}: {reason_in(first)} ({_HIDDEN})"
    if name == "price":
        return f"price: expected {{input: 0.15, output: 0.6}}, of a million tokens each, got {first['input']!r:.60}"
    return invalid(error)
