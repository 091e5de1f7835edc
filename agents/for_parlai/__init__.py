"""ParlAI agents and teachers of tod-bias, and any ParlAI agent as a stage.

* Agents (``parlai … -m tod_bias.agents:PipelineAgent``): a whole pipeline that answers ParlAI's task-oriented system
  teachers; one of its stages (``ApiCallAgent``, ``LookupDbAgent``, ``ResponseAgent``); the recommender LMRec
  (``LMRecAgent``).
* Teachers (``parlai … -t tod_bias.agents:PerturbedGoogleSgdTeacher``): ParlAI's own, with every dialogue rewritten by
  Su's Algorithm 1 (the mutator :class:`DemographicRewrite` does so with any stock task), with all counterfactuals and
  the bias in ParlAI's report (``FairscoreGoogleSgdTeacher``), or with counterfactuals in the training split
  (``AugmentedGoogleSgdTeacher``); ``ReviewTeacher`` asks LMRec for the venues of reviews.
* :class:`ParlaiStage`: a ParlAI agent as a stage of a pipeline.

Nothing is loaded before it is named, so that each command loads only what it uses.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {
    "ApiCallAgent": "stage_agents",
    "AugmentedTeacher": "augmented_teacher",
    "DemographicRewrite": "mutator",
    "FairscoreTeacher": "fairscore_teacher",
    "LMRecAgent": "lmrec",
    "LookupDbAgent": "stage_agents",
    "ParlaiStage": "stage",
    "PerturbedEpisodes": "teachers",
    "PipelineAgent": "pipeline_agent",
    "ResponseAgent": "stage_agents",
    "ReviewTeacher": "lmrec",
    "dialogue_to_episode": "episodes",
    "episode_to_dialogue": "episodes",
    "teacher_pipeline": "stage",
}
_TASKS = ("GoogleSgd", "MsrE2e", "Multidogo", "MultiwozV22", "Taskmaster", "Taskmaster2", "Taskmaster3")
_TEACHERS = {
    f"{kind}{task}Teacher": (kind, task)
    for kind, tasks in (("Augmented", _TASKS), ("Fairscore", _TASKS), ("Perturbed", (*_TASKS, "Metalwoz")))
    for task in tasks
}

__all__ = [*_MODULES, *_TEACHERS]


def __getattr__(name: str) -> Any:
    if name in _TEACHERS:
        return importlib.import_module(f"{__name__}.corpora").teacher_class(*_TEACHERS[name])
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
