"""The commands `evaluate`, `estimate`, `curve`, `explain` and `metrics`."""

from typing import Annotated, Any, Literal

import polars as pl
import typer

from polars_rank import explanation
from polars_rank.cli import completion
from polars_rank.cli import options as o
from polars_rank.cli.engines import Engine
from polars_rank.cli.logs import Log, changed_conventions, conventions_of, definitions
from polars_rank.cli.messages import misused
from polars_rank.cli.per_query import run_value
from polars_rank.cli.writing import choose, put, put_text
from polars_rank.clicks import estimates
from polars_rank.clicks.estimates import Normalize
from polars_rank.errors import hint
from polars_rank.evaluation import curves
from polars_rank.evaluation import evaluate as evaluation
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.listing import list_metrics
from polars_rank.metrics.metric import REGISTER


@o.takes(o.Files, o.Columns, o.Attributes, o.Definitions, o.Engines, o.TableOutput)
def evaluate(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    by: o.By = [],
    align: o.Align = None,
    per_query: Annotated[bool, o.option("Show one row per query.", None, "--per-query")] = False,
    keep: o.Keep = [],
    weight: o.Weight = None,
    **options: Any,
) -> None:
    """Show the mean of each metric, or its value for each query.

    For example:
      polars-rank evaluate log.parquet -m "ndcg@10 ap rr"
      polars-rank evaluate run.txt --qrels qrels.txt -m ap --conventions trec_eval
      polars-rank evaluate log.parquet -m novelty@5 --items items.parquet
    """
    arguments = {**locals(), **options}
    log, engine = Log.of(arguments), o.from_arguments(Engine, arguments)
    for name in ("weight", "align"):
        if per_query and log.is_given(name):
            misused(f"--{name} applies to means; omit it or --per-query")
    if keep and not per_query:
        misused("--keep needs --per-query")
    log = engine.opened(log)
    _check_groups(log, by)
    rows: Any = engine.rows(log, by)
    parameters: dict[str, Any] = {
        "by": by,
        **log.columns,
        **log.attributes,
        **definitions(arguments),
    }
    if per_query:
        result, note = evaluation.per_query(rows, metrics, keep=keep, **parameters), None
    else:
        result = evaluation.evaluate(rows, metrics, weight=weight, align=align, **parameters)
        note = (
            "To count queries with undefined metrics: "
            "polars-rank summarize --undefined null --details"
        )
    put(engine.fetched(result), **o.output_options(options), note=note)


@o.takes(o.Files, o.Columns, o.Attributes, o.Definitions, o.Engines, o.TableOutput)
def estimate(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    by: o.By = [],
    normalize: Annotated[
        Normalize, o.option("Divide by the number of rankings, or by the sum of weights.")
    ] = "snips",
    cluster: o.Cluster = [],
    baseline: o.AnyBaseline = None,
    max_unshown: Annotated[
        float, o.option("Maximum share of documents without a label.")
    ] = estimates.MAX_UNSHOWN,
    weight: o.Weight = None,
    **options: Any,
) -> None:
    """Estimate the means of a new ranker from weighted clicks.

    The labels of the log are clicks that are weighted to correct position bias.

    For example:
      polars-rank estimate clicks.parquet -m dcg@10 --query session --score new
      polars-rank estimate clicks.parquet -m dcg --score "old new" --baseline old
    """
    arguments = {**locals(), **options}
    engine = o.from_arguments(Engine, arguments)
    log = engine.opened(Log.of(arguments))
    _check_groups(log, by)
    rows: Any = engine.rows(log, by)
    if baseline is not None and len(log.scores) == 1 and not engine.on_spark:
        arguments["baseline"] = run_value(baseline, log.run_name, schema_of(rows))
    result = estimates.estimate(
        rows, metrics, normalize=normalize, cluster=cluster or None,
        baseline=arguments["baseline"], max_unshown=max_unshown, by=by, weight=weight,
        **log.columns, **log.attributes, **definitions(arguments),
    )  # fmt: skip
    put(engine.fetched(result), **o.output_options(options))


@o.takes(o.Files, o.Columns, o.Attributes, o.Definitions, o.TableOutput)
def curve(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    by: o.By = [],
    kind: Annotated[
        Literal["rank", "pr"], o.option("Metrics by cutoff, or precision and recall by score.")
    ] = "rank",
    ks: o.Ks = ["1-20"],
    weight: o.Weight = None,
    align: o.Align = None,
    **options: Any,
) -> None:
    """Show metrics by cutoff, or precision and recall by score.

    For example:
      polars-rank curve log.parquet -m ndcg --ks 1-10
      polars-rank curve log.parquet --kind pr --format csv
    """
    arguments = {**locals(), **options}
    log = Log.of(arguments).opened
    if kind == "pr":
        for name in ("metrics", "weight", "align", "position"):
            if log.is_given(name):
                misused(f"--{name} needs --kind rank")
        columns = {role: name for role, name in log.columns.items() if role != "position"}
        result = curves.pr_curve(
            log.scan(by), by=by, **columns,
            rel=conventions_of(options["conventions"]).but(rel=options["rel"]).rel,
        )  # fmt: skip
    else:
        result = curves.rank_curve(
            log.scan(by), metrics, o.cutoffs(ks), by=by, weight=weight, align=align,
            **log.columns, **log.attributes, **definitions(arguments),
        )  # fmt: skip
    put(result, **o.output_options(options))


@o.takes(o.Files, o.Columns, o.Definitions, o.FileOutput)
def explain(
    ctx: typer.Context,
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="Metric, e.g. ndcg@10.")],
    logs: o.Logs = [],
    versus: Annotated[
        str | None,
        o.option("Conventions to compare with.", metavar="NAME", autocompletion=completion.presets),
    ] = None,
    by: o.By = [],
    n: Annotated[int, o.option("Number of queries to list per choice.")] = 3,
    **options: Any,
) -> None:
    """Explain how a metric is computed, or why conventions differ.

    For example:
      polars-rank explain ndcg@10 --conventions lightgbm
      polars-rank explain ndcg@10 log.parquet --by run --versus lightgbm
    """
    log, given = Log.of({**locals(), **options}), definitions(options)
    presets = [changed_conventions(given)]
    presets += [] if versus is None else [conventions_of(versus)]
    if not log.files:
        if options["format"] not in (None, "table"):
            misused("--format needs a LOG; without one, the explanation is plain text")
        texts = (explanation.explain(metric, preset) for preset in presets)
        put_text("\n\n".join(texts), options["output"], overwrite=options["overwrite"])
        return
    if versus is None:
        misused("name the conventions to compare with: --versus")
    log = log.opened
    result = explanation.explain_difference(
        log.scan(by), metric, *presets, by=by, duplicates=given["duplicates"], n=n, **log.columns
    )
    put(result.lazy(), **o.output_options(options))


def metrics(
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT", help="Show metrics with this text (default: all)."),
    ] = [],
    format: o.Format = None,
    output: o.Output = None,
    overwrite: o.Overwrite = False,
) -> None:
    """List metrics: parameters, range, definition and other names.

    For example:
      polars-rank metrics precision
      polars-rank metrics --format csv
    """
    table = _with_texts(list_metrics(), texts).lazy()
    if choose(format, output) in ("table", "csv", "markdown", "latex"):
        low, high = (
            pl.col(bound).cast(pl.String).str.strip_suffix(".0") for bound in ("low", "high")
        )
        range_ = pl.format("[{}, {}]", low.fill_null("-inf"), high.fill_null("inf"))
        others = pl.col("aliases").list.join("; ")
        table = table.select("metric", "parameters", range_.alias("range"), "definition", others)
    put(table, format, output, overwrite=overwrite, paged=True)


def _with_texts(table: pl.DataFrame, texts: list[str]) -> pl.DataFrame:
    """Return the metrics whose names or definitions contain all texts."""
    searched = pl.concat_str(
        "metric", "definition", pl.col("aliases").list.join(" "), separator=" "
    ).str.to_lowercase()
    for text in texts:
        table = table.filter(searched.str.contains(text.lower(), literal=True))
    if table.is_empty():
        misused(f"no metric contains {' '.join(texts)!r}.{hint(texts[-1], REGISTER)}")
    return table


def _check_groups(log: Log, by: list[str]) -> None:
    """Raise `ArgumentError` for a column to group by that is one of the query."""
    for key in log.keys:
        if key in by:
            misused(
                f"--by names {key!r}, a column of the query; for a row per query, use --per-query"
            )
