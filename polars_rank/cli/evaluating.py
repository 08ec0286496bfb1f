"""The commands on logs: means and values of each query, curves, and what is computed in words."""
# ruff: noqa: B006, FBT002
# typer reads the options off the signatures: names, defaults, lists and switches. What it reads
# as their types must exist when the program runs.

from __future__ import annotations

from typing import Annotated, Any, Literal

import polars as pl
import typer

from polars_rank import explanation as words
from polars_rank.cli import options as o
from polars_rank.cli.engines import Where
from polars_rank.cli.logs import Definitions, Log, conventions_of
from polars_rank.cli.messages import misused
from polars_rank.cli.running import Commands, is_said
from polars_rank.clicks.estimates import MAX_UNSHOWN, Normalize, estimate
from polars_rank.columns import QUERY
from polars_rank.evaluation.curves import pr_curve, rank_curve
from polars_rank.evaluation.evaluate import evaluate as means_of
from polars_rank.evaluation.evaluate import per_query as lists_of
from polars_rank.metrics.catalog import list_metrics as catalogue
from polars_rank.metrics.names import split

Scores = Annotated[
    list[str],
    typer.Option(help="Columns of scores, each of which is a run.", rich_help_panel=o.COLUMNS),
]
NormalizeOption = Annotated[
    Normalize | None,
    typer.Option(help="For labels that are weights of clicks: how to estimate the means."),
]
Unshown = Annotated[
    float,
    typer.Option(help="With --normalize: the share of documents that may lack a label."),
]
ClusterOption = Annotated[
    list[str],
    typer.Option(help="With --normalize: columns that identify the sampling unit, e.g. user."),
]
Groups = Annotated[list[str], typer.Option(help="Columns to group by.")]


def evaluate(
    log: Log,
    definitions: Definitions,
    where: Where,
    written: o.Written,
    metrics: o.Metrics = [],
    by: Groups = [],
    scores: Scores = [],
    weight: o.Weight = None,
    align: o.AlignOption = None,
    normalize: NormalizeOption = None,
    max_unshown: Unshown = MAX_UNSHOWN,
    cluster: ClusterOption = [],
    per_query: Annotated[bool, typer.Option("--per-query", help="One row per query.")] = False,
    keep: Annotated[
        list[str], typer.Option(help="With --per-query: columns of the query to keep.")
    ] = [],
) -> None:
    """Evaluate a log: the mean of each metric, or a row for each query."""
    log = log if where.on_spark else log.opened
    names, groups = split(" ".join(metrics)), log.groups(by)
    for key in log.keys:
        if key in groups:
            misused(f"--by names {key!r}, which is the query; for a row of each, --per-query")
    of_means = [each for each in ("weight", "align", "normalize") if is_said(each)]
    if per_query and of_means:
        misused(f"--{of_means[0]} is for means; leave it or --per-query out")
    for name in ("max_unshown", "cluster"):
        if is_said(name) and normalize is None:
            misused(f"--{name.replace('_', '-')} is for estimates; say which with --normalize")
    if align is not None and normalize is not None:
        misused("--align is for means; leave it or --normalize out")
    if keep and not per_query:
        misused("--keep is for rows of queries; add --per-query")
    written.spare(log.files)
    options: dict[str, Any] = {
        "by": groups, "scores": o.split_names(scores) or None, **log.columns, **definitions.choices
    }  # fmt: skip
    rows: Any = where.read(log) if where.on_spark else log.scan(groups)
    if per_query:
        found = lists_of(rows, names, keep=o.split_names(keep), **options)
    elif normalize is not None:
        found = estimate(
            rows, names, weight=weight, normalize=normalize, max_unshown=max_unshown,
            cluster=o.split_names(cluster) or None, **options,
        )  # fmt: skip
    else:
        found = means_of(rows, names, weight=weight, align=align, **options)
    written.put(where.fetched(found))


def curve(
    log: Log,
    definitions: Definitions,
    written: o.Written,
    metrics: o.Metrics = [],
    by: Groups = [],
    scores: Scores = [],
    kind: Annotated[
        Literal["rank", "pr"],
        typer.Option(help="Metrics at every cutoff, or precision and recall at every score."),
    ] = "rank",
    to: Annotated[int, typer.Option(help="Every cutoff from 1 to this one.")] = 20,
    ks: Annotated[list[str], typer.Option(help='Cutoffs instead, as in "1 5 10".')] = [],
) -> None:
    """Give metrics at every cutoff, or precision and recall at every score, as a table."""
    log = log.opened
    groups = log.groups(by)
    written.spare(log.files)
    if kind == "pr":
        _check_of_points(metrics, scores)
        relevant = definitions.agreed.rel
        rows = log.scan(groups)
        found = pr_curve(
            rows, by=groups, score=log.score, label=log.label, rel=relevant,
            query=log.keys if log.query else QUERY, doc=log.columns["doc"],
        )  # fmt: skip
    else:
        found = rank_curve(
            log.scan(groups), split(" ".join(metrics)), [*map(_whole, o.split_names(ks))]
            or range(1, to + 1), by=groups, scores=o.split_names(scores) or None, **log.columns,
            **definitions.choices,
        )  # fmt: skip
    written.put(found)


def explain(
    log: Log,
    definitions: Definitions,
    written: o.Written,
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="As in ndcg@10.")],
    versus: Annotated[
        str | None,
        typer.Option(help="Other conventions; with a LOG, why they give another mean."),
    ] = None,
    by: Groups = [],
) -> None:
    """Say in words what a metric is; or why two conventions give two numbers for a log."""
    conventions = conventions_of(definitions.conventions)
    others = None if versus is None else conventions_of(versus)
    if not log.files:
        if written.format not in (None, "table"):
            misused("--format is for tables; words have none")
        asked = [each for each in (conventions, others) if each is not None]
        written.text("\n\n".join(words.explain(metric, each) for each in asked))
        return
    if others is None:
        misused("name other conventions with --versus, to be told why they differ on this log")
    log = log.opened
    written.spare(log.files)
    groups = log.groups(by)
    found = words.explain_difference(
        log.scan(groups), metric, conventions, others, by=groups,
        duplicates=definitions.duplicates, **log.columns,
    )  # fmt: skip
    written.put(found.lazy())


def metrics(written: o.Written) -> None:
    """List every metric: parameters, range, definition and other names."""
    table = catalogue().lazy()
    if written.shape in ("table", "csv", "markdown", "latex"):
        low, high = (
            pl.col(bound).cast(pl.String).str.strip_suffix(".0") for bound in ("low", "high")
        )
        values = pl.format("[{}, {}]", low.fill_null("-inf"), high.fill_null("inf"))
        others = pl.col("aliases").list.join("; ")
        table = table.select("metric", "parameters", values.alias("range"), "definition", others)
    written.put(table)


#: The commands, with the examples that their help shows.
COMMANDS: Commands = {
    evaluate: [
        'polars-rank evaluate log.parquet --metrics "ndcg@10 ap rr" --by run',
        "polars-rank evaluate bm25.txt --qrels qrels.txt --metrics ap --conventions trec_eval",
    ],
    curve: [
        "polars-rank curve log.parquet --metrics ndcg --to 10 --by run",
        "polars-rank curve log.parquet --kind pr --by run --format csv",
    ],
    explain: [
        "polars-rank explain ndcg@10 --conventions lightgbm",
        "polars-rank explain ndcg@10 log.parquet --by run --versus lightgbm",
    ],
    metrics: ["polars-rank metrics --format csv"],
}


def _check_of_points(metrics: list[str], scores: list[str]) -> None:
    for name, given in (("metrics", metrics), ("scores", scores)):
        if given and is_said(name):
            misused(f"--{name} is for --kind rank; precision and recall are of one score")


def _whole(text: str) -> int:
    if not text.isdecimal():
        misused(f"--ks must be whole numbers from 1; found {text!r}")
    return int(text)
