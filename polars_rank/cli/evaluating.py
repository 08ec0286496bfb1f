"""The commands that evaluate logs and explain metrics."""

from typing import Annotated, Any, Literal

import polars as pl
import typer

from polars_rank import explanation
from polars_rank.cli import completion
from polars_rank.cli import options as o
from polars_rank.cli.engines import Where
from polars_rank.cli.formats import choose, put, put_text
from polars_rank.cli.logs import Log, conventions_of, definitions
from polars_rank.cli.messages import misused
from polars_rank.cli.sources import refuse_to_replace
from polars_rank.clicks import estimates
from polars_rank.columns import QUERY
from polars_rank.errors import hint
from polars_rank.evaluation import curves
from polars_rank.evaluation import evaluate as evaluation
from polars_rank.metrics.catalog import list_metrics
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.names import split


def evaluate(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    by: o.By = [],
    align: o.Align = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="Show one row per query.")] = False,
    keep: o.Keep = [],
    qrels: o.Qrels = [],
    items: o.Items = None,
    history: o.History = None,
    exclude_seen: Annotated[
        bool,
        typer.Option(
            "--exclude-seen",
            help="Drop documents of --history from rankings and judgments.",
            rich_help_panel=o.INPUT,
        ),
    ] = False,
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
    wide: o.Wide = False,
) -> None:
    """Evaluate a log: show the mean of each metric, or one row per query.

    Example: polars-rank evaluate log.parquet --metrics "ndcg@10 ap rr" --by run

    Example: polars-rank evaluate bm25.txt --qrels qrels.txt --metrics ap --conventions trec_eval

    Example: polars-rank evaluate log.parquet --metrics novelty@10 --items items.parquet --by run
    """
    arguments = locals()
    log, where = o.chosen(Log, arguments), o.chosen(Where, arguments)
    for name in ("weight", "align"):
        if per_query and log.is_given(name):
            misused(f"--{name} applies to means; omit it or --per-query")
    if keep and not per_query:
        misused("--keep needs --per-query")
    if engine != "polars" and (items or history):
        misused("--items and --history need --engine polars")
    refuse_to_replace(output, log.files)
    log = where.opened(log)
    groups = _groups(log, by)
    rows: Any = where.rows(log, groups)
    options = {**log.columns, **log.attributes, **definitions(arguments), "by": groups}
    options["exclude_seen"] = exclude_seen
    options["scores"] = o.split_names(scores) or None
    names = split(" ".join(metrics))
    if per_query:
        result = evaluation.per_query(rows, names, keep=o.split_names(keep), **options)
    else:
        result = evaluation.evaluate(rows, names, weight=weight, align=align, **options)
    note = None if per_query else "To count queries with undefined metrics: polars-rank summarize"
    put(where.fetched(result), format, output, overwrite=overwrite, wide=wide, note=note)


def estimate(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    by: o.By = [],
    normalize: Annotated[
        estimates.Normalize,
        typer.Option(help="Divide by the number of rankings, or by the sum of weights."),
    ] = "snips",
    cluster: o.Cluster = [],
    max_unshown: Annotated[
        float, typer.Option(help="Maximum share of documents without a label.")
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
    wide: o.Wide = False,
) -> None:
    """Estimate the means of a new ranker from clicks, with labels that weight the clicks.

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
    put(where.fetched(result), format, output, overwrite=overwrite, wide=wide)


def curve(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    by: o.By = [],
    kind: Annotated[
        Literal["rank", "pr"],
        typer.Option(help="rank: metrics by cutoff; pr: precision and recall by score."),
    ] = "rank",
    ks: o.Ks = ["1-20"],
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
    """Show metrics at each cutoff, or precision and recall at each score.

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
                misused(f"--{name} needs --kind rank")
        result = curves.pr_curve(
            log.scan(groups), by=groups, score=log.score, label=log.label,
            rel=conventions_of(conventions).but(rel=rel).rel,
            query=log.keys if log.query else QUERY, doc=log.columns["doc"],
        )  # fmt: skip
    else:
        result = curves.rank_curve(
            log.scan(groups), split(" ".join(metrics)), o.cutoffs(ks), by=groups,
            scores=o.split_names(scores) or None, **log.columns, **log.attributes,
            **definitions(arguments),
        )  # fmt: skip
    put(result, format, output, overwrite=overwrite, wide=wide)


def explain(
    ctx: typer.Context,
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="Metric, e.g. ndcg@10.")],
    logs: o.Logs = [],
    versus: Annotated[
        str | None,
        typer.Option(
            help="Conventions to compare with.", metavar="NAME", autocompletion=completion.presets
        ),
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
    """Explain how a metric is computed, or why two conventions differ on a log.

    Example: polars-rank explain ndcg@10 --conventions lightgbm

    Example: polars-rank explain ndcg@10 log.parquet --by run --versus lightgbm
    """
    log = o.chosen(Log, locals())
    chosen = [conventions_of(each) for each in (conventions, versus) if each is not None]
    if not log.files:
        if format not in (None, "table"):
            misused("--format needs a LOG; without one, the explanation is plain text")
        texts = (explanation.explain(metric, each) for each in chosen)
        put_text("\n\n".join(texts), output, overwrite=overwrite)
        return
    if versus is None:
        misused("name the conventions to compare with: --versus")
    log = log.opened
    refuse_to_replace(output, log.files)
    groups = log.groups(by)
    result = explanation.explain_difference(
        log.scan(groups), metric, *chosen, by=groups, duplicates=duplicates, **log.columns
    )
    put(result.lazy(), format, output, overwrite=overwrite)


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

    Example: polars-rank metrics precision

    Example: polars-rank metrics --format csv
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
    """Return the metrics that have all texts in their names or definitions."""
    words = pl.concat_str(
        "metric", "definition", pl.col("aliases").list.join(" "), separator=" "
    ).str.to_lowercase()
    for text in texts:
        table = table.filter(words.str.contains(text.lower(), literal=True))
    if table.is_empty():
        misused(f"no metric contains {' '.join(texts)!r}.{hint(texts[-1], REGISTER)}")
    return table


def _groups(log: Log, by: list[str]) -> list[str]:
    groups = log.groups(by)
    for key in log.keys:
        if key in groups:
            misused(
                f"--by names {key!r}, a column of the query; for a row per query, use --per-query"
            )
    return groups
