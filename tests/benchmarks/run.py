"""Measured ratios, each of two things in one run. ``make benchmark``, or ``python tests/benchmarks/run.py --help``.

Times on one machine vary; ratios of two things measured side by side vary much less, so only those are claimed.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest
from transformers import AutoModelForCausalLM, AutoTokenizer

from tod_bias import load_corpus, load_pipeline
from tod_bias.audit.record import generators_of
from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings
from tod_bias.perturb import load_axis
from tod_bias.statistics.arms import all_arms
from tod_bias.statistics.resampling import resample, resample_counts
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import StageInput
from tod_bias.systems.stages.database import LookupDb
from tod_bias.systems.stages.language_model import ApiCall, Response

sys.path.insert(0, str(Path(__file__).parent))
from embeddings import association


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Recorder:
    """A stand-in for a generator that notes which prompts it is asked for."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.asked: list[str] = []

    def generate(self, prompts: list[str]) -> list[str]:
        self.asked += prompts
        return self.generator.generate(prompts)


def attribution(options: argparse.Namespace) -> None:
    """End-to-end attribution, all arms and counterfactuals, against every turn of each generated one by one."""
    where = {"datapath": options.datapath, "split": options.split}
    dialogues = load_corpus(options.corpus, **where)
    perturber = load_axis(options.axis)
    crossed = [(dialogue, perturber.crossed(dialogue)) for dialogue in dialogues]
    drawn = [
        (dialogue, [perturber.rewrite(dialogue, candidate) for candidate in candidates])
        for dialogue, candidates in crossed
        if candidates
    ][: options.dialogues]
    if options.model:
        settings = GenerationSettings(
            max_new_tokens=options.max_new_tokens, dtype=options.dtype, backend=options.backend
        )
        models = {"api_call": Generator(options.model, settings)}
        models["response"] = models["api_call"]
        database = LookupDb.from_dialogues(dialogues)
    else:
        demo = load_pipeline("demo")
        models = {
            name: Generator(g.name, g.settings)
            for name, g in zip(("api_call", "response"), generators_of(demo.stages), strict=True)
        }
        database = demo.stages["db"]
    for generator in models.values():
        generator.generate(["warm up"])
    runs = [run for dialogue, rewrites in drawn for run in (Run(dialogue), *(Run(dialogue, r) for r in rewrites))]

    def pipeline(of: dict[str, object]) -> Pipeline:
        return Pipeline({"api_call": ApiCall(of["api_call"]), "db": database, "response": Response(of["response"])})

    ours = timed(lambda: Execution(pipeline(models))(runs))

    # What the naive loop would ask: every arm's own run of its swapped pipeline, turn by turn.
    recorders = {name: Recorder(generator) for name, generator in models.items()}
    for name, recorder in recorders.items():
        recorder.stage = (ApiCall if name == "api_call" else Response)(models[name])
        recorder.stage.generator = recorder
    naive = Pipeline({"api_call": recorders["api_call"].stage, "db": database, "response": recorders["response"].stage})
    for run in runs:
        dialogue = run.rewritten
        inputs = [StageInput(dialogue.turns[:n], turn.user) for n, turn in enumerate(dialogue.turns)]
        if run.rewrite is None:
            naive(inputs)
            continue
        for arm in all_arms(naive.names):
            naive.swap(arm).under(run.rewrite)(inputs)
    asked = [(name, prompt) for name, recorder in recorders.items() for prompt in recorder.asked]
    sample = random.Random(0).sample(asked, min(options.sample, len(asked)))
    loaded = {}
    for name, generator in models.items():
        model = AutoModelForCausalLM.from_pretrained(generator.name).eval()
        loaded[name] = model, AutoTokenizer.from_pretrained(generator.name), list(generator.stop_tokens)

    def one_by_one() -> None:
        for name, prompt in sample:
            model, tokenizer, stops = loaded[name]
            most = models[name].settings.max_new_tokens
            ids = torch.tensor([tokenizer(prompt)["input_ids"][-models[name].max_prompt :]])
            mask = torch.ones_like(ids)
            model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=most,
                do_sample=False,
                eos_token_id=stops,
                pad_token_id=stops[0],
            )

    each = timed(one_by_one) / len(sample)
    distinct = len(set(asked))
    print(
        f"attribution, {options.corpus}, axis {options.axis}: {len(drawn)} dialogues, {len(runs)} counterfactuals, "
        f"8 arms, {len(asked)} prompts, {distinct} distinct ({len(asked) / distinct:.1f}x)\n"
        f"  one by one {each * len(asked):8.1f} s ({each * 1000:.1f} ms a prompt, measured on {len(sample)})\n"
        f"  tod-bias   {ours:8.1f} s   ratio {each * len(asked) / ours:.1f}x"
    )
    if options.dtype not in ("auto", "float32"):
        pairs = list(dict.fromkeys(asked))
        changed = 0
        for name, generator in models.items():
            prompts = [prompt for own, prompt in pairs if own == name]
            reference = Generator(generator.name, replace(generator.settings, dtype="float32", backend="auto"))
            said, expected = generator.generate(prompts), reference.generate(prompts)
            changed += sum(one != other for one, other in zip(said, expected, strict=True))
        print(f"  {options.dtype}: {changed} of {len(pairs)} outputs differ from float32 ({changed / len(pairs):.1%})")


def bootstrap(options: argparse.Namespace) -> None:
    """10,000 resamples of dialogues against sacreBLEU's own paired bootstrap."""
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(200)]
    references = [" ".join(rng.choice(words, 12)) for _ in range(options.segments)]

    def noisy(rate: float) -> list[str]:
        return [" ".join(w if rng.random() > rate else str(rng.choice(words)) for w in r.split()) for r in references]

    systems = {"a": noisy(0.2), "b": noisy(0.25)}
    metric = CorpusBleu()
    resamples = 10_000

    def theirs() -> None:
        test = PairedTest(list(systems.items()), {"BLEU": BLEU()}, [references], test_type="bs", n_samples=resamples)
        test()

    def ours() -> None:
        statistics = np.concatenate([metric.of_texts(texts, references) for texts in systems.values()], axis=1)
        resample(statistics, lambda sums: metric.score(sums.reshape(-1, 2, 10)), resamples, 0)

    statistics = np.concatenate([metric.of_texts(texts, references) for texts in systems.values()], axis=1)
    whole = statistics.reshape(-1, options.turns, 20).sum(axis=1)  # (dialogues, statistics): what is resampled here
    only = timed(lambda: resample(statistics, lambda sums: metric.score(sums.reshape(-1, 2, 10)), resamples, 0))
    dialogues = timed(lambda: resample(whole, lambda sums: metric.score(sums.reshape(-1, 2, 10)), resamples, 0))
    slow, quick = timed(theirs), timed(ours)
    counts = resample_counts(rng, 5, len(references))
    worst = 0.0
    for row, sums in zip(counts, counts.astype(float) @ statistics[:, :10], strict=True):
        drawn = np.repeat(np.arange(len(references)), row)
        score = BLEU().corpus_score([systems["a"][i] for i in drawn], [[references[i] for i in drawn]]).score / 100
        worst = max(worst, abs(score - float(metric.score(sums))))
    print(
        f"bootstrap, {len(references)} segments, two systems, {resamples} resamples; BLEU differs by {worst:.0e}\n"
        f"  sacreBLEU, segments {slow:7.3f} s\n"
        f"  tod-bias, segments  {only:7.3f} s   ratio {slow / only:.0f}x ({slow / quick:.0f}x with scoring the texts)\n"
        f"  tod-bias, {len(whole)} dialogues of {options.turns} turns {dialogues:7.3f} s   "
        f"ratio {slow / dialogues:.0f}x (aim >= 150x)"
    )


def rewriting(options: argparse.Namespace) -> None:
    """Turns a second that are told otherwise, on one core (no ratio: the aim is a rate)."""
    dialogues = list(load_corpus(options.corpus, datapath=options.datapath, split=options.split, max_dialogues=2000))
    turns = sum(len(dialogue.turns) for dialogue in dialogues)
    for axis in options.axes.split(","):
        best = {"once": math.inf, "all": math.inf}
        for _ in range(options.repeats):
            for which in best:
                perturber = load_axis(axis)
                start = time.process_time()
                introduced = perturber.introduces
                drawn = perturber.select(dialogues, seed=0)
                told = 0
                for dialogue, candidates in drawn:
                    told += len(dialogue.turns) if introduced else 0
                    for candidate in candidates[: 1 if which == "once" else None]:
                        told += len(perturber.rewrite(dialogue, candidate)(dialogue).turns)
                best[which] = min(best[which], time.process_time() - start)
        print(
            f"rewriting, {options.corpus}, axis {axis}: {turns / best['once']:,.0f} turns a second are searched, drawn "
            f"for and rewritten once where they can be; {told / best['all']:,.0f} with all counterfactuals"
        )


def recommendation(options: argparse.Namespace) -> None:
    """The whole template audit of an LMRec, batched, against one query at a time; then with all its analyses."""
    from tod_bias.recommenders.lmrec.audit import audit
    from tod_bias.recommenders.lmrec.model import LMRec, ask, encode
    from tod_bias.recommenders.lmrec.recommendations import tidy
    from tod_bias.recommenders.lmrec.templates import load_templates

    model = LMRec.load(options.lmrec)
    words = load_templates()
    texts = [query.text for query in words.queries()]
    model.rank(texts[:50])  # warm up
    sample = random.Random(0).sample(texts, min(options.sample, len(texts)))

    def one_by_one() -> None:
        for text in sample:
            ids = torch.tensor(encode(model.tokenizer, [text], model.model.config.max_tokens))
            model._logits(ids).topk(20)

    each = min(timed(one_by_one) for _ in range(3)) / len(sample)
    asked = min(timed(lambda: model.rank(texts)) for _ in range(3))
    whole = timed(lambda: audit(tidy(ask(model, words, city="X"))))
    print(
        f"template audit, {len(texts)} queries, {len(model.venues)} venues, "
        f"{model.model.num_parameters():,} parameters\n"
        f"  one by one {each * len(texts):8.1f} s ({each * 1000:.1f} ms a query, measured on {len(sample)})\n"
        f"  batched    {asked:8.1f} s   ratio {each * len(texts) / asked:.1f}x (aim >= 10x)\n"
        f"  with all analyses, 1,000 resamples and 10,000 permutations: {whole:.1f} s (aim <= 60 s)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="demo")
    parser.add_argument("--datapath", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--axis", default="gender")
    parser.add_argument("--model", help="checkpoint for both stages; by default the demo's two models")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--dtype", default="auto", help="precision of --model")
    parser.add_argument("--backend", default="auto", help="what decodes with --model")
    parser.add_argument("--dialogues", type=int, default=30, help="perturbable dialogues in the attribution")
    parser.add_argument("--sample", type=int, default=200, help="prompts on which the naive loop is timed")
    parser.add_argument("--segments", type=int, default=2000, help="segments of the bootstrap")
    parser.add_argument("--turns", type=int, default=10, help="segments of one dialogue; divides --segments")
    parser.add_argument("--axes", default="gender,age,race,placebo", help="what is rewritten")
    parser.add_argument("--repeats", type=int, default=1, help="the best of so many is told (rewriting)")
    parser.add_argument("--only", choices=["attribution", "bootstrap", "rewriting", "recommendation", "association"])
    parser.add_argument("--lmrec", type=Path, help="a trained LMRec, for the template audit")
    options = parser.parse_args()
    every = (attribution, bootstrap, rewriting, association, *([recommendation] if options.lmrec else []))
    for benchmark in every:
        if options.only in (None, benchmark.__name__):
            benchmark(options)


if __name__ == "__main__":
    main()
