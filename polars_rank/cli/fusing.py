"""The command that fuses runs into one."""

from collections.abc import Iterable
from typing import Annotated, Literal

import typer

from polars_rank import _progress as bars
from polars_rank.cli import options as o
from polars_rank.cli.logs import Log
from polars_rank.cli.messages import misused
from polars_rank.cli.writing import put, require_parquet
from polars_rank.fusion import methods, parameters, scales
from polars_rank.fusion.fuse import fuse as fused


def fuse(
    ctx: typer.Context,
    output: o.ParquetOutput,
    logs: o.Logs = [],
    method: Annotated[methods.Method, o.option("How scores or ranks are combined.")] = "rrf",
    k: Annotated[float, o.option("Rank constant of rrf.")] = parameters.RANK_CONSTANT,
    weights: Annotated[
        list[str], o.option('Weight of a run, e.g. "bm25=0.3" (repeatable).', metavar="RUN=NUMBER")
    ] = [],
    normalize: Annotated[
        scales.Normalization | None, o.option("Normalization of scores (default: none).")
    ] = None,
    missing: Annotated[
        methods.Missing | None,
        o.option("What a run counts as for a document that it lacks (default: by method)."),
    ] = None,
    constant: Annotated[
        float | None, o.option("Normalized score, from 0 to 1, of documents with equal scores.")
    ] = None,
    gamma: Annotated[float | None, o.option("Exponent of gmnz.")] = None,
    phi: Annotated[float | None, o.option("Persistence of rbc.")] = None,
    ddof: Annotated[
        int, o.option("0 for the population standard deviation of zscore, 1 for a sample.")
    ] = 0,
    window: Annotated[
        int | None, o.option("Number of documents per run and query that count (default: all).")
    ] = None,
    engine: Annotated[
        parameters.Engine | None, o.option("Tool whose choices are the defaults.")
    ] = None,
    ties: Annotated[
        Literal["doc", "doc_ascending", "input"] | None,
        o.option("Order of documents of a run with tied scores."),
    ] = None,
    name: Annotated[str, o.option("Name of the fused run.")] = "fused",
    keep_runs: Annotated[
        bool, o.option("Write the fused run beside the runs.", None, "--keep-runs")
    ] = False,
    by: o.By = [],
    qrels: o.Qrels = [],
    fractional: o.Fractional = False,
    negative: o.Negative = "unjudged",
    input_format: o.InputFormat = None,
    layout: o.Layout = None,
    memory: o.Memory = None,
    missing_columns: o.MissingColumns = "raise",
    extra_columns: o.ExtraColumns = "raise",
    progress: o.Progress = True,
    run: o.Run = None,
    query: o.Query = [],
    doc: o.Doc = None,
    score: Annotated[str, o.column("Column of the score, higher is better.", o.COLUMNS)] = "score",
    label: o.Label = "label",
    overwrite: o.Overwrite = False,
) -> None:
    """Fuse the rankings of several runs into one run.

    TREC runs need no judgments.

    For example:
      polars-rank fuse log.parquet -o fused.parquet
      polars-rank fuse log.parquet -o borda.parquet --method borda --keep-runs
    """
    # The log is read twice, so the bar counts the rows that are written.
    log = Log.of({**locals(), "progress": False})
    require_parquet(output)
    if not (run is None or run):
        misused("fuse needs the column of the run; name it with --run")
    names = {role: name for role, name in log.columns.items() if role != "position"}
    table = fused(
        log.opened.scan(by, needs_judgments=False), method, run=run or "run", by=by, k=k,
        weights=_weights(weights), normalize=normalize, missing=missing, constant=constant,
        gamma=gamma, phi=phi, ddof=ddof, window=window, engine=engine, ties=ties, name=name,
        keep_runs=keep_runs, **names,
    )  # fmt: skip
    put(bars.watch(table) if progress else table, "parquet", output, overwrite=overwrite)


def _weights(texts: Iterable[str]) -> dict[str, float] | None:
    """Return the weights of runs, if there are any."""
    weights: dict[str, float] = {}
    for text in texts:
        run, _, weight = text.rpartition("=")
        try:
            number = float(weight)
        except ValueError:
            run = ""
        if not run:
            misused(f'--weights must be a run and a number, e.g. "bm25=0.3"; found {text!r}')
        if run in weights:
            misused(f"--weights has the run {run!r} twice")
        weights[run] = number
    return weights or None
