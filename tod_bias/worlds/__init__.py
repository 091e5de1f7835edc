"""Worlds: benchmarks with tasks, databases and tools that judge themselves whether a task was solved.

The tasks, tools and judgements come from packages that the user installs; see ``docs/how-to/worlds.md``.
"""

from tod_bias.worlds.loading import load_world
from tod_bias.worlds.policies import AgentPolicy, FunctionPolicy, GoldPolicy, ServedPolicy
from tod_bias.worlds.tools import WorldTools
from tod_bias.worlds.users import ScriptedUser, ServedUser
from tod_bias.worlds.world import World

__all__ = [
    "AgentPolicy",
    "FunctionPolicy",
    "GoldPolicy",
    "ScriptedUser",
    "ServedPolicy",
    "ServedUser",
    "World",
    "WorldTools",
    "load_world",
]
