"""Su's language-model stages: an API-call model and a response model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.dialogues.dialogue import context_text
from tod_bias.dialogues.text import unescape
from tod_bias.errors import StageError
from tod_bias.io.hub import check_model
from tod_bias.models.examples import api_call_prompt, described_prompt, response_prompt
from tod_bias.models.settings import GenerationSettings
from tod_bias.systems.outputs import as_text, parse_call
from tod_bias.systems.stage import Stage, StageInput

if TYPE_CHECKING:
    from tod_bias.models.generator import Generator


class ModelStage(Stage):
    """Base class of both stages: a language model of this package."""

    generator: Generator

    @property
    def signature(self) -> str:  # type: ignore[override]
        """The model's."""
        return self.generator.signature


class ApiCall(ModelStage):
    """A language model that reads the context and writes the API call of the turn.

    The output is the call as a mapping (empty: no call), or the raw text if it is *malformed*.

    Args:
        model: a checkpoint's folder or hub name, or a :class:`~tod_bias.models.generator.Generator`.
        device: device of the model; chosen automatically by default.
        generation: fields of :class:`~tod_bias.models.settings.GenerationSettings`.
    """

    def __init__(self, model: Generator | str | Path, *, device: str | None = None, **generation: Any) -> None:
        self.generator = _generator(model, generation, device)

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Mapping[str, str] | str]:
        """One call an input."""
        prompts = [_prompt(self.generator, item, api_call_prompt) for item in inputs]
        return [parse_call(text) for text in self.generator.generate(prompts)]


class Response(ModelStage):
    """A language model that reads context, API call and API result and writes the response.

    Args:
        model: a checkpoint's folder or hub name, or a :class:`~tod_bias.models.generator.Generator`.
        api_call: name of the stage whose output is the call.
        db: name of the stage whose output is the result.
        device: device of the model; chosen automatically by default.
        generation: fields of :class:`~tod_bias.models.settings.GenerationSettings`.
    """

    def __init__(
        self,
        model: Generator | str | Path,
        *,
        api_call: str = "api_call",
        db: str = "db",
        device: str | None = None,
        **generation: Any,
    ) -> None:
        self.generator = _generator(model, generation, device)
        self._call = api_call
        self._db = db

    def __call__(self, inputs: Sequence[StageInput], /) -> list[str]:
        """One response an input."""
        prompts = []
        for item in inputs:
            call, result = (as_text(item.outputs.get(name)) for name in (self._call, self._db))
            prompts.append(_prompt(self.generator, item, partial(response_prompt, api_call=call, api_result=result)))
        return [unescape(text) for text in self.generator.generate(prompts)]


def _prompt(generator: Generator, item: StageInput, ask: Callable[[str], str]) -> str:
    """Return the model's prompt: the context, after the system message if the model was trained with one.

    The oldest turns of a prompt that is too long are dropped.
    """
    if not (item.system and generator.described):
        return ask(item.context)
    contexts = (context_text(item.history[first:], item.user) for first in range(len(item.history) + 1))
    prompts = (described_prompt(item.system, ask(context)) for context in contexts)
    return next((prompt for prompt in prompts if generator.fits(prompt)), ask(item.context))


def _generator(model: Generator | str | Path, options: Mapping[str, Any], device: str | None) -> Generator:
    """The model that is called; what is wrong by its name alone is found before the libraries of models are loaded."""
    settings = GenerationSettings.of(options)
    other = StageError(f"model must be the name of a checkpoint, got {model!r:.80}")
    if isinstance(model, (str, Path)):
        check_model(str(model))
    elif not hasattr(model, "generate"):
        raise other
    from tod_bias.models.generator import Generator, shared_generator

    if not isinstance(model, (str, Path, Generator)):  # a model of another library
        raise other
    return shared_generator(model, settings, device)
