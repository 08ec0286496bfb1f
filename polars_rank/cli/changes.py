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
from polars_rank.diagnostics import changes
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.names import split


@o.takes(o.Files, o.Columns, o.Attributes, o.Definitions, o.Shown)
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
    scores: o.Scores = [],
    **options: Any,
) -> None:
    """Show the queries that gain and lose most against a baseline.

    For example:
      polars-rank movers log.parquet -m ndcg@10 --baseline bm25 --n 5
    """
    arguments = {**locals(), **options}
    log = o.chosen(Log, arguments).opened
    refuse_to_replace(options["output"], log.files)
    metric, *others = split(" ".join(metrics)) or misused("name a metric, e.g. --metrics ndcg@10")
    if others:
        misused(f"movers shows changes of one metric; found {metric} and {', '.join(others)}")
    groups, column = o.split_names(by), "run" if run is None else run
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
    put(result, **o.shown(options))
