"""``tod-bias associate``: reads options, calls the library, prints. Heavy imports stay inside the functions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tod_bias.cli.arguments import check_files, given_options, unused
from tod_bias.cli.options import Bootstrap, Quiet, Seed
from tod_bias.errors import EmbeddingsError
from tod_bias.files import write_json
from tod_bias.folder import check_own, claimed
from tod_bias.report.console import Console
from tod_bias.statistics.needed import MOST_RESAMPLES

associate = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    help="Audit a recommender's embeddings for associations with an attribute (Beattie).",
)


class Side(StrEnum):
    """Alternatives of the permutation tests."""

    two_sided = "two-sided"
    greater = "greater"
    less = "less"


Out = Annotated[Path, typer.Option(help="Folder for the results.")]
Permutations = Annotated[
    int, typer.Option(min=1, max=MOST_RESAMPLES, help="Permutations; fewer where all can be enumerated.")
]


_OF_EMBEDDINGS = (
    "sets", "users", "items", "attribute", "test", "interactions", "audience", "compare", "names", "pairs", "csvc",
    "user_table", "item_table",
)  # fmt: skip
"""Parameters that say something about --embeddings."""


@associate.callback()
def audit_embeddings(
    context: typer.Context,
    embeddings: Annotated[
        list[Path] | None,
        typer.Option(help=".npz, .parquet, word2vec (.txt, .bin), implicit's .npz, torch state; twice: users, items."),
    ] = None,
    sets: Annotated[Path | None, typer.Option(help="JSON file with A, B, E, P: lists of rows or ids.")] = None,
    scope: Annotated[Path | None, typer.Option(help="YAML file that names everything: a study to keep.")] = None,
    users: Annotated[Path | None, typer.Option(help="CSV or Parquet: id and attributes of users.")] = None,
    items: Annotated[Path | None, typer.Option(help="CSV or Parquet: id and attributes of items.")] = None,
    attribute: Annotated[str | None, typer.Option(help="Users' attribute: COLUMN or COLUMN=A,B.")] = None,
    test: Annotated[str | None, typer.Option(help="Items to test: COLUMN=E,P; by default all items.")] = None,
    interactions: Annotated[
        Path | None, typer.Option(help="File or folder (MovieLens, Last.FM): audiences and histories.")
    ] = None,
    audience: Annotated[
        str | None, typer.Option(help="Items' attribute with the share of A in their audience.")
    ] = None,
    compare: Annotated[
        list[Path] | None, typer.Option(help="Embeddings of another training of the same entities.")
    ] = None,
    names: Annotated[str | None, typer.Option(help="Names of the two trainings, by a comma.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="CSV of pairs (id of A, id of B) for the PCA direction.")] = None,
    csvc: Annotated[str | None, typer.Option(help="Most biased entities a side, e.g. 200,2500.")] = None,
    user_table: Annotated[str | None, typer.Option(help="Torch state: name of the users' table.")] = None,
    item_table: Annotated[str | None, typer.Option(help="Torch state: name of the items' table.")] = None,
    alternative: Annotated[Side, typer.Option(help="Of the permutation tests.")] = Side.two_sided,
    permutations: Permutations = 10_000,
    bootstrap: Bootstrap = 1000,
    ddof: Annotated[int, typer.Option(min=0, max=1, help="Effect sizes divide by n (0) or n - 1 (1).")] = 0,
    strength: Annotated[float | None, typer.Option(help="Case study: strength of the planted association.")] = None,
    seed: Seed = 0,
    out: Out = Path("runs/association"),
    quiet: Quiet = False,
) -> None:
    """Audit a recommender's embeddings for associations with an attribute of its users (Beattie).

    With a file of embeddings and one of users' attributes: --embeddings model.npz --users users.csv --attribute gender.
    Without options it runs the case study: a recommender trained on synthetic interactions with and without gender.
    Writes associations.json, entities.parquet, directions.npz, tables, figures and report.html.
    """
    if context.invoked_subcommand is not None:
        unused(context, f"give it after {context.invoked_subcommand}", *context.params)
        return
    _check(embeddings, scope, given_options(context, *_OF_EMBEDDINGS), strength)
    from tod_bias.recommenders.embeddings.readers import check_file

    check_files(sets, scope, users, items, interactions, pairs, *(compare or ()))
    for path in embeddings or ():
        check_file(path)
    check_own(out, "associations.json")
    claimed(out)

    from tod_bias.recommenders.embeddings.scope import (
        Request,
        demo_scope,
        read_request,
        read_scope_file,
        run_scope,
    )
    from tod_bias.recommenders.embeddings.settings import AuditSettings

    settings = AuditSettings(
        alternative=alternative.value,  # type: ignore[arg-type]  # the same three words
        permutations=permutations,
        bootstrap=bootstrap,
        ddof=ddof,
        seed=seed,
    )
    if embeddings is None and scope is None:
        study = demo_scope(settings, strength=strength, show_progress=not quiet)
    else:
        request = (
            read_scope_file(scope)
            if scope is not None
            else Request(
                embeddings=embeddings or [],
                sets=sets,
                attribute=attribute,
                test=test,
                users=users,
                items=items,
                interactions=interactions,
                compare=compare or (),
                names=_list(names),
                audience=audience,
                pairs=pairs,
                csvc=_sizes(csvc),
                user_table=user_table,
                item_table=item_table,
            )
        )
        study = read_request(request, settings)
    outcome = run_scope(study, out, show_progress=not quiet)
    if not quiet:
        _print(outcome.runs, outcome.comparison)
        typer.echo(f"Results: {out / 'associations.json'}   Report: {out / 'report.html'}")


def _check(embeddings: list[Path] | None, scope: Path | None, named: Sequence[str], strength: float | None) -> None:
    """See to it that no option is passed over.

    Raises:
        EmbeddingsError: some do not go together.
    """
    if scope is not None and (embeddings or named):
        given = ["--embeddings", *named] if embeddings else named
        raise EmbeddingsError(f"--scope names everything: leave out {', '.join(given)}, or write it into the file")
    if scope is None and not embeddings and named:
        raise EmbeddingsError(f"give the embeddings with --embeddings FILE: {', '.join(named)} are about them")
    if "--sets" in named and "--test" in named:
        raise EmbeddingsError("--sets names E and P: leave out --test")
    if strength is not None and (embeddings or scope):
        raise EmbeddingsError("--strength is for the synthetic case study: leave out --embeddings and --scope")


def _list(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _sizes(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = _list(text)
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise EmbeddingsError(f"--csvc {text!r}: expected numbers of entities by commas, e.g. 200,2500")
    return tuple(dict.fromkeys(map(int, parts)))


def _print(runs: Any, comparison: Any) -> None:
    from rich.text import Text

    from tod_bias.recommenders.embeddings import tables
    from tod_bias.recommenders.embeddings.reading import comparison_reading, reading
    from tod_bias.report.sheets import on_terminal

    console = Console()
    for name, run in runs:
        if len(runs) > 1:
            console.print(Text(name, style="bold"))
        alone = [(name, run)]
        for sheet in (tables.metrics(alone), tables.r_ripa(alone, short=True), tables.accuracies(alone)):
            if sheet.rows:
                console.print(on_terminal(sheet, console.width))
    if comparison is not None:
        console.print(on_terminal(tables.changes(comparison, short=True), console.width))
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


@associate.command("compare")
def compare_runs(
    before: Annotated[Path, typer.Argument(metavar="DIR", help="Results that changes are relative to.")],
    after: Annotated[Path, typer.Argument(metavar="DIR", help="Results of the other training.")],
    permutations: Permutations = 10_000,
    bootstrap: Bootstrap = 1000,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for comparison.json; by default the second.")] = None,
    quiet: Quiet = False,
) -> None:
    """Compare two audits of the same sets: every metric, its change in %, and whether it is significant."""
    nothing = "no results of tod-bias associate can be read; give folders written with --out"
    check_files(before, after, otherwise=nothing)
    from tod_bias.recommenders.embeddings import tables
    from tod_bias.recommenders.embeddings.comparison import compare, load_run
    from tod_bias.recommenders.embeddings.reading import comparison_reading
    from tod_bias.recommenders.embeddings.scope import save_comparison
    from tod_bias.report.sheets import on_terminal

    runs = load_run(before), load_run(after)
    titles = tuple(str(run.record.get("name", folder.name)) for run, folder in zip(runs, (before, after), strict=True))
    if titles[0] == titles[1]:
        titles = (str(before), str(after))
    comparison = compare(*runs, permutations=permutations, resamples=bootstrap, seed=seed, names=(titles[0], titles[1]))
    path = save_comparison(comparison, out or after)
    if not quiet:
        console = Console()
        console.print(on_terminal(tables.changes(comparison, short=True), console.width))
        for sentence in comparison_reading(comparison, runs[1].record):
            console.print(f"- {sentence}", markup=False, highlight=False)
        typer.echo(f"Results: {path}")


@associate.command("train")
def train_recommender(
    context: typer.Context,
    interactions: Annotated[
        str, typer.Option(help="File or folder (CSV, Parquet, MovieLens, Last.FM), or 'synthetic'.")
    ] = "synthetic",
    users: Annotated[Path | None, typer.Option(help="CSV or Parquet: id and attributes of users.")] = None,
    items: Annotated[Path | None, typer.Option(help="CSV or Parquet: id and attributes of items.")] = None,
    attribute: Annotated[str | None, typer.Option(help="Users' attribute the model sees; none by default.")] = None,
    dimensions: Annotated[int, typer.Option(min=1, help="Length of the embeddings.")] = 32,
    epochs: Annotated[int, typer.Option(min=1, max=100_000, help="Passes over the interactions.")] = 8,
    strength: Annotated[float | None, typer.Option(help="synthetic: strength of the planted association.")] = None,
    seed: Seed = 0,
    out: Out = Path("runs/two_tower"),
    quiet: Quiet = False,
) -> None:
    """Train the reference two-tower recommender; writes embeddings.npz, users.csv, items.csv, training.json."""
    if interactions == "synthetic":
        unused(context, "of the interactions, which are made; give --interactions FILE too", "users", "items")
    check_files(None if interactions == "synthetic" else interactions, users, items)
    from tod_bias.recommenders.embeddings.readers import save_embeddings
    from tod_bias.recommenders.latent_factor.interactions import load_interactions, save_interactions
    from tod_bias.recommenders.latent_factor.synthetic import STRENGTH, synthetic_interactions

    if interactions == "synthetic":
        seen = synthetic_interactions(strength=STRENGTH if strength is None else strength, seed=seed)
    else:
        if strength is not None:
            raise EmbeddingsError("--strength is for --interactions synthetic")
        seen = load_interactions(interactions, users, items)
    claimed(out)

    from tod_bias.recommenders.latent_factor.two_tower import TwoTowerSettings, train_two_tower

    settings = TwoTowerSettings(attribute=attribute, dimensions=dimensions, epochs=epochs, seed=seed)
    training = train_two_tower(seen, settings, show_progress=not quiet)
    save_embeddings(training.embeddings, out / "embeddings.npz")
    save_interactions(seen, out)
    write_json(out / "training.json", training.record)
    if not quiet:
        recall = training.record["recall_at_50"]
        typer.echo(
            f"Trained on {training.record['interactions']} interactions; recall at 50 of held-out ones "
            f"{'n/a' if recall is None else format(recall, '.3f')}. Embeddings: {out / 'embeddings.npz'}"
        )
