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
    by: o.By = [],
    n: o.N = 20,
    k: Annotated[
        int | None, typer.Option(help="Number of documents to show for each query (default: none).")
    ] = None,
    keep: o.Keep = [],
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
    rows, value = log.scan(by), baseline
    if len(log.scores) == 1:
        value = run_value(baseline, log.run_name, schema_of(rows))
    result = changes.movers(
        rows, metric, baseline=value, n=n, k=k, by=by, keep=keep, **log.columns,
        **log.attributes, **definitions(arguments),
    )  # fmt: skip
    put(result, **o.output_options(options))
