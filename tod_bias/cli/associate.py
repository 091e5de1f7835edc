"""``tod-bias associate``: reads options, calls the library, prints. Heavy imports stay inside the functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tod_bias.cli.arguments import check_files, refuse
from tod_bias.cli.options import command
from tod_bias.config import Options, OutputOptions
from tod_bias.errors import EmbeddingsError
from tod_bias.files import write_json
from tod_bias.folder import check_no_other_run, claimed
from tod_bias.recommenders.embeddings.request import AssociationRequest
from tod_bias.recommenders.embeddings.settings import AssociationStatistics, AuditSettings
from tod_bias.recommenders.latent_factor.settings import TwoTowerConfig
from tod_bias.report.console import Console


class PlantedOptions(Options):
    """The synthetic case study."""

    title = "Case study"

    strength: float | None = None
    """Strength of the association that is planted in synthetic interactions."""


class StudyOptions(PlantedOptions):
    """What is audited, where no options say it."""

    scope: Path | None = None
    """YAML file that names everything: a study to keep."""


class AssociationOutput(OutputOptions):
    """Where results go."""

    out: Path = Path("runs/association")
    """Folder for the results."""


@command("tod-bias associate --embeddings model.npz --users users.csv --attribute gender --out runs/embeddings")
def associate(
    *, request: AssociationRequest, study: StudyOptions, how: AuditSettings, output: AssociationOutput
) -> None:
    """Audit a recommender's embeddings for associations with an attribute of its users (Beattie).

    With a file of embeddings and one of users' attributes: --embeddings model.npz --users users.csv --attribute gender.
    Without options it runs the case study: a recommender trained on synthetic interactions with and without gender.
    Writes associations.json, entities.parquet, directions.npz, tables, figures and report.html.
    """
    _check(request, study)
    from tod_bias.recommenders.embeddings.readers import check_file

    named = (request.sets, request.users, request.items, request.interactions, request.pairs)
    check_files(study.scope, *named, *request.compare)
    for path in request.embeddings:
        check_file(path)
    check_no_other_run(output.out, "associations.json")
    claimed(output.out)

    from tod_bias.recommenders.embeddings.scope import demo_scope, read_request, read_scope_file, run_scope

    if study.scope is not None:
        scope = read_request(read_scope_file(study.scope), how)
    elif request.embeddings:
        scope = read_request(request, how)
    else:
        scope = demo_scope(how, strength=study.strength, show_progress=not output.quiet)
    outcome = run_scope(scope, output.out, show_progress=not output.quiet)
    if not output.quiet:
        _print(outcome.runs, outcome.comparison)
        print(f"Results: {output.out / 'associations.json'}   Report: {output.out / 'report.html'}")


def _check(request: AssociationRequest, study: StudyOptions) -> None:
    """See to it that no option is passed over."""
    named = request.given().keys()
    if study.scope is not None:
        refuse(request, named, "--scope names everything: leave it out, or write it into the file")
    elif not request.embeddings:
        refuse(request, named, "about embeddings; give them with --embeddings FILE")
    if request.sets is not None and request.test is not None:
        raise EmbeddingsError("--sets names E and P: leave out --test")
    if study.scope is not None or request.embeddings:
        refuse(study, ("strength",), "for the synthetic case study: leave out --embeddings and --scope")


def _print(runs: Any, comparison: Any) -> None:
    from rich.text import Text

    from tod_bias.recommenders.embeddings import tables
    from tod_bias.recommenders.embeddings.reading import comparison_reading, reading
    from tod_bias.report.sheets import print_sheets

    console = Console()
    for name, run in runs:
        if len(runs) > 1:
            console.print(Text(name, style="bold"))
        alone = [(name, run)]
        print_sheets((tables.metrics(alone), tables.r_ripa(alone, short=True), tables.accuracies(alone)))
    if comparison is not None:
        print_sheets([tables.changes(comparison, short=True)])
    console.print(Text("Reading", style="italic"))
    for name, run in runs:
        if len(runs) > 1:
            console.print(Text(name, style="bold"))
        for sentence in reading(run):
            console.print(Text(f"- {sentence}"))
    if comparison is not None:
        console.print(Text("Change", style="bold"))
        for sentence in comparison_reading(comparison, runs[1][1]):
            console.print(Text(f"- {sentence}"))
    for note in dict.fromkeys(note for _, run in runs for note in run["notes"]):
        console.print(Text(f"- note: {note}", style="dim"))


class ComparisonOutput(OutputOptions):
    """Where the comparison goes."""

    out: Path | None = None
    """Folder for comparison.json; by default the second."""


@associate.command
@command("tod-bias associate compare runs/plain runs/fair")
def compare(before: Path, after: Path, /, *, how: AssociationStatistics, output: ComparisonOutput) -> None:
    """Compare two audits of the same sets: every metric, its change in %, and whether it is significant.

    Args:
        before: Results that changes are relative to: a folder.
        after: Results of the other training.
    """
    nothing = "no results of tod-bias associate can be read; give folders written with --out"
    check_files(before, after, otherwise=nothing)
    from tod_bias.recommenders.embeddings import tables
    from tod_bias.recommenders.embeddings.comparison import compare, load_run
    from tod_bias.recommenders.embeddings.reading import comparison_reading
    from tod_bias.recommenders.embeddings.scope import save_comparison
    from tod_bias.report.sheets import print_sheets

    runs = load_run(before), load_run(after)
    titles = tuple(str(run.record.get("name", folder.name)) for run, folder in zip(runs, (before, after), strict=True))
    if titles[0] == titles[1]:
        titles = (str(before), str(after))
    comparison = compare(
        *runs,
        permutations=how.permutations,
        resamples=how.bootstrap,
        seed=how.seed,
        names=(titles[0], titles[1]),
    )
    path = save_comparison(comparison, output.out or after)
    if not output.quiet:
        console = Console()
        print_sheets([tables.changes(comparison, short=True)])
        for sentence in comparison_reading(comparison, runs[1].record):
            console.print(f"- {sentence}", markup=False, highlight=False)
        print(f"Results: {path}")


class InteractionOptions(PlantedOptions):
    """What is learned from."""

    title = "Data"

    interactions: str = "synthetic"
    """File or folder (CSV, Parquet, MovieLens, Last.FM), or synthetic."""
    users: Path | None = None
    """CSV or Parquet: id and attributes of users."""
    items: Path | None = None
    """CSV or Parquet: id and attributes of items."""


class EmbeddingsOutput(OutputOptions):
    """Where embeddings go."""

    out: Path = Path("runs/two_tower")
    """Folder for the results."""


@associate.command
@command("tod-bias associate train --interactions ratings.csv --users users.csv --out runs/two_tower")
def train(*, source: InteractionOptions, config: TwoTowerConfig, output: EmbeddingsOutput) -> None:
    """Train the reference two-tower recommender; writes embeddings.npz, users.csv, items.csv, training.json."""
    is_made = source.interactions == "synthetic"
    if is_made:
        refuse(source, ("users", "items"), "of the interactions, which are made; give --interactions FILE too")
    else:
        refuse(source, ("strength",), "for --interactions synthetic")
        check_files(source.interactions, source.users, source.items)
    from tod_bias.recommenders.embeddings.readers import save_embeddings
    from tod_bias.recommenders.latent_factor.interactions import load_interactions, save_interactions
    from tod_bias.recommenders.latent_factor.synthetic import STRENGTH, synthetic_interactions

    if is_made:
        seen = synthetic_interactions(
            strength=STRENGTH if source.strength is None else source.strength, seed=config.seed
        )
    else:
        seen = load_interactions(source.interactions, source.users, source.items)
    out = output.out
    claimed(out)

    from tod_bias.recommenders.latent_factor.two_tower import train_two_tower

    training = train_two_tower(seen, config, show_progress=not output.quiet)
    save_embeddings(training.embeddings, out / "embeddings.npz")
    save_interactions(seen, out)
    write_json(out / "training.json", training.record)
    if not output.quiet:
        recall = training.record["recall_at_50"]
        print(
            f"Trained on {training.record['interactions']} interactions; recall at 50 of held-out ones "
            f"{'n/a' if recall is None else format(recall, '.3f')}. Embeddings: {out / 'embeddings.npz'}"
        )
