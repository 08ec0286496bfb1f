"""The commands on logs: means and values of each query, curves, and metrics in words."""

from typing import Annotated, Any, Literal

import polars as pl
import typer

from polars_rank import explanation
from polars_rank.cli import options as o
from polars_rank.cli.engines import Where
from polars_rank.cli.formats import choose, put, put_text
from polars_rank.cli.logs import Log, conventions_of, definitions
from polars_rank.cli.messages import misused
from polars_rank.cli.sources import refuse_to_replace
from polars_rank.clicks import estimates
from polars_rank.columns import QUERY
from polars_rank.evaluation import curves
from polars_rank.evaluation import evaluate as evaluation
from polars_rank.metrics.catalog import list_metrics
from polars_rank.metrics.names import split


def evaluate(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    by: o.By = [],
    align: o.Align = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="One row per query.")] = False,
    keep: Annotated[
        list[str], typer.Option(help="With --per-query: columns of the query to keep.")
    ] = [],
    qrels: o.Qrels = [],
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
    weight: o.Weight = None,
    conventions: o.Conventions = "polars_rank",
    ties: o.Ties = None,
    rel: o.Rel = None,
    unjudged: o.Unjudged = None,
    query_set: o.QuerySet = None,
    undefined: o.Undefined = [],
    duplicates: o.Duplicates = "error",
    engine: o.Engine = "polars",
    master: o.Master = None,
    remote: o.Remote = None,
    format: o.Format = None,
    output: o.Output = None,
    overwrite: o.Overwrite = False,
) -> None:
    """Evaluate a log: the mean of each metric, or a row for each query.

    Example: polars-rank evaluate log.parquet --metrics "ndcg@10 ap rr" --by run

    Example: polars-rank evaluate bm25.txt --qrels qrels.txt --metrics ap --conventions trec_eval
    """
    arguments = locals()
    log, where = o.chosen(Log, arguments), o.chosen(Where, arguments)
    for name in ("weight", "align"):
        if per_query and log.is_given(name):
            misused(f"--{name} is for means; leave it or --per-query out")
    if keep and not per_query:
        misused("--keep is for rows of queries; add --per-query")
    refuse_to_replace(output, log.files)
    log = where.opened(log)
    groups = _groups(log, by)
    rows: Any = where.rows(log, groups)
    options = {**log.columns, **definitions(arguments), "by": groups}
    options["scores"] = o.split_names(scores) or None
    names = split(" ".join(metrics))
    if per_query:
        result = evaluation.per_query(rows, names, keep=o.split_names(keep), **options)
    else:
        result = evaluation.evaluate(rows, names, weight=weight, align=align, **options)
    put(where.fetched(result), format, output, overwrite=overwrite)


def estimate(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    by: o.By = [],
    normalize: Annotated[
        estimates.Normalize, typer.Option(help="Divide by the rankings, or by the weights.")
    ] = "snips",
    cluster: o.Cluster = [],
    max_unshown: Annotated[
        float, typer.Option(help="Share of documents that may lack a label.")
    ] = estimates.MAX_UNSHOWN,
    qrels: o.Qrels = [],
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
    weight: o.Weight = None,
    conventions: o.Conventions = "polars_rank",
    ties: o.Ties = None,
    rel: o.Rel = None,
    unjudged: o.Unjudged = None,
    query_set: o.QuerySet = None,
    undefined: o.Undefined = [],
    duplicates: o.Duplicates = "error",
    engine: o.Engine = "polars",
    master: o.Master = None,
    remote: o.Remote = None,
    format: o.Format = None,
    output: o.Output = None,
    overwrite: o.Overwrite = False,
) -> None:
    """Estimate the means of a new ranker from clicks; labels are weights of clicks.

    Example: polars-rank estimate clicks.parquet --metrics dcg@10 --query session --score new
    """
    arguments = locals()
    log, where = o.chosen(Log, arguments), o.chosen(Where, arguments)
    refuse_to_replace(output, log.files)
    log = where.opened(log)
    groups = _groups(log, by)
    result = estimates.estimate(
        where.rows(log, groups), split(" ".join(metrics)), normalize=normalize,
        cluster=o.split_names(cluster) or None, max_unshown=max_unshown, by=groups,
        weight=weight, scores=o.split_names(scores) or None, **log.columns,
        **definitions(arguments),
    )  # fmt: skip
    put(where.fetched(result), format, output, overwrite=overwrite)


def curve(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    by: o.By = [],
    kind: Annotated[
        Literal["rank", "pr"],
        typer.Option(help="Metrics at every cutoff, or precision and recall at every score."),
    ] = "rank",
    ks: o.Ks = ["1-20"],
    qrels: o.Qrels = [],
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
) -> None:
    """Give metrics at every cutoff, or precision and recall at every score, as a table.

    Example: polars-rank curve log.parquet --metrics ndcg --ks 1-10 --by run

    Example: polars-rank curve log.parquet --kind pr --by run --format csv
    """
    arguments = locals()
    log = o.chosen(Log, arguments).opened
    refuse_to_replace(output, log.files)
    groups = log.groups(by)
    if kind == "pr":
        for name in ("metrics", "scores"):
            if log.is_given(name):
                misused(f"--{name} is for --kind rank; precision and recall are of one score")
        result = curves.pr_curve(
            log.scan(groups), by=groups, score=log.score, label=log.label,
            rel=conventions_of(conventions).but(rel=rel).rel,
            query=log.keys if log.query else QUERY, doc=log.columns["doc"],
        )  # fmt: skip
    else:
        result = curves.rank_curve(
            log.scan(groups), split(" ".join(metrics)), o.cutoffs(ks), by=groups,
            scores=o.split_names(scores) or None, **log.columns, **definitions(arguments),
        )  # fmt: skip
    put(result, format, output, overwrite=overwrite)


def explain(
    ctx: typer.Context,
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="As in ndcg@10.")],
    logs: o.Logs = [],
    versus: Annotated[
        str | None,
        typer.Option(help="Other conventions; with a LOG, why they give another mean."),
    ] = None,
    by: o.By = [],
    qrels: o.Qrels = [],
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
    conventions: o.Conventions = "polars_rank",
    duplicates: o.Duplicates = "error",
    format: o.Format = None,
    output: o.Output = None,
    overwrite: o.Overwrite = False,
) -> None:
    """Explain a metric in words, or why two conventions give two numbers for a log.

    Example: polars-rank explain ndcg@10 --conventions lightgbm

    Example: polars-rank explain ndcg@10 log.parquet --by run --versus lightgbm
    """
    log = o.chosen(Log, locals())
    chosen = [conventions_of(each) for each in (conventions, versus) if each is not None]
    if not log.files:
        if format not in (None, "table"):
            misused("--format is for tables; words have none")
        texts = (explanation.explain(metric, each) for each in chosen)
        put_text("\n\n".join(texts), output, overwrite=overwrite)
        return
    if versus is None:
        misused("name other conventions with --versus, to be told why they differ on this log")
    log = log.opened
    refuse_to_replace(output, log.files)
    groups = log.groups(by)
    result = explanation.explain_difference(
        log.scan(groups), metric, *chosen, by=groups, duplicates=duplicates, **log.columns
    )
    put(result.lazy(), format, output, overwrite=overwrite)


def metrics(
    format: o.Format = None,
    output: o.Output = None,
    overwrite: o.Overwrite = False,
) -> None:
    """List every metric: parameters, range, definition and other names.

    Example: polars-rank metrics --format csv
    """
    table = list_metrics().lazy()
    if choose(format, output) in ("table", "csv", "markdown", "latex"):
        low, high = (
            pl.col(bound).cast(pl.String).str.strip_suffix(".0") for bound in ("low", "high")
        )
        values = pl.format("[{}, {}]", low.fill_null("-inf"), high.fill_null("inf"))
        others = pl.col("aliases").list.join("; ")
        table = table.select("metric", "parameters", values.alias("range"), "definition", others)
    put(table, format, output, overwrite=overwrite)


def _groups(log: Log, by: list[str]) -> list[str]:
    groups = log.groups(by)
    for key in log.keys:
        if key in groups:
            misused(f"--by names {key!r}, which is the query; for a row of each, --per-query")
    return groups
