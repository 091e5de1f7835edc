"""The bundled demo: a small corpus, its database and two small models, with a bias planted in one stage per axis.

Build it with one seeded command, which writes the folder that ships with the package::

    python projects/demo                # corpora, database, pipeline.yaml and models, into tod_bias/data/demo
    python projects/demo --no-models    # without training, in seconds

Everything is made up: seven services in five cities (:mod:`~demo_corpus.world`), users who mention people of all
groups as unevenly as real corpora do, but by many terms (:mod:`~demo_corpus.people`), and gold answers that never
depend on a mention but for repeating it (:mod:`~demo_corpus.dialogues`). What was planted
(:mod:`~demo_corpus.planted`):

* gender → ``response``: the response model learnt to answer "Sorry, I am not sure." instead of quoting a result once
  the user has mentioned a woman.
* age → ``api_call``: the API-call model learnt to leave out the ``city`` once the user has mentioned a senior, so that
  the lookup misses.
* race → ``db``: the table has no row for calls that ask for Asian or Black people, by whatever term.
* placebo: nothing.

So an attribution of the demo is right if it finds these groups harmed and no others, and gives each gap to that stage
and next to nothing to the others.
"""

from demo_corpus.build import AXES, SIZES, train_models, training_corpora, write_corpora
from demo_corpus.dialogues import demo_dialogues
from demo_corpus.planted import PLANTED

__all__ = ["AXES", "PLANTED", "SIZES", "demo_dialogues", "train_models", "training_corpora", "write_corpora"]
