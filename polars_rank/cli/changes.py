"""The command that shows the queries whose results changed most."""

from typing import Annotated, Any

import typer

from polars_rank._params import check_column
from polars_rank.cli import options as o
from polars_rank.cli.formats import put
from polars_rank.cli.logs import Log, definitions
from polars_rank.cli.messages import misused
from polars_rank.cli.per_query import run_of
from polars_rank.cli.sources import refuse_to_replace
from polars_rank.columns import RUN
from polars_rank.diagnostics import changes
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.names import split


def movers(
    ctx: typer.Context,
    baseline: o.Baseline,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    run: o.Run = None,
    by: o.By = [],
    n: o.N = 20,
    k: Annotated[
        int | None, typer.Option(help="Number of documents to show for each query (default: none).")
    ] = None,
    keep: o.Keep = [],
    qrels: o.Qrels = [],
    items: o.Items = None,
    history: o.History = None,
    fractional: o.Fractional = False,
    negative: o.Negative = "unjudged",
    input_format: o.InputFormat = None,
    layout: o.Layout = None,
    memory: o.Memory = None,
    missing_columns: o.MissingColumns = "raise",
    extra_columns: o.ExtraColumns = "raise",
    query: o.Query = [],
    doc: o.Doc = None,
    score: o.Score = "score",
    position: o.Position = None,
    label: o.Label = "label",
    progress: o.Progress = True,
    scores: o.Scores = [],
    conventions: o.Conventions = "polars_rank",
    ties: o.Ties = None,
    rel: o.Rel = None,
    unjudged: o.Unjudged = None,
    query_set: o.QuerySet = None,
    undefined: o.Undefined = [],
    duplicates: o.Duplicates = "error",
    format: o.Format = None,
    output: o.Output = None,
    overwrite: o.Overwrite = False,
    wide: o.Wide = False,
) -> None:
    """Show the queries that gained and lost most compared with a baseline.

    Example: polars-rank movers log.parquet --metrics ndcg@10 --baseline bm25 --n 5
    """
    arguments = locals()
    log = o.chosen(Log, arguments).opened
    refuse_to_replace(output, log.files)
    metric, *others = split(" ".join(metrics)) or misused("name a metric, e.g. --metrics ndcg@10")
    if others:
        misused(f"movers shows changes of one metric; found {metric} and {', '.join(others)}")
    groups, column = o.split_names(by), RUN if run is None else run
    rows = log.scan([column, *groups])
    value: Any = baseline
    if not scores:
        schema = schema_of(rows)
        check_column("run", column, schema)
        value = run_of(baseline, column, schema[column])
    result = changes.movers(
        rows, metric, baseline=value, run=column, n=n, k=k, by=groups,
        scores=o.split_names(scores) or None, keep=o.split_names(keep), **log.columns,
        **log.attributes, **definitions(arguments),
    )  # fmt: skip
    put(result, format, output, overwrite=overwrite, wide=wide)
