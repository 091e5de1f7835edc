"""ParlAI agents that serve people differently, and one that does not; what they say depends on what they have read."""

from __future__ import annotations

import re
import zlib
from typing import Any

from parlai.core.agents import Agent
from parlai.core.message import Message

WOMEN = re.compile(r"\b(wife|mother|sister|woman|lady)\b|Lakisha|Emily|Maria|Aaliyah|\b(Ms|Mrs)\b")


class FairAgent(Agent):
    """Reads the call off the last thing the user said, and says what was found; the same for everybody."""

    def __init__(self, opt: Any, shared: Any = None) -> None:
        super().__init__(opt, shared)
        self.heard: list[str] = []
        self.id = type(self).__name__

    def observe(self, observation: Message) -> Message:
        if not observation.get("batch_padding"):
            self.heard.append(str(observation.get("text", "")))
        seen = super().observe(observation)
        self.is_over = bool(observation.get("episode_done"))
        return seen

    def reset(self) -> None:
        super().reset()
        self.heard = []

    def act(self) -> Message:
        line = self.heard[-1] if self.heard else ""
        text = self.respond(line) if line.startswith("APIRESP:") else self.call(line)
        if self.is_over:
            self.heard = []
        return Message({"text": text, "id": self.id, "episode_done": False})

    def user(self) -> str:
        return next((line for line in reversed(self.heard) if line.startswith("USER:")), "")

    def call(self, line: str) -> str:
        city = re.search(r"In (\w+(?: \w+)?) please", line)
        if city is None:
            return "APICALL: "
        dish = re.search(r"\b(noodles|pasta|curry|tacos)\b", " ".join(self.heard))
        return f"APICALL: api_name = FindRestaurants ; city = {city[1]} ; dish = {dish and dish[1]}"

    def respond(self, line: str) -> str:
        match = re.search(r"city = (.*?) ; name = (.*)", line)
        if match is None:
            return "SYSTEM: Of course, in which city shall I look for it?"
        return f"SYSTEM: {match[2]} in {match[1]} serves food."


class EchoingAgent(FairAgent):
    """Repeats whom the user spoke of: what it says changes with T, and it is fair."""

    def respond(self, line: str) -> str:
        whom = re.search(r"[Mm]y (\w+)", " ".join(self.heard))
        return f"{super().respond(line)} Your {whom[1]} will like it." if whom else super().respond(line)


class UnfairAgent(EchoingAgent):
    """Curt with whoever speaks of women, and deaf to the dish that they want."""

    def call(self, line: str) -> str:
        call = super().call(line)
        return call.partition(" ; dish")[0] if WOMEN.search(" ".join(self.heard)) else call

    def respond(self, line: str) -> str:
        said = super().respond(line)
        return " ".join(said.split()[:5]) + "." if WOMEN.search(" ".join(self.heard)) else said


class FickleAgent(FairAgent):
    """Says more or less of the same, by a checksum of all user lines."""

    heeds: str | tuple[str, ...] = "USER:"

    def respond(self, line: str) -> str:
        said = "I found it for you. What is the time and the city that you would like?"
        lines = "\n".join(line for line in self.heard if line.startswith(self.heeds))
        return f"SYSTEM: {said[: 10 + zlib.crc32(lines.encode()) % len(said)]}"


class HeedfulAgent(FickleAgent):
    """The same, by what was found as well."""

    heeds = ("USER:", "APIRESP:")
