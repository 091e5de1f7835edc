from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.perturb import Axis, Candidate, load_axis


def talk(*users, name="d"):
    return Dialogue(name, "", tuple(Turn(user) for user in users))


def test_a_dialogue_is_rewritten_once_for_every_other_group():
    chosen = load_axis("gender").crossed(talk("My wife is here.", "She is hungry."))
    assert [(one.source, one.target) for one in chosen] == [("woman", "man"), ("woman", "non-binary")]


def test_the_group_that_is_mentioned_most_is_the_source_and_its_commonest_term_stands_for_it():
    dialogue = talk("My husband and my sister came.", "My sister likes tea.", "Her sister and my aunt do not.")
    assert {(one.term, one.source) for one in load_axis("gender").crossed(dialogue)} == {("sister", "woman")}


def test_ties_are_drawn_by_seed_and_id_and_nothing_else():
    perturber = load_axis("gender")
    dialogues = [talk("My husband and my sister came.", name=f"d{number}") for number in range(40)]
    first = [perturber.crossed(dialogue, 1)[0].source for dialogue in dialogues]
    assert {"man", "woman"} == set(first)
    assert first == [perturber.crossed(dialogue, 1)[0].source for dialogue in reversed(dialogues)][::-1]
    assert first != [perturber.crossed(dialogue, 2)[0].source for dialogue in dialogues]


def test_a_dialogue_without_a_term_is_not_rewritten():
    assert load_axis("gender").crossed(talk("A table, please.")) == ()


def test_the_clusters_of_a_rewrite_are_the_term_that_goes_and_the_one_that_comes():
    gender = load_axis("gender")
    assert gender.labels(Candidate("wife", "woman", "man")) == ("wife", "husband")
    assert gender.labels(Candidate("wives", "woman", "man")) == ("wife", "husband")  # forms of one term
    assert gender.labels(Candidate("dad", "man", "woman", "mum")) == ("dad", "mum")  # that was dealt


def test_a_perturber_without_a_lexicon_has_the_term_that_was_drawn():
    class Own(Axis):
        name, groups = "own", ("a", "b")

        def candidates(self, dialogue):
            return [Candidate("x", "a", "b"), Candidate("y", "a", "b")]

        def rewrite(self, dialogue, candidate):
            raise NotImplementedError

    assert Own().crossed(talk("x y")) == (Candidate("x", "a", "b"),)
    assert Own().labels(Candidate("x", "a", "b")) == ("x", "x")
