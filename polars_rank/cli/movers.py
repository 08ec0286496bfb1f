"""The command that shows the queries whose results changed most."""

from typing import Annotated, Any

import typer

from polars_rank.cli import options as o
from polars_rank.cli.logs import Log, definitions
from polars_rank.cli.messages import misused
from polars_rank.cli.per_query import run_value
from polars_rank.cli.writing import put
from polars_rank.diagnostics import changes
from polars_rank.frames.tables import schema_of


@o.takes(o.Files, o.Columns, o.Attributes, o.Definitions, o.TableOutput)
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
    log = Log.of(arguments).opened
    metric, *others = metrics or misused("name a metric, e.g. --metrics ndcg@10")
    if others:
        misused(f"movers shows changes of one metric; found {metric} and {', '.join(others)}")
    column = "run" if run is None else run
    rows = log.scan([column, *by])
    result = changes.movers(
        rows, metric,
        baseline=baseline if scores else run_value(baseline, column, schema_of(rows)),
        run=column, n=n, k=k, by=by, keep=keep,
        **log.columns | ({"score": scores} if scores else {}), **log.attributes,
        **definitions(arguments),
    )  # fmt: skip
    put(result, **o.output_options(options))
