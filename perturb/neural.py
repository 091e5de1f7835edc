"""A trained perturber (Qian et al. 2022) in the lexicon's place, with the lexicon as its judge and its fallback.

Any sequence-to-sequence checkpoint that was trained on Qian's input, ``word, group <PERT_SEP> text``, such as
``facebook/perturber``. The lexicon still says which words mention a group, so that candidates and draws are the
same with and without a model; the model says what becomes of the text around them.

A model's output is taken only where T⁻¹ can undo it and nothing else is lost:

- every mention of the source group became a word that its row of the lexicon holds for the target;
- beside mentions at most two words each are changed, which is room for articles and verbs;
- slot values, names and protected phrases that the text holds stand in the output as T writes them;
- over the whole dialogue a word becomes one and the same word: the one that most outputs choose.

Everything else, and all values of API calls and results, the lexicon rewrites, with the words that the model chose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import ModelError
from tod_bias.perturb.axis import Candidate
from tod_bias.perturb.dealing import Dealer
from tod_bias.perturb.english import plain_form
from tod_bias.perturb.lexicon import Lexicon
from tod_bias.perturb.lexicon_axis import LexiconAxis, dialogue_rewrite
from tod_bias.perturb.rewrite import DialogueRewrite
from tod_bias.perturb.rewriter import Mention, TextRewriter

if TYPE_CHECKING:
    from tod_bias.models.generator import Generator

SEPARATOR = "<PERT_SEP>"
"""The special token between the instruction and the text."""
CHANGES_PER_MENTION = 2
"""Words beside a mention that may change with it."""

_TOKEN = re.compile(r"\w+|[^\w\s]")
FormKey = tuple[int, int, str]
"""Paradigm, form number and, where the lexicon's alternatives are different things, the word."""


def prompt(word: str, group: str, text: str) -> str:
    """Qian's input format."""
    return f"{word}, {group} {SEPARATOR} {text}"


def perturber_generator(model: str | Path, device: str | None = None) -> Generator:
    """The generator of a perturber's checkpoint.

    Raises:
        ModelError: it cannot be loaded, is no sequence-to-sequence model or has no ``<PERT_SEP>``.
    """
    from tod_bias.models.generator import shared_generator

    generator = shared_generator(model, device=device)
    if generator.causal:
        raise ModelError(f"{model}: is a causal model; a perturber is sequence to sequence (BART, T5 …)")
    if SEPARATOR not in generator.tokenizer.get_vocab():
        raise ModelError(
            f"{model}: its tokenizer has no token {SEPARATOR!r}, so it is no perturber; expected a checkpoint trained "
            f"on 'word, group {SEPARATOR} text', such as facebook/perturber"
        )
    return generator


@dataclass(frozen=True)
class _Request:
    """One text of a dialogue that mentions the source group."""

    text: str
    mentions: tuple[Mention, ...]
    """Those that are to change."""
    fixed: tuple[Mention, ...]
    """Those that are not, as they are out of the rewrite's scope."""
    prompts: tuple[str | None, ...]
    """One a line; None for a line without a mention."""


class NeuralAxis(LexiconAxis):
    """Rewrites utterances with a model, within what the lexicon allows.

    Args:
        lexicon: the axis's words.
        generator: the model's (:func:`perturber_generator`).
        options: those of :class:`~tod_bias.perturb.lexicon_axis.LexiconAxis`.
    """

    def __init__(self, lexicon: Lexicon, generator: Generator, **options: Any) -> None:
        super().__init__(lexicon, **options)
        self.generator: Generator = generator
        self._counts: Counter[str] = Counter()

    @cached_property
    def signature(self) -> str:
        """The model's and the lexicon's, as one line of ``key:value`` parts."""
        return f"perturber|{self.generator.signature}|{super().signature}"

    @property
    def model_counts(self) -> dict[str, int]:
        """Texts with a mention so far, dialogue by dialogue, and how many of them were rewritten ``by_model``."""
        return {"texts": self._counts["texts"], "by_model": self._counts["by_model"]}

    @property
    def without_model(self) -> LexiconAxis:
        """The lexicon's axis, which has the same candidates."""
        return LexiconAxis(self.lexicon, scope=self.scope)

    def deal(self, dialogue: Dialogue, candidates: Sequence[Candidate], dealer: Dealer) -> tuple[Candidate, ...]:
        """The candidates as they are: the model chooses the terms."""
        return tuple(candidates)

    def prepare(self, pairs: Iterable[tuple[Dialogue, Candidate]]) -> None:
        """Generate for many dialogues at once what :meth:`rewrite` will ask for."""
        prompts = [
            line
            for dialogue, candidate in pairs
            for text in self._dialogue_texts(dialogue, candidate)
            for line in text.prompts
            if line is not None
        ]
        self.generator.generate(prompts)

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> DialogueRewrite:
        """The rewriting T of this dialogue that ``candidate`` stands for.

        Raises:
            AxisError: ``candidate`` is not one of this dialogue's.
        """
        forward, rows = self._forward(dialogue, candidate)
        texts = self._dialogue_texts(dialogue, candidate)
        values = [value for turn in dialogue.turns for _, value in turn.values if value]
        by_model, chosen = self._judged(texts, forward, values, rows)
        return dialogue_rewrite(dialogue, candidate, chosen, self._inverse(candidate), rows, by_model)

    def rewrite_texts(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Rewrite plain texts, each on its own: every word of ``source`` becomes one of ``target``.

        Raises:
            AxisError: an unknown group, or source equal to target.
        """
        forward = self._rewriter(source, target, strict_they=False)
        requests = {text: _request(text, forward, None, "") for text in texts}
        self.generator.generate([line for item in requests.values() if item for line in item.prompts if line])
        rewritten = {}
        for text, item in requests.items():
            made, _ = self._judged([item] if item else [], forward, (), None)
            rewritten[text] = made[text] if text in made else forward(text)
        return [rewritten[text] for text in texts]

    def _dialogue_texts(self, dialogue: Dialogue, candidate: Candidate) -> list[_Request]:
        forward, rows = self._forward(dialogue, candidate)
        spoken = dict.fromkeys(text for turn in dialogue.turns for _, text in turn.utterances)
        requests = (_request(text, forward, rows, candidate.term) for text in spoken)
        return [request for request in requests if request is not None]

    def _judged(
        self, texts: Sequence[_Request], forward: TextRewriter, values: Sequence[str], rows: frozenset[int] | None
    ) -> tuple[dict[str, str], TextRewriter]:
        """The outputs that are taken, by text, and the lexicon rewriter with the words that the model chose."""
        outputs = iter(self.generator.generate([line for text in texts for line in text.prompts if line is not None]))
        written = [_joined(text, outputs) for text in texts]
        forms = [self._forms(text, output, forward) for text, output in zip(texts, written, strict=True)]
        chosen = _voted(forms)
        rewriter = forward.choosing(lambda mention, form: chosen.get(self._key(mention), form))
        by_lexicon = rewriter.only(rows)
        phrases = [*self.lexicon.protected, *self.protected, *forward.names]
        taken = {}
        for text, output, some in zip(texts, written, forms, strict=True):
            if some is None or any(chosen[key] != form for key, form in some.items()):
                continue
            fixed = {phrase: phrase for phrase in phrases}
            fixed |= {value: by_lexicon(value) for value in values if _holds(text.text, value)}
            if all(_holds(output, new) for old, new in fixed.items() if _holds(text.text, old)):
                taken[text.text] = output
        self._counts.update(texts=len(texts), by_model=len(taken))
        return taken, rewriter

    def _key(self, mention: Mention) -> FormKey:
        return mention.row, mention.slot, plain_form(mention.lexical) if self.lexicon.distinct else ""

    def _forms(self, text: _Request, output: str, forward: TextRewriter) -> dict[FormKey, str] | None:
        """The lexicon forms that the output writes for the text's mentions; None where it did anything else."""
        replaced = _replacements(text, output)
        if replaced is None:
            return None
        forms: dict[FormKey, str] = {}
        for mention, word in zip(text.mentions, replaced, strict=True):
            cell = self.lexicon.paradigms[mention.row].cells[forward.target]
            known = {plain_form(parts[mention.slot].text): parts[mention.slot].text for parts in reversed(cell)}
            form = known.get(plain_form(word))
            if form is None or forms.setdefault(self._key(mention), form) != form:
                return None
        return forms


def _request(text: str, forward: TextRewriter, rows: frozenset[int] | None, word: str) -> _Request | None:
    """What the model is asked about a text; None where it mentions nothing that is to change."""
    every = [mention for mention, _ in forward.mentions(text)]
    mentions = tuple(mention for mention in every if rows is None or mention.row in rows)
    if not mentions:
        return None
    prompts: list[str | None] = []
    start = 0
    for line in text.split("\n"):
        terms = [mention.text for mention in mentions if start <= mention.start < start + len(line)]
        drawn = next((term for term in terms if term.lower() == word), terms[0] if terms else None)
        prompts.append(None if drawn is None else prompt(drawn, forward.target, line.strip()))
        start += len(line) + 1
    fixed = tuple(mention for mention in every if mention not in mentions)
    return _Request(text, mentions, fixed, tuple(prompts))


def _joined(text: _Request, outputs: Iterator[str]) -> str:
    """The text with every line that the model was asked about replaced by its output, blanks around it kept."""
    lines = []
    for line, prompt in zip(text.text.split("\n"), text.prompts, strict=True):
        if prompt is None:
            lines.append(line)
        else:
            before, after = len(line) - len(line.lstrip()), len(line.rstrip())
            lines.append(line[:before] + next(outputs) + line[after:])
    return "\n".join(lines)


def _holds(text: str, phrase: str) -> bool:
    """Whether ``phrase`` stands in ``text`` as whole words, whatever its capitals."""
    if phrase.lower() not in text.lower():
        return False
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE) is not None


def _voted(forms: Iterable[dict[FormKey, str] | None]) -> dict[FormKey, str]:
    """The form that most outputs choose."""
    votes: dict[FormKey, Counter[str]] = {}
    for some in forms:
        for key, form in (some or {}).items():
            votes.setdefault(key, Counter())[form] += 1
    return {key: count.most_common(1)[0][0] for key, count in votes.items()}


def _replacements(text: _Request, output: str) -> list[str] | None:
    """What stands in ``output`` where the mentions stand in the text; None if too much else is different."""
    old, new = list(_TOKEN.finditer(text.text)), list(_TOKEN.finditer(output))
    owner, fixed = _owners(text.mentions, old), _owners(text.fixed, old)
    matcher = SequenceMatcher(None, [token[0] for token in old], [token[0] for token in new], autojunk=False)
    places: dict[int | None, list[int]] = {}  # a mention's number, None beside mentions, to tokens of the output
    changed = 0
    for kind, *span in matcher.get_opcodes():
        pairs = _aligned(span, owner)
        if pairs is None or (kind != "equal" and set(fixed[span[0] : span[1]]) - {None}):
            return None
        if kind != "equal":
            beside = [before for before, _ in pairs if owner[before] is None]
            changed += len(beside) if pairs else max(span[1] - span[0], span[3] - span[2])
        for before, after in pairs:
            places.setdefault(owner[before], []).append(after)
    mentions = range(len(text.mentions))
    if changed > CHANGES_PER_MENTION * len(mentions) or not places.keys() >= set(mentions):
        return None
    spots = map(places.__getitem__, mentions)
    return [output[new[min(some)].start() : new[max(some)].end()] for some in spots]


def _owners(mentions: Sequence[Mention], tokens: Sequence[re.Match[str]]) -> list[int | None]:
    """For each token the number of the mention that it is part of."""
    return [
        next((n for n, held in enumerate(mentions) if held.start <= token.start() and token.end() <= held.end), None)
        for token in tokens
    ]


def _aligned(span: Sequence[int], owner: Sequence[int | None]) -> list[tuple[int, int]] | None:
    """The tokens of a stretch of the text with those that stand for them in the output.

    Args:
        span: where the stretch begins and ends in the text, and where in the output.
        owner: of each token of the text the mention that it is part of.

    Returns:
        Pairs; empty where no mention is in the stretch and its length changes; None where they are not known.
    """
    i1, i2, j1, j2 = span
    if i2 - i1 == j2 - j1:
        return list(zip(range(i1, i2), range(j1, j2), strict=True))
    owners = {number for number in owner[i1:i2] if number is not None}
    if not owners:
        return []
    mine = [i for i in range(i1, i2) if owner[i] is not None]
    left, right = mine[0] - i1, i2 - 1 - mine[-1]
    if len(owners) > 1 or len(mine) != mine[-1] + 1 - mine[0] or left + right >= j2 - j1:
        return None
    return [  # "an actress" -> "a stage performer": what is left in the middle is the mention
        *zip(range(i1, mine[0]), range(j1, j1 + left), strict=True),
        *((mine[0], j) for j in range(j1 + left, j2 - right)),
        *zip(range(mine[-1] + 1, i2), range(j2 - right, j2), strict=True),
    ]
