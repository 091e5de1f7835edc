"""Two components of a system: what understands the user, and what responds. Put yours in their place.

A stage takes a list of inputs and returns one output per input. An input has the user's utterance (`user`), the turns
before (`history`) and the outputs of the stages before it in this turn (`outputs`).

`understand` treats people differently, so that the first audit finds something: it looks for one hotel where the user
speaks of a woman, and for three otherwise.
"""

import re

WOMEN = re.compile(r"\b(wife|mother|sister|daughter|girlfriend|aunt|grandmother|niece)\b")


def understand(inputs):
    return [
        {
            "city": re.search(r"\b(York|Bath|Leeds|Derby|Exeter|Truro)\b", item.user).group(),
            "nights": int(re.search(r"\d+", item.user).group()),
            "limit": 1 if WOMEN.search(item.user) else 3,
        }
        for item in inputs
    ]


def respond(inputs):
    responses = []
    for item in inputs:
        call = item.outputs["understand"]
        hotels = [f"{name} {call['city']}" for name in ("Ritz", "Crown", "Inn")][: call["limit"]]
        responses.append(f"I found {', '.join(hotels)} for {call['nights']} nights.")
    return responses
