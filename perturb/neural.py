"""A neural perturber in place of the lexicon's rules (Qian et al. 2022, *Perturbation Augmentation for Fairer NLP*).

Qian's perturber is a sequence-to-sequence model that was trained on people's rewrites. It reads ``word, group
<PERT_SEP> text`` and writes the text about a person of that group. Su et al. 2023 rewrote their dialogues with it.

An attribution needs more than that: T⁻¹ must undo a rewrite, and a dialogue must stay about one person in everything
that is said, called and found. So the lexicon decides which words mention a group, and turns strings back that T did
not make. An output of the model is used only if

* it says the lexicon's terms for the target, the same ones in the whole dialogue: those that most outputs chose;
* it differs from the lexicon's rewriting in at most :data:`EXTRA_WORDS` words per mention, for articles and verbs;
* values of calls and results, names and protected phrases stand in it as T writes them.

The lexicon rewrites everything else: other texts, texts of several lines, and all values of calls and results.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import ModelError
from tod_bias.io.cache import Cache
from tod_bias.perturb.axis import Candidate, SelectedDialogue
from tod_bias.perturb.dealing import Dealer
from tod_bias.perturb.lexicon import Lexicon
from tod_bias.perturb.lexicon_axis import LexiconAxis, dialogue_rewrite
from tod_bias.perturb.rewrite import DialogueRewrite, distance
from tod_bias.perturb.rewriter import Mention, TextRewriter

if TYPE_CHECKING:
    from tod_bias.models.generator import Generator

SEPARATOR = "<PERT_SEP>"
"""The special token between the instruction and the text."""
EXTRA_WORDS = 2
"""Words per mention that may differ from the lexicon's rewriting: an article and a verb."""


def perturber_generator(model: str | Path, device: str | None = None) -> Generator:
    """Load a perturber; raise ModelError unless it is a sequence-to-sequence model with ``<PERT_SEP>``."""
    from tod_bias.models.generator import shared_generator

    generator = shared_generator(model, device=device)
    if generator.causal:
        raise ModelError(f"{model}: is a causal model; a perturber is sequence to sequence (BART, T5 …)")
    if SEPARATOR not in generator.tokenizer.get_vocab():
        raise ModelError(
            f"{model}: its tokenizer has no token {SEPARATOR!r}; a perturber is trained on 'word, group {SEPARATOR} "
            "text', such as facebook/perturber"
        )
    return generator


class NeuralAxis(LexiconAxis):
    """Rewrite utterances with a model (:func:`perturber_generator`), within what the lexicon allows.

    ``options`` are those of :class:`~tod_bias.perturb.lexicon_axis.LexiconAxis`.
    """

    def __init__(self, lexicon: Lexicon, generator: Generator, **options: Any) -> None:
        super().__init__(lexicon, **options)
        self.generator = generator
        self.counts: Counter[str] = Counter()
        """``texts`` with a mention in the rewrites so far, and how many of them are ``by_model``."""
        self._outputs: dict[str, str] = {}

    @cached_property
    def signature(self) -> str:
        """Signatures of the model and the lexicon: one line of ``key:value`` parts."""
        return f"perturber|{self.generator.signature}|{super().signature}"

    @property
    def summary(self) -> str:
        """One line on how many texts the model has rewritten."""
        by_model = f"{self.counts['by_model']} of {self.counts['texts']} texts with a mention"
        return f"{self.name}: {by_model} rewritten by the model, the others by the lexicon"

    def keep_in(self, path: Path) -> None:
        """Keep the model's outputs in a file, so that a later run need not compute them again."""
        self.generator.keep_in(Cache(path))

    def select(
        self, dialogues: Sequence[Dialogue], *, seed: int = 0, variants: int | None = None, draws: int | None = None
    ) -> list[SelectedDialogue]:
        """Select dialogues as a lexicon axis does; the model gets all prompts in one call."""
        self._ask(
            prompt
            for dialogue in dialogues
            for candidate in (self.crossed(dialogue, seed) if draws is None else self.draw(dialogue, draws, seed))
            for prompt in self._prompts(_said(dialogue), self._pair(dialogue, candidate)[0]).values()
        )
        return super().select(dialogues, seed=seed, variants=variants, draws=draws)

    def deal(self, dialogue: Dialogue, candidates: Sequence[Candidate], dealer: Dealer) -> tuple[Candidate, ...]:
        """Return the candidates with the terms that most of the model's outputs choose; nothing is dealt."""
        dealt = []
        for candidate in candidates:
            forward, backward = self._pair(dialogue, candidate)
            chosen = self._chosen(_said(dialogue), forward, backward, self._held(dialogue, candidate))
            first = next((chosen.pop(row) for row in self._rows_of(dialogue, candidate) if row in chosen), "")
            dealt.append(replace(candidate, form=first, other_forms=tuple(dict.fromkeys(chosen.values()))))
        return tuple(dealt)

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> DialogueRewrite:
        """Return the rewrite T of ``candidate``; raise AxisError if it is not one of the dialogue's."""
        forward, rows = self._forward(dialogue, candidate)
        backward = self._inverse(candidate).within(forward.names)
        values = {forward.only(rows)(value) for turn in dialogue.turns for _, value in turn.values if value}
        by_model = self._accepted(_said(dialogue), forward.only(rows), backward, values)
        return dialogue_rewrite(dialogue, candidate, forward, self._inverse(candidate), rows, by_model)

    def rewrite_texts(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Rewrite plain texts, each alone, from ``source`` to ``target``; raise AxisError if they are not a pair."""
        forward = self._rewriter(source, target, strict_they=False)
        backward = self._rewriter(target, source, inverse=True, strict_they=False)
        self._ask(self._prompts(texts, forward).values())
        rewritten = []
        for text in texts:
            chosen = forward.choosing(partial(self._form, self._chosen([text], forward, backward, ()), forward.target))
            by_model = self._accepted([text], chosen, backward, ())
            rewritten.append(by_model[text] if text in by_model else chosen(text))
        return rewritten

    def _form(self, terms: Mapping[int, str], target: str, mention: Mention, form: str) -> str:
        term = terms.get(mention.row)
        return form if term is None else self.lexicon.paradigms[mention.row].choices[target][term][mention.slot].text

    def _pair(self, dialogue: Dialogue, candidate: Candidate) -> tuple[TextRewriter, TextRewriter]:
        """Return the lexicon's rewriter of a dialogue with the terms that come first, and its inverse."""
        forward, rows = self._forward(dialogue, replace(candidate, form="", other_forms=()))
        return forward.only(rows), self._inverse(candidate).within(forward.names)

    def _prompts(self, texts: Iterable[str], forward: TextRewriter) -> dict[str, str]:
        """Return Qian's input for every text of one line with a mention, under its first word that mentions a group."""
        prompts = {}
        for text in texts:
            first = next(forward.mentions(text), None) if "\n" not in text.strip() else None
            if first is not None:
                prompts[text] = f"{first[0].text}, {forward.target} {SEPARATOR} {text.strip()}"
        return prompts

    def _ask(self, prompts: Iterable[str]) -> None:
        """Let the model answer in one go all prompts that it has not answered yet."""
        if new := [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._outputs]:
            self._outputs.update(zip(new, self.generator.generate(new), strict=True))

    def _written_by_model(self, texts: Iterable[str], forward: TextRewriter) -> dict[str, str]:
        prompts = self._prompts(texts, forward)
        self._ask(prompts.values())
        return {text: text.replace(text.strip(), self._outputs[prompt]) for text, prompt in prompts.items()}

    def _chosen(
        self, texts: Iterable[str], forward: TextRewriter, backward: TextRewriter, held: Iterable[str]
    ) -> dict[int, str]:
        """Return the term of each row of the lexicon that most outputs choose, without those in ``held``."""
        votes: dict[int, Counter[str]] = {}
        for text, output in self._written_by_model(texts, forward).items():
            wanted = [(mention.row, mention.slot) for mention, _ in backward.mentions(forward(text))]
            mentions = [mention for mention, _ in backward.mentions(output)]
            for mention in mentions if wanted == [(mention.row, mention.slot) for mention in mentions] else ():
                paradigm = self.lexicon.paradigms[mention.row]
                term = paradigm.term(forward.target, mention.lexical)
                if term is not None and term in paradigm.choices[forward.target] and term not in held:
                    votes.setdefault(mention.row, Counter())[term] += 1
        return {row: counter.most_common(1)[0][0] for row, counter in votes.items()}

    def _accepted(
        self, texts: Iterable[str], forward: TextRewriter, backward: TextRewriter, values: Iterable[str]
    ) -> Mapping[str, str]:
        """Return the outputs that are used, by text; see the module's text."""
        fixed = {*values, *self.lexicon.protected, *self.protected, *forward.names}
        outputs = self._written_by_model(texts, forward)
        accepted = {}
        for text, output in outputs.items():
            by_lexicon = forward(text)
            terms = [[m.lexical.lower() for m, _ in backward.mentions(version)] for version in (by_lexicon, output)]
            left = [[m.lexical.lower() for m, _ in forward.mentions(version)] for version in (by_lexicon, output)]
            room = EXTRA_WORDS * len(list(forward.mentions(text)))
            keeps = all(_holds(output, phrase) for phrase in fixed if _holds(by_lexicon, phrase))
            if terms[0] == terms[1] and left[0] == left[1] and distance(by_lexicon, output) <= room and keeps:
                accepted[text] = output
        self.counts.update(texts=len(outputs), by_model=len(accepted))
        return accepted


def _said(dialogue: Dialogue) -> list[str]:
    return list(dict.fromkeys(text for turn in dialogue.turns for _, text in turn.utterances))


def _holds(text: str, phrase: str) -> bool:
    """Return whether a text has a phrase as whole words, in any case."""
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE) is not None
