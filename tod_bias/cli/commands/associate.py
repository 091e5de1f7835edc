"""``tod-bias associate``."""

from __future__ import annotations

from pathlib import Path

from tod_bias.cli.checks import check_files
from tod_bias.cli.options import command
from tod_bias.config import OutputOptions
from tod_bias.errors import EmbeddingsError
from tod_bias.io.folder import check_no_other_run, claimed
from tod_bias.recommenders.embeddings.settings import AssociationRequest, AuditSettings


class AssociationOutput(OutputOptions):
    """Folder for the results."""

    out: Path = Path("runs/association")
    """Folder for the results."""


@command("tod-bias associate --embeddings model.npz --users users.csv --attribute gender --out runs/embeddings")
def associate(*, request: AssociationRequest, how: AuditSettings, output: AssociationOutput) -> None:
    """Audit a recommender's embeddings for associations with an attribute of its users (Beattie).

    Give a file of embeddings and one of users' attributes: --embeddings model.npz --users users.csv --attribute gender.
    Writes associations.json, entities.parquet, directions.npz, tables, figures and report.html.
    """
    if request.embeddings is None:
        raise EmbeddingsError("no embeddings to audit; give --embeddings FILE")
    if request.sets is not None and request.test is not None:
        raise EmbeddingsError("--sets names E and P: leave out --test")
    from tod_bias.recommenders.embeddings.readers import check_file

    check_files(request.sets, request.users, request.items, request.interactions, request.pairs)
    check_file(request.embeddings)
    check_no_other_run(output.out, "associations.json")
    claimed(output.out)

    from tod_bias.cli.work.associate import audit_embeddings  # heavy imports come after what may go wrong at once

    audit_embeddings(request, how, output.out, quiet=output.quiet)
