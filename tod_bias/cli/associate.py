"""``tod-bias associate``: reads options, calls the library, prints. Heavy imports stay inside the functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from tod_bias.cli.arguments import check_files, refuse
from tod_bias.cli.options import command
from tod_bias.config import Options, OutputOptions
from tod_bias.errors import EmbeddingsError
from tod_bias.files import write_json
from tod_bias.folder import check_no_other_run, claimed, writable
from tod_bias.recommenders.embeddings.settings import AssociationRequest, AssociationStatistics, AuditSettings
from tod_bias.recommenders.latent_factor.settings import TwoTowerConfig
from tod_bias.report.console import Console
from tod_bias.report.sheets import print_sheets


class PlantedOptions(Options):
    """The synthetic case study."""

    title = "Case study"

    strength: float | None = None
    """Strength of the association that is planted in synthetic interactions."""


class AssociationOutput(OutputOptions):
    """Where results go."""

    out: Path = Path("runs/association")
    """Folder for the results."""


@command("tod-bias associate --embeddings model.npz --users users.csv --attribute gender --out runs/embeddings")
def associate(
    *, request: AssociationRequest, study: PlantedOptions, how: AuditSettings, output: AssociationOutput
) -> None:
    """Audit a recommender's embeddings for associations with an attribute of its users (Beattie).

    With a file of embeddings and one of users' attributes: --embeddings model.npz --users users.csv --attribute gender.
    Without options it runs the case study: a recommender trained on synthetic interactions with and without gender.
    Writes associations.json, entities.parquet, directions.npz, tables, figures and report.html.
    """
    if request.embeddings is None:
        refuse(request, type(request).model_fields, "about embeddings; give them with --embeddings FILE")
    else:
        refuse(study, ("strength",), "for the synthetic case study: leave out --embeddings")
    if request.sets is not None and request.test is not None:
        raise EmbeddingsError("--sets names E and P: leave out --test")
    from tod_bias.recommenders.embeddings.readers import check_file

    check_files(request.sets, request.users, request.items, request.interactions, request.pairs)
    if request.embeddings is not None:
        check_file(request.embeddings)
    check_no_other_run(output.out, "associations.json")
    claimed(output.out)

    from tod_bias.recommenders.embeddings.study import audit_request, case_study, write_audit

    comparison = None
    if request.embeddings is not None:
        result = audit_request(request, how, show_progress=not output.quiet)
        write_audit(result, output.out)
    else:
        result, comparison = case_study(output.out, how, strength=study.strength, show_progress=not output.quiet)
    if not output.quiet:
        _print(result.record, comparison)
        print(f"Results: {output.out / 'associations.json'}   Report: {output.out / 'report.html'}")


def _print(run: Mapping[str, Any], comparison: Mapping[str, Any] | None) -> None:
    from tod_bias.recommenders.embeddings import tables
    from tod_bias.recommenders.embeddings.reading import reading

    console = Console()
    print_sheets([tables.metrics(run), tables.r_ripa(run, short=True), tables.accuracies(run)])
    for sentence in reading(run):
        console.print(Text(f"- {sentence}"))
    for note in run["notes"]:
        console.print(Text(f"- note: {note}", style="dim"))
    if comparison is not None:
        _print_changes(comparison)


def _print_changes(comparison: Mapping[str, Any]) -> None:
    from tod_bias.recommenders.embeddings import tables

    print_sheets([tables.changes(comparison, short=True)])
    for sentence in comparison["reading"]:
        Console().print(Text(f"- {sentence}"))


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
    from tod_bias.recommenders.embeddings.comparison import NAME, compare, load_run

    runs = load_run(before), load_run(after)
    names = [str(run.record.get("name", folder)) for run, folder in zip(runs, (before, after), strict=True)]
    if names[0] == names[1]:
        names = [str(before), str(after)]
    comparison = compare(
        *runs,
        permutations=how.permutations,
        resamples=how.bootstrap,
        seed=how.seed,
        names=(names[0], names[1]),
    )
    path = writable(output.out or after) / NAME
    write_json(path, comparison)
    if not output.quiet:
        _print_changes(comparison)
        print(f"Results: {path}")


class InteractionOptions(PlantedOptions):
    """What is learned from."""

    title = "Data"

    interactions: str = "synthetic"
    """CSV or Parquet, a folder of associate train, or synthetic."""
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

    embeddings, record = train_two_tower(seen, config, show_progress=not output.quiet)
    save_embeddings(embeddings, out / "embeddings.npz")
    save_interactions(seen, out)
    write_json(out / "training.json", record)
    if not output.quiet:
        recall = record["recall_at_50"]
        print(
            f"Trained on {record['interactions']} interactions; recall at 50 of held-out ones "
            f"{'n/a' if recall is None else format(recall, '.3f')}. Embeddings: {out / 'embeddings.npz'}"
        )
