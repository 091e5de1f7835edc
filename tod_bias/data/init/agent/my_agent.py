"""An agent: a function of OpenAI's messages that returns a text. Put yours in its place.

Calls that are marked with `@stage` are components, which the audit replaces one by one; called elsewhere they are as
they were. Agents of openai-agents, PydanticAI, LangChain and LangGraph need no marks: name yours in agent.yaml.

`decide` stands for a language model. It treats people differently, so that the first audit finds something: it looks
for one hotel where the user speaks of a woman, and for three otherwise.
"""

import re

from tod_bias.integrations import stage

WOMEN = re.compile(r"\b(wife|mother|sister|daughter|girlfriend|aunt|grandmother|niece)\b")


@stage("model", kind="model")
def decide(messages):
    user = messages[-1]["content"]
    return {
        "city": re.search(r"\b(York|Bath|Leeds|Derby|Exeter|Truro)\b", user).group(),
        "nights": int(re.search(r"\d+", user).group()),
        "limit": 1 if WOMEN.search(user) else 3,
    }


@stage("find_hotels")
def find_hotels(city, nights, limit):
    return [f"{name} {city}" for name in ("Ritz", "Crown", "Inn")][:limit]


def answer(messages):
    call = decide(messages)
    return f"I found {', '.join(find_hotels(**call))} for {call['nights']} nights."
