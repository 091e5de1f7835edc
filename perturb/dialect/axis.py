"""Dialogues whose user speaks a dialect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.axis import Axis, Candidate, Expressions
from tod_bias.perturb.dealing import number_of
from tod_bias.perturb.dialect.rules import Dialect, Rule
from tod_bias.perturb.dialect.speaker import speak
from tod_bias.perturb.rewrite import DialogueRewrite, Remembered

_SHORTEST = 2
"""Letters of a value that is looked for in what the user says."""


@dataclass(frozen=True)
class Spoken:
    """What the user of one dialogue says in a dialect."""

    texts: dict[str, str]
    """Utterance to what becomes of it; those that change alone."""
    counts: Counter[str]
    """Rule to how often it was applied."""


class DialectAxis(Axis):
    """Rewrites what the user says, by the rules of a dialect; responses, calls and results stay as they are.

    Every dialogue is by a speaker of the standard, so there is one candidate, to the dialect, where a rule
    applies. Its word is the rule that applies most; the rules are its clusters, so that a claim about a dialect rests
    on many rules and not on one. A rule with a rate is one that some speakers have: the dialogue's id decides.

    Values of the dialogue's calls and results stay wherever the user says them. An utterance that the system says too,
    or that is a value, word for word, is left alone, so that T changes utterances of the user and nothing else. T⁻¹ is
    exact on what T made; on other strings it changes nothing, as a rule cannot be undone word by word: a response that
    quotes the user keeps the quotation.

    Args:
        dialect: the rules.
        protected: phrases that stay.
        sources: keep only candidates with these source groups.
        targets: keep only candidates with these target groups.

    Raises:
        AxisError: an unknown group.
    """

    reads_originals = True
    """T knows the user's utterances as the dialogue has them, so of crossed axes it comes first."""

    def __init__(
        self,
        dialect: Dialect,
        *,
        protected: Iterable[str] = (),
        sources: Iterable[str] | None = None,
        targets: Iterable[str] | None = None,
    ) -> None:
        self.name = dialect.axis
        self.groups: tuple[str, ...] = dialect.groups
        self.dialect = dialect
        self._protected = tuple(sorted({phrase.lower() for phrase in protected}))
        standard, spoken = dialect.groups
        self._possible = standard in self.chosen(sources) and spoken in self.chosen(targets)
        self._spoken = Remembered(self._speak, 1)

    @cached_property
    def signature(self) -> str:
        """What decides the rewrites, as one line of ``key:value`` parts; the rules by their content."""
        protected = f"|protected:{number_of(*self._protected):x}" if self._protected else ""
        return f"rules:{self.name}|hash:{self.dialect.digest}{protected}"

    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """The dialect, where any utterance of the user changes; else none."""
        counts = self._spoken(dialogue).counts
        if not counts or not self._possible:
            return []
        word = min(counts, key=lambda rule: (-counts[rule], rule))
        return [Candidate(word, *self.dialect.groups)]

    def counts_of(self, dialogue: Dialogue) -> Counter[Candidate]:
        """How often the rule of the candidate applies."""
        counts = self._spoken(dialogue).counts
        return Counter({candidate: counts[candidate.term] for candidate in self.candidates(dialogue)})

    def labels(self, candidate: Candidate) -> tuple[str, str]:
        """The rule that stands for a candidate, as the name of a cluster, twice."""
        return candidate.term, candidate.term

    def terms(self, dialogue: Dialogue, candidates: Sequence[Candidate]) -> list[Expressions]:
        """The rules that a dialogue is rewritten by; without them it is of the other group."""
        rules = frozenset(self._spoken(dialogue).counts)
        return [Expressions(rules, rules) for _ in candidates]

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> DialogueRewrite:
        """The rewriting T of this dialogue.

        Raises:
            AxisError: ``candidate`` is not one of this dialogue's.
        """
        if candidate not in self.candidates(dialogue):
            raise AxisError(
                f"dialogue {dialogue.id!r} has no candidate {candidate.term!r} ({candidate.source} > "
                f"{candidate.target}) on axis {self.name!r}; take one from candidates(dialogue)"
            )
        texts = self._spoken(dialogue).texts
        origins = {spoken: text for text, spoken in texts.items()}
        for turn in dialogue.turns:
            origins.pop(turn.user, None)  # said so in the original too: nobody can tell the two apart
        return DialogueRewrite(
            axis=self.name,
            source=candidate.source,
            target=candidate.target,
            word=candidate.term,
            forward=lambda text: texts.get(text, text),
            backward=lambda text: origins.get(text, text),
        )

    def rewrite_texts(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Rewrite plain texts, each as the utterance of another speaker.

        Raises:
            AxisError: an unknown group, or not from the standard to the dialect.
        """
        if self.pair(source, target) != self.groups:
            raise AxisError(f"axis {self.name!r}: rules go from {self.groups[0]} to {self.groups[1]} only")
        return [speak(self.dialect, text, self._protected, self._rules(text))[0] for text in texts]

    def _rules(self, key: str) -> list[Rule]:
        """The rules that one speaker has."""
        return [
            rule
            for rule in self.dialect.rules
            if rule.rate == 1 or number_of(self.name, rule.id, key) < rule.rate * 2**64
        ]

    def _speak(self, dialogue: Dialogue) -> Spoken:
        rules = self._rules(dialogue.id)
        said = {text for turn in dialogue.turns for speaker, text in turn.utterances if speaker != "user"}
        everything = "\n".join(turn.user for turn in dialogue.turns).lower()
        held = {value for turn in dialogue.turns for _, value in turn.values}
        said |= held
        values = {low for value in held if len(value) >= _SHORTEST and (low := value.lower()) in everything}
        values.update(self._protected)
        texts: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for turn in dialogue.turns:
            if turn.user in said:
                continue
            spoken, applied = speak(self.dialect, turn.user, values, rules)
            if spoken != turn.user:
                texts[str(turn.user)] = spoken
                counts += applied
        return Spoken(texts, counts)
