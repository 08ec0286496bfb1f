"""The commands that fuse runs into one, and that tune the fusion."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from polars_rank import _progress as bars
from polars_rank.cli import options as o
from polars_rank.cli.logs import Log, changed_conventions, definitions
from polars_rank.cli.messages import misused
from polars_rank.cli.writing import put, require_parquet
from polars_rank.fusion.fuse import fuse as fused
from polars_rank.fusion.tuning import tune_fusion as tuned


@o.takes(o.Files, o.ColumnsOfRuns)
def fuse(
    ctx: typer.Context,
    output: o.ParquetOutput,
    logs: o.Logs = [],
    method: Annotated[
        str,
        o.option(
            """Method with its parameters, e.g. "sum(normalize='min_max', weights={'bm25': 0.3, """
            """'dense': 0.7})".""",
            metavar="METHOD",
        ),
    ] = "rrf",
    ties: Annotated[
        Literal["doc", "doc_ascending", "input"] | None,
        o.option("Order of documents of a run with tied scores."),
    ] = None,
    name: Annotated[str, o.option("Name of the fused run.")] = "fused",
    keep_runs: Annotated[
        bool, o.option("Write the fused run beside the runs.", None, "--keep-runs")
    ] = False,
    by: o.By = [],
    overwrite: o.Overwrite = False,
    **options: Any,
) -> None:
    """Fuse the rankings of several runs into one run.

    TREC runs need no judgments.

    For example:
      polars-rank fuse log.parquet -o fused.parquet
      polars-rank fuse log.parquet -o borda.parquet --method borda --keep-runs
    """
    # The log is read twice, so the bar counts the rows that are written.
    arguments = {**locals(), **options}
    log = Log.of({**arguments, "progress": False})
    require_parquet(output)
    table = fused(
        log.opened.scan(by, splits_runs=False, needs_judgments=False), method, by=by, ties=ties,
        name=name, keep_runs=keep_runs, **_columns(log, arguments, "fuse"),
    )  # fmt: skip
    put(bars.watch(table) if options["progress"] else table, "parquet", output, overwrite=overwrite)


def _columns(log: Log, arguments: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Return the names of columns as parameters of a fusion."""
    run = arguments["run"]
    if not (run is None or run):
        misused(f"{command} needs the column of the run; name it with --run")
    return {role: name for role, name in log.columns.items() if role != "position"}


@o.takes(o.Files, o.ColumnsOfRuns, o.Definitions, o.TableOutput)
def tune_fusion(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    candidates: o.Candidates = ["rrf"],
    step: o.Step = None,
    curve: Annotated[
        bool,
        o.option("Show the mean of each candidate over all queries instead.", None, "--curve"),
    ] = False,
    folds: Annotated[int, o.option("Number of folds for cross-validation.")] = 5,
    by: o.By = [],
    cluster: o.Cluster = [],
    **options: Any,
) -> None:
    """Tune a fusion of runs, and compare it on held-out queries.

    For example:
      polars-rank tune-fusion log.parquet -m ndcg@10
      polars-rank tune-fusion log.parquet -m rr --candidates borda --step 0.05
    """
    arguments = {**locals(), **options}
    log = Log.of(arguments).opened
    columns = _columns(log, arguments, "tune-fusion")
    if len(metrics) != 1:
        misused(f"tune-fusion needs one metric; found {len(metrics)}")
    result = tuned(
        log.scan(by, splits_runs=False), metrics[0], o.candidates_of(candidates), step=step,
        curve=curve, by=by or None, folds=folds, cluster=cluster or None,
        conventions=changed_conventions(definitions(arguments)), **columns,
    )  # fmt: skip
    put(result, **o.output_options(arguments))
