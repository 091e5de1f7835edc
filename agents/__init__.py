"""ParlAI agents and teachers of tod-bias, and any ParlAI agent as a stage.

Agents (``parlai … -m tod_bias.agents:PipelineAgent``): a whole pipeline or one of its stages that answers ParlAI's
task-oriented system teachers. Teachers (``parlai … -t tod_bias.agents:PerturbedGoogleSgdTeacher``): ParlAI's own, with
every dialogue rewritten by Su's Algorithm 1; the mutator :class:`DemographicRewrite` does so with any stock task; or
(``FairscoreGoogleSgdTeacher``) with all counterfactuals, and the bias in ParlAI's report; or with counterfactuals in
the training split (``AugmentedGoogleSgdTeacher``).
:class:`ParlaiStage`: a ParlAI agent as a stage of a pipeline.
``LMRecAgent`` and ``ReviewTeacher``: the conversational recommender and its reviews.

Nothing is loaded before it is named, so that each command loads only what it uses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tod_bias.agents.augmented_teacher import AugmentedGoogleSgdTeacher, AugmentedTeacher
    from tod_bias.agents.episodes import dialogue_to_episode, episode_to_dialogue
    from tod_bias.agents.fairscore_pipeline import teacher_pipeline
    from tod_bias.agents.fairscore_teacher import FairscoreGoogleSgdTeacher, FairscoreTeacher
    from tod_bias.agents.lmrec_agent import LMRecAgent, ReviewTeacher
    from tod_bias.agents.metalwoz_teacher import PerturbedMetalwozTeacher
    from tod_bias.agents.msr_e2e_teacher import AugmentedMsrE2eTeacher, FairscoreMsrE2eTeacher, PerturbedMsrE2eTeacher
    from tod_bias.agents.multidogo_teacher import (
        AugmentedMultidogoTeacher,
        FairscoreMultidogoTeacher,
        PerturbedMultidogoTeacher,
    )
    from tod_bias.agents.multiwoz_teacher import (
        AugmentedMultiwozV22Teacher,
        FairscoreMultiwozV22Teacher,
        PerturbedMultiwozV22Teacher,
    )
    from tod_bias.agents.mutator import DemographicRewrite
    from tod_bias.agents.pipeline_agent import PipelineAgent
    from tod_bias.agents.stage import ParlaiStage
    from tod_bias.agents.stage_agents import ApiCallAgent, LookupDbAgent, ResponseAgent
    from tod_bias.agents.taskmaster_teacher import (
        AugmentedTaskmaster2Teacher,
        AugmentedTaskmaster3Teacher,
        AugmentedTaskmasterTeacher,
        FairscoreTaskmaster2Teacher,
        FairscoreTaskmaster3Teacher,
        FairscoreTaskmasterTeacher,
        PerturbedTaskmaster2Teacher,
        PerturbedTaskmaster3Teacher,
        PerturbedTaskmasterTeacher,
    )
    from tod_bias.agents.teachers import PerturbedEpisodes, PerturbedGoogleSgdTeacher

__all__ = [
    "ApiCallAgent",
    "AugmentedGoogleSgdTeacher",
    "AugmentedMsrE2eTeacher",
    "AugmentedMultidogoTeacher",
    "AugmentedMultiwozV22Teacher",
    "AugmentedTaskmaster2Teacher",
    "AugmentedTaskmaster3Teacher",
    "AugmentedTaskmasterTeacher",
    "AugmentedTeacher",
    "DemographicRewrite",
    "FairscoreGoogleSgdTeacher",
    "FairscoreMsrE2eTeacher",
    "FairscoreMultidogoTeacher",
    "FairscoreMultiwozV22Teacher",
    "FairscoreTaskmaster2Teacher",
    "FairscoreTaskmaster3Teacher",
    "FairscoreTaskmasterTeacher",
    "FairscoreTeacher",
    "LMRecAgent",
    "LookupDbAgent",
    "ParlaiStage",
    "PerturbedEpisodes",
    "PerturbedGoogleSgdTeacher",
    "PerturbedMetalwozTeacher",
    "PerturbedMsrE2eTeacher",
    "PerturbedMultidogoTeacher",
    "PerturbedMultiwozV22Teacher",
    "PerturbedTaskmaster2Teacher",
    "PerturbedTaskmaster3Teacher",
    "PerturbedTaskmasterTeacher",
    "PipelineAgent",
    "ResponseAgent",
    "ReviewTeacher",
    "dialogue_to_episode",
    "episode_to_dialogue",
    "teacher_pipeline",
]

_MODULES = {
    "augmented_teacher": ("AugmentedGoogleSgdTeacher", "AugmentedTeacher"),
    "episodes": ("dialogue_to_episode", "episode_to_dialogue"),
    "fairscore_pipeline": ("teacher_pipeline",),
    "fairscore_teacher": ("FairscoreGoogleSgdTeacher", "FairscoreTeacher"),
    "lmrec_agent": ("LMRecAgent", "ReviewTeacher"),
    "mutator": ("DemographicRewrite",),
    "metalwoz_teacher": ("PerturbedMetalwozTeacher",),
    "msr_e2e_teacher": ("AugmentedMsrE2eTeacher", "FairscoreMsrE2eTeacher", "PerturbedMsrE2eTeacher"),
    "multidogo_teacher": ("AugmentedMultidogoTeacher", "FairscoreMultidogoTeacher", "PerturbedMultidogoTeacher"),
    "multiwoz_teacher": ("AugmentedMultiwozV22Teacher", "FairscoreMultiwozV22Teacher", "PerturbedMultiwozV22Teacher"),
    "pipeline_agent": ("PipelineAgent",),
    "stage": ("ParlaiStage",),
    "stage_agents": ("ApiCallAgent", "LookupDbAgent", "ResponseAgent"),
    "taskmaster_teacher": (
        "AugmentedTaskmaster2Teacher",
        "AugmentedTaskmaster3Teacher",
        "AugmentedTaskmasterTeacher",
        "FairscoreTaskmaster2Teacher",
        "FairscoreTaskmaster3Teacher",
        "FairscoreTaskmasterTeacher",
        "PerturbedTaskmaster2Teacher",
        "PerturbedTaskmaster3Teacher",
        "PerturbedTaskmasterTeacher",
    ),
    "teachers": ("PerturbedEpisodes", "PerturbedGoogleSgdTeacher"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
