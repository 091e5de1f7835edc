"""Recognise API keys, by the names of fields that usually hold keys and by the form of providers' keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME = re.compile(
    r"(?:^|[-_.\s])(?:api[-_]?keys?|keys?|token|secrets?|passw(?:or)?ds?|pwd|passphrase|bearer|credentials?|headers?"
    r"|cookies?|auth\w*(?<!author)|apitoken|accesskey|accesstoken|authtoken|secretkey|subscriptionkey)$"
)
_HARMLESS = re.compile(r"prompt_cache_key|(?:bos|eos|pad|unk|sep|cls|mask|stop)_token")
"""Names of settings that servers take and that hold no key."""
_VALUE = re.compile(
    r"[spr]k[-_][\w-]{6,}|(?:hf|gsk|r8|gh[a-z]|github_pat)_\w{16,}|(?:xai|nvapi|pplx|glpat)-[\w-]{16,}"
    r"|A[KS]IA[A-Z0-9]{12,}|AIza[\w-]{20,}|xox[a-z]-[\w-]{8,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
)
_BEARER = re.compile(r"(?:bearer|basic)\s+(?=\S*\d)\S{8,}", re.IGNORECASE)
_RUN = re.compile(r"[A-Za-z0-9]{20,}")
_CONTENTS = ("properties", "patternProperties", "$defs", "definitions")
"""Members of a JSON schema whose names are chosen by its author."""


def names_key(name: str) -> bool:
    """True if a field of this name usually holds a key: ``x-api-key``, ``accessToken``, ``extra_headers``."""
    flat = _HUMP.sub("_", name.strip()).lower()
    return bool(_NAME.search(flat)) and not _HARMLESS.fullmatch(flat)


def looks_like_key(text: str) -> bool:
    """True if a text has the form of a provider's key: ``sk-…``, ``hf_…``, ``AKIA…``, ``Bearer …``, a JWT."""
    text = text.strip()
    return bool(_VALUE.fullmatch(text) or _BEARER.fullmatch(text))


def holds_key(value: Any, *, in_schema: bool = False) -> bool:
    """True if a JSON value contains a likely key, judged by field names and by values.

    Args:
        value: the value.
        in_schema: whether it is (part of) a JSON schema, whose properties may have any name: under it, only a text is
            a key.
    """
    if isinstance(value, str):
        return looks_like_key(value)
    if isinstance(value, list):
        return any(holds_key(item, in_schema=in_schema) for item in value)
    if not isinstance(value, Mapping):
        return False
    return any(
        looks_like_key(str(name))
        or (names_key(str(name)) and (isinstance(item, str) or not in_schema))
        or holds_key(item, in_schema=in_schema or name in _CONTENTS)
        for name, item in value.items()
    )


def path_holds_key(path: str) -> bool:
    """True if part of a URL's path is or names a key: ``/v1/sk-…``, ``/key=…``, mixed-case letters with digits."""
    for part in re.split(r"[/;,&?#]", unquote(unquote(path))):
        name, is_given, value = part.rpartition("=")
        if is_given and names_key(name):
            return True
        if looks_like_key(value) or any(_is_mixed(run) for run in _RUN.findall(value)):
            return True
    return False


def _is_mixed(run: str) -> bool:
    return not (run.islower() or run.isupper()) and any(map(str.isdigit, run)) and not run.isdigit()
