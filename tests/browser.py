"""A headless Chromium that is asked by its own protocol over two pipes; no driver and no port."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

CONTRAST = """
(() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number);
    return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1]; };
  const over = (top, low) => [0, 1, 2].map((i) => top[i] * top[3] + low[i] * (1 - top[3])).concat([1]);
  const light = (colour) => { const l = colour.slice(0, 3).map((c) => { c /= 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; };
  const ground = (node) => { const stack = [];
    for (let one = node; one; one = one.parentElement) stack.push(parse(getComputedStyle(one).backgroundColor));
    return stack.reverse().reduce((low, top) => over(top, low), [255, 255, 255, 1]); };
  const poor = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest("svg, style, title")) continue;
    const style = getComputedStyle(parent), low = ground(parent), top = over(parse(style.color), low);
    const [a, b] = [light(top), light(low)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && +style.fontWeight >= 700);
    const what = `${parent.tagName}.${parent.className} ${ratio.toFixed(2)} ${node.data.trim().slice(0, 30)}`;
    if (ratio < (large ? 3 : 4.5)) poor.add(what);
  }
  return [...poor];
})()
"""
"""What stands out too little from its ground, by WCAG 2 AA: 4.5 to 1, of large text 3 to 1."""


class Browser:
    """One page of a running browser."""

    def __init__(self, ask: int, hear: IO[bytes]) -> None:
        self._ask, self._hear, self._number, self._rest = ask, hear, 0, b""
        target = self.call("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
        self._session: str | None = None
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True}, session=None)
        self._session = attached["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, parameters: dict[str, Any] | None = None, session: str | None = "") -> dict[str, Any]:
        """What a method of the protocol returns."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters or {}}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._ask, json.dumps(message).encode() + b"\0")
        return self._answer(lambda found: found.get("id") == self._number)["result"]

    def open(self, path: Path | str, width: int = 1200, height: int = 900, media: str = "", dark: bool = False) -> None:
        """Show a file at a width in CSS pixels, with scripts off; an address with scripts on."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
        self.call("Emulation.setScriptExecutionDisabled", {"value": isinstance(path, Path)})
        self.call("Page.navigate", {"url": path.resolve().as_uri() if isinstance(path, Path) else path})
        self._answer(lambda found: found.get("method") == "Page.loadEventFired")

    def value(self, code: str) -> Any:
        """The value of an expression on the page."""
        found = self.call("Runtime.evaluate", {"expression": code, "returnByValue": True})
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """A key by its name: ``Tab``, ``Enter``, ``j``."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27}
        press = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", **press, **text})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", **press})

    def _answer(self, wanted: Any) -> dict[str, Any]:
        while True:
            while b"\0" not in self._rest:
                part = self._hear.read(1 << 20)
                if not part:
                    raise AssertionError("the browser has gone")
                self._rest += part
            line, _, self._rest = self._rest.partition(b"\0")
            found = json.loads(line)
            if "error" in found:
                raise AssertionError(found["error"])
            if wanted(found):
                return found


def program() -> str | None:
    """Where Chromium is; None where it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    hears, ask = os.pipe()
    hear, answers = os.pipe()
    flags = (
        "--headless --no-sandbox --disable-gpu --remote-debugging-pipe --no-first-run --hide-scrollbars "
        "--disable-background-networking --disable-dev-shm-usage"
    )
    command = f'exec "$0" {flags} --user-data-dir="$1" 3<&{hears} 4>&{answers}'
    with subprocess.Popen(
        ["bash", "-c", command, str(program()), str(profile)],
        pass_fds=(hears, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        os.close(hears)
        os.close(answers)
        with os.fdopen(hear, "rb", buffering=0) as said:
            try:
                yield Browser(ask, said)
            finally:
                running.terminate()
                os.close(ask)
