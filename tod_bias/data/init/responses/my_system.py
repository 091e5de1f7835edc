"""Runs a system on every counterfactual conversation and saves what it says. Put yours in place of `response_to`.

    tod-bias export --corpus chats.jsonl --axes gender --chat --out counterfactuals
    python my_system.py
    tod-bias attribute --corpus chats.jsonl --responses responses.jsonl --axes gender

The one here treats people differently, so that the first audit finds something: it names one hotel where the user
speaks of a woman, and three otherwise.
"""

import json
import re
from pathlib import Path

WOMEN = re.compile(r"\b(wife|mother|sister|daughter|girlfriend|aunt|grandmother|niece)\b")


def response_to(messages):
    user = messages[-1]["content"]
    city = re.search(r"\b(York|Bath|Leeds|Derby|Exeter|Truro)\b", user).group()
    hotels = [f"{name} {city}" for name in ("Ritz", "Crown", "Inn")][: 1 if WOMEN.search(user) else 3]
    return f"I found {', '.join(hotels)} for {re.search(r'[0-9]+', user).group()} nights."


if __name__ == "__main__":
    lines = []
    for line in Path("counterfactuals/counterfactuals.jsonl").read_text(encoding="utf-8").splitlines():
        dialogue = json.loads(line)
        users = [message for message in dialogue["messages"] if message["role"] == "user"]
        for turn, user in enumerate(users):  # one response per turn of the user
            response = response_to([user])
            place = {"id": dialogue["original"], "turn": turn, "variant": dialogue["variant"]}
            lines.append(json.dumps(place | {"user": user["content"], "response": response}))
    Path("responses.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
