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


def test_terms_that_are_written_for_each_other_are_one_cluster():
    gender = load_axis("gender")
    wife = gender.labels(Candidate("wife", "woman", "man"))
    husband = gender.labels(Candidate("husband", "man", "woman"))
    assert wife == husband == (wife[0], wife[0])
    hubby = gender.labels(Candidate("hubby", "man", "woman"))
    assert hubby == ("hubby", wife[0])  # it becomes a wife, and no wife becomes a hubby
    plural = gender.labels(Candidate("wives", "woman", "man"))
    assert plural == wife


def test_a_perturber_without_a_lexicon_has_the_term_that_was_drawn():
    class Own(Axis):
        name, groups = "own", ("a", "b")

        def candidates(self, dialogue):
            return [Candidate("x", "a", "b"), Candidate("y", "a", "b")]

        def rewrite(self, dialogue, candidate):
            raise NotImplementedError

    assert Own().crossed(talk("x y")) == (Candidate("x", "a", "b"),)
    assert Own().labels(Candidate("x", "a", "b")) == ("x", "x")
