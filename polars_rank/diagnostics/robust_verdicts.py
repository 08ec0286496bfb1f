"""`robustness`: whether the verdict of a comparison depends on choices that nobody made."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, free, share
from polars_rank.columns import Columns
from polars_rank.conventions import POLARS_RANK, read_metrics
from polars_rank.diagnostics.bounds import judgment_bounds
from polars_rank.diagnostics.log_facts import LogFacts, facts, sampled
from polars_rank.errors import ArgumentError, DataError, recorded_warnings, short, warn
from polars_rank.evaluation.evaluate import VALUE, values_under
from polars_rank.evaluation.log import Log
from polars_rank.frames.tables import collected, framed, schema_of
from polars_rank.metrics.analyses import refusals
from polars_rank.metrics.metric import Metric, cutoff, parameters_of, tree_of
from polars_rank.metrics.names import leaves_of, lower_is_better
from polars_rank.stats._arrays import require_scipy
from polars_rank.stats.comparison import Margin, compare
from polars_rank.stats.result_columns import deferred
from polars_rank.stats.value_columns import check_run, is_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Unpack

    from polars_rank._params import Names
    from polars_rank.columns import Label, Score
    from polars_rank.conventions import Conventions, ConventionsLike, Definitions
    from polars_rank.definitions import Definition

MADE = "as made"
#: The cutoffs and gains that are tried.
_CUTOFFS, _GAINS = (5, 10, 20), ("linear", "exp2")
#: The share of queries without which the difference is computed.
_TRIMMED = 0.01
#: The most queries, and labeled documents, from which bounds are computed; and the fewest queries.
_MOST_QUERIES, _MOST_LABELED, _FEWEST_QUERIES = 1_000, 4_000_000, 100
#: Smaller differences of values are rounding errors.
_ROUNDING = 1e-9
#: Whether a row of the result has bounds.
_IS_BOUNDS = (pl.col("choice") == "unjudged") & (pl.col("value") == "bounds")
RESULT: dict[str, pl.DataType] = {
    "choice": pl.String(), "value": pl.String(), "difference": pl.Float64(), "low": pl.Float64(),
    "high": pl.Float64(), "verdict": pl.String(), "changes": pl.Boolean(),
    "headline": pl.String(),
}  # fmt: skip


@framed
def robustness(
    frame: pl.LazyFrame,
    /,
    metric: str | pl.Expr,
    *,
    baseline: Any,
    run: str = "run",
    query: Names = "query",
    doc: str | None = "doc",
    score: Score = "score",
    label: Label = "label",
    judge: str | None = None,
    position: str | None = None,
    weight: str | None = None,
    cluster: Names | None = None,
    margin: float | str = 0,
    confidence: float = 0.95,
    conventions: ConventionsLike = POLARS_RANK,
    **definitions: Unpack[Definitions],
) -> pl.LazyFrame:
    """Return the verdict on each run under other choices of definitions and of queries.

    Runs that look broken are found first.

    Examples
    --------
    >>> log = pr.datasets.search_log(300, runs=["bm25", "neural"], seed=1).collect()
    >>> table = pr.diagnostics.robustness(log, "ndcg@10", baseline="bm25")
    >>> table["headline"][0]
    'holds'
    >>> table.select("choice", "value", "difference", "verdict", "changes")
    shape: (10, 5)
    ┌───────────┬─────────┬────────────┬─────────┬─────────┐
    │ choice    ┆ value   ┆ difference ┆ verdict ┆ changes │
    │ ---       ┆ ---     ┆ ---        ┆ ---     ┆ ---     │
    │ str       ┆ str     ┆ f64        ┆ str     ┆ bool    │
    ╞═══════════╪═════════╪════════════╪═════════╪═════════╡
    │ as made   ┆ null    ┆ 0.074101   ┆ better  ┆ false   │
    │ ties      ┆ best    ┆ 0.073175   ┆ better  ┆ false   │
    │ ties      ┆ worst   ┆ 0.074138   ┆ better  ┆ false   │
    │ unjudged  ┆ removed ┆ 0.071214   ┆ better  ┆ false   │
    │ unjudged  ┆ bounds  ┆ null       ┆ unclear ┆ null    │
    │ gain      ┆ exp2    ┆ 0.0786     ┆ better  ┆ false   │
    │ cutoff    ┆ 5       ┆ 0.087058   ┆ better  ┆ false   │
    │ cutoff    ┆ 20      ┆ 0.060779   ┆ better  ┆ false   │
    │ undefined ┆ skip    ┆ 0.082031   ┆ better  ┆ false   │
    │ outliers  ┆ removed ┆ 0.071483   ┆ better  ┆ false   │
    └───────────┴─────────┴────────────┴─────────┴─────────┘

    Parameters
    ----------
    frame
        The long table of several runs, one row per document.
    metric
        The metric that is compared.
    baseline
        Run that the others are compared with.
    run
        Column of the run.
    query
        Column or columns that identify the query.
    doc
        Column of the document. If it is None, or "doc" is missing, documents have no ids.
    score
        Column of the score, higher is better. "-distance" if lower is better, or an expression.
    label
        Column of the relevance label.
    judge
        Column of the judge who gave the label, with the rows of all rankings for each judge. The
        first judge in sorted order is as made, and each other one is a choice. Only queries that a
        judge labeled count.
    position
        Column of the position, 1 first; replaces `score`.
    weight
        Column of weights, 0 or more, such as the traffic of the query.
    cluster
        Columns that identify the sampling unit, such as the user.
    margin
        Size of a difference that does not matter: a number of 0 or above, or a percentage of the
        baseline's mean, such as "2%". With it, a run can be "equivalent" or "not worse".
    confidence
        Confidence level.
    conventions
        Metric definitions to use. A preset, a `Conventions`, or a dictionary of its fields.
    **definitions
        Fields of `Conventions`, which take precedence over `conventions`.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. One row per run and choice, the choice "as made" first, with

        - the column of the run;
        - `choice`, `value`: what is chosen, and how;
        - `difference`, `low`, `high`, `verdict`: the result of `compare` with this choice;
        - `changes`: whether the verdict differs from that of the choices as made, where "too few"
          is "unclear"; null for "bounds";
        - `headline`: in the first row of a run, null in the others: "holds" if no choice changes
          the verdict, "depends on: ties, cutoff" with the choices that do, "unclear" if the verdict
          is unclear with every choice, or "broken: constant scores" if the run or the baseline
          looks broken.

    Raises
    ------
    DataError
        No row belongs to the baseline. Raised when the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        A run looks broken; and as in `compare`, about the choices as made.

    Notes
    -----
    **Choices.** A choice that changes no value of a query is left out.

    - "ties": the "best" or "worst" order of tied documents, in all runs;
    - "unjudged": documents without a label "removed"; or their labels within "bounds", where
      `low` and `high` are those of the difference over all labels, as in `judgment_bounds`, and
      the verdict is unclear if some labels contradict it. The headline does not depend on bounds,
      which contradict most verdicts if many documents are unjudged. Not if all labels are relevant,
      as for purchases;
    - "gain": "linear" or "exp2"; "cutoff": 5, 10 or 20, up to the length of rankings;
      "threshold": the next lower and the next higher label as the lowest relevant one;
    - "undefined": values count as "zero", or "skip" the query;
    - "outliers": "removed", which are the 1% of the queries in which the run differs most from the
      baseline;
    - "judge": the labels of another judge.

    Bounds are computed for the metrics of `judgment_bounds`, from a random sample of up to 1,000
    queries, and only if 100 of them do not take long: usually not for metrics without a cutoff.

    **Broken runs.** In most rankings, and at least 10 of them,

    - "nothing retrieved";
    - "constant scores": all documents have the same score;
    - "scores equal to labels": judged documents are scored by their labels: equal labels have the
      same score, and a higher label has a higher score;
    - "cut off": the ranking ends above the cutoff, at the same rank in all of them, although more
      documents of the query are known.

    In a tenth of the rankings or queries, and at least 10 rankings or 2 queries,

    - "query is its own document": the first document has the id of the query, and is not relevant;
    - "queries missing": no document is retrieved, although one is relevant to the query.

    And "identical runs": a run has the documents, scores and labels of another one.

    Of a log of more than a million rows, a random sample of the queries is examined, which has
    about 500,000 rows or more.

    Choices with the same order of documents are evaluated in one pass over the log. There are up to
    three passes, one more for each judge, one for broken runs, and one for the sample of bounds.
    """
    metrics = read_metrics(metric, conventions, "metric")
    columns = {
        "run": run, "query": query, "doc": doc, "score": score, "label": label,
        "position": position, "conventions": conventions, **definitions,
    }  # fmt: skip
    statistics = {
        "baseline": baseline, "weight": weight, "cluster": cluster, "margin": margin,
        "confidence": confidence,
    }  # fmt: skip
    return robustness_of(frame, metrics, judge, columns, statistics)


def robustness_of(
    frame: pl.LazyFrame,
    metrics: Sequence[pl.Expr],
    judge: str | None,
    columns: Mapping[str, Any],
    statistics: Mapping[str, Any],
) -> pl.LazyFrame:
    """Return the result of `robustness` for the first metric.

    Intervals and p-values are corrected for all metrics. `columns` are other parameters of
    `per_query`, and `statistics` those of `compare`.
    """
    share("confidence", statistics["confidence"])
    require_scipy()
    margin = Margin.of(statistics["margin"])
    run = columns["run"]
    roles = {name: columns[name] for name in ("run", "query", "position")}
    roles |= {name: statistics[name] for name in ("weight", "cluster")}
    optional = ("position", *([] if judge is not None else ["judge"]))
    found = Columns.find(schema_of(frame), {**roles, "judge": judge}, optional=optional)
    dtype = found.schema[run]
    check_run("baseline", statistics["baseline"], run, dtype)
    free([run], RESULT)
    units = dict.fromkeys([*found.roles["weight"], *found.roles["cluster"]])
    kept = tuple(name for name in units if name not in found.keys)
    log = Log.of(frame, metrics, keep=kept, **columns)
    log.columns.check_unused("judge", found.roles["judge"])
    tried = _Tried(
        frame, log, judge, {**columns, "weight": statistics["weight"]},
        {**statistics, "metrics": metrics, "run": run, "query": columns["query"]}, margin,
    )  # fmt: skip
    return deferred(tried.result, {run: dtype, **RESULT})


class _Tried(NamedTuple):
    """The parameters of `robustness`, checked."""

    frame: pl.LazyFrame
    #: The metric that is tried, and others for which its intervals are corrected.
    log: Log
    #: The column of judges, if there is one.
    judge: str | None
    #: Parameters of `judgment_bounds`, and of `compare`.
    columns: Mapping[str, Any]
    statistics: Mapping[str, Any]
    margin: Margin

    @property
    def made(self) -> Definition:
        """The definition as made."""
        return self.log.definitions[0]

    @property
    def run(self) -> str:
        """The column of the run."""
        return str(self.statistics["run"])

    @property
    def is_baseline(self) -> pl.Expr:
        """Whether a row belongs to the baseline."""
        dtype = self.log.columns.schema[self.run]
        return is_run(self.run, dtype, self.statistics["baseline"])

    def result(self) -> pl.DataFrame:
        """Return the rows of all choices."""
        if self.judge is None:
            return self._result({})
        judges = collected(self.frame.select(self.judge).unique()).to_series().sort()
        if judges.null_count():
            raise DataError(
                f"column {self.judge!r} (`judge`) has nulls; drop these rows, or fill in a name"
            )
        made, *others = [*map(self._of_judge, judges)] or [self.frame]
        return self._replace(frame=made, log=self.log.on(made))._result(
            dict(zip(map(str, judges[1:]), others, strict=True))
        )

    def _of_judge(self, judge: Any) -> pl.LazyFrame:
        """Return the rows of a judge, for the queries with labels of the judge."""
        rows = self.frame.filter(pl.col(str(self.judge)) == judge).drop(str(self.judge))
        query = [*self.log.columns.query]
        labeled = rows.filter(pl.col(self.log.given["label"]).is_not_null()).select(query).unique()
        return rows.join(labeled, on=query, how="semi", nulls_equal=True, maintain_order="left")

    def _result(self, others: Mapping[str, pl.LazyFrame]) -> pl.DataFrame:
        """Return the rows of all choices, given the rows of other judges."""
        lowest = lowest_of(self.made.given, self.log.conventions)
        known = facts(self.log, lowest, cutoff(self.made.given))
        for text in known.warnings:
            warn(text)
        values = self._values(known, others)
        rows = []
        for (choice, value), table in values.items():
            with nullcontext() if choice == MADE else recorded_warnings():
                compared = compare(table, **self.statistics).filter(metric=self.made.name)
            rows.append(_of_choice(compared, self.run, choice, value))
        if known.has_unjudged and (sample := self._sample(known, values[MADE, None])) is not None:
            bounds = self._bounds(sample, rows[0])
            place = sum(choice in (MADE, "ties", "unjudged") for choice, _ in values)
            rows[place:place] = [] if bounds is None else [bounds]
        return self._with_headlines(pl.concat(rows), known)

    def _values(
        self, known: LogFacts, others: Mapping[str, pl.LazyFrame]
    ) -> dict[tuple[str, str | None], pl.DataFrame]:
        """Return the per-query values by choices that change them, and by other judges."""
        choices = [*_choices(self.made, known)]
        made, *tables = self._tables(self.log, [self.made, *(each for *_, each in choices)])
        values: dict[tuple[str, str | None], pl.DataFrame] = {(MADE, None): made}
        values |= {
            (name, value): table
            for (name, value, _), table in zip(choices, tables, strict=True)
            if _differs(made, table, self.made.name)
        }
        values["outliers", "removed"] = self._without_outliers(made)
        for judge, frame in others.items():
            with recorded_warnings():
                (values["judge", judge],) = self._tables(self.log.on(frame), [self.made])
        return values

    def _tables(self, log: Log, definitions: Sequence[Definition]) -> list[pl.DataFrame]:
        """Return the per-query values under each definition, with those of the other metrics."""
        others = self.log.definitions[1:]
        values = values_under(log, [*definitions, *others])
        tables = [each.rename({VALUE: self.made.name}) for each in values[: len(definitions)]]
        keys = log.columns.keys
        for other, column in zip(others, values[len(definitions) :], strict=True):
            own = column.select(*keys, pl.col(VALUE).alias(other.name))
            tables = [
                each.join(own, on=keys, how="left", nulls_equal=True, maintain_order="left")
                for each in tables
            ]
        return tables

    def _without_outliers(self, values: pl.DataFrame) -> pl.DataFrame:
        """Return the values, without those of a run that differ most from the baseline's."""
        run, query, name = self.run, self.log.columns.query, self.made.name
        change, base = OWN + "change", OWN + "baseline"
        of_baseline = values.filter(self.is_baseline).select(*query, pl.col(name).alias(base))
        joined = values.join(
            of_baseline, on=query, how="left", nulls_equal=True, maintain_order="left"
        ).with_columns((pl.col(name) - pl.col(base)).abs().alias(change))
        most = (pl.col(change).count() * _TRIMMED).ceil().over(run)
        place = pl.col(change).rank("ordinal", descending=True).over(run)
        is_outlier = (~self.is_baseline & (place <= most)).fill_null(value=False)
        kept = pl.when(~is_outlier).then(name).alias(name)
        return joined.with_columns(kept).select(values.columns)

    def _sample(self, known: LogFacts, values: pl.DataFrame) -> pl.LazyFrame | None:
        """Return the rows of a sample of queries; None if their bounds would take long."""
        log, query = self.log, [*self.log.columns.query]
        depth = min(cutoff(self.made.given) or known.longest, known.longest)
        number: int = values.select(pl.struct(query).n_unique()).item()
        most = int(min(_MOST_QUERIES, _MOST_LABELED / (2 * (depth + 1) * known.rows_per_query)))
        is_mean = log.conventions.but(counts="mean").aggregate(self.made.given) == "mean"
        if most < min(_FEWEST_QUERIES, number) or not is_mean:
            return None
        step = math.ceil(number / max(most, 1))
        return collected(sampled(self.frame, query, schema_of(self.frame), step)).lazy()

    def _bounds(self, frame: pl.LazyFrame, made: pl.DataFrame) -> pl.DataFrame | None:
        """Return the range of the difference over labels, and whether all of it has the verdict.

        Return None if the metric has no bounds.
        """
        run, margin = self.run, self.margin
        options = {**self.columns, "counts": "mean"}
        try:
            with recorded_warnings():  # the evaluation has issued them
                bounds = collected(judgment_bounds(frame, self.made.given, **options))
        except (ArgumentError, DataError):
            return None
        low, high = (pl.col(name).filter(self.is_baseline).first() for name in ("low", "high"))
        ranges = bounds.select(run, least=pl.col("low") - high, most=pl.col("high") - low)
        least, most, verdict = pl.col("least"), pl.col("most"), pl.col("verdict")
        worst, best = (-most, -least) if lower_is_better(self.made.given) else (least, most)
        size = margin.size * (pl.col("baseline_mean").abs() if margin.is_relative else pl.lit(1.0))
        is_contradicted = (
            ((verdict == "better") & (worst <= 0))
            | ((verdict == "worse") & (best >= 0))
            | ((verdict == "equivalent") & (best >= size))
            | (verdict.is_in(["equivalent", "not worse"]) & (worst <= -size))
        )
        table = made.join(ranges, on=run, how="left", nulls_equal=True, maintain_order="left")
        compared = table.with_columns(
            difference=pl.lit(None, pl.Float64), low=least, high=most,
            verdict=pl.when(is_contradicted).then(pl.lit("unclear")).otherwise(verdict),
        )  # fmt: skip
        return _of_choice(compared, run, "unjudged", "bounds")

    def _with_headlines(self, rows: pl.DataFrame, known: LogFacts) -> pl.DataFrame:
        """Return the rows by run, with the changes of verdicts and the headlines."""
        run, baseline, problems = self.run, self.statistics["baseline"], known.problems
        verdict = pl.col("verdict").replace("too few", "unclear")
        changes = pl.when(~_IS_BOUNDS).then(verdict != verdict.first().over(run))
        table = rows.sort(run, maintain_order=True).with_columns(changes=changes)
        headlines: list[str | None] = []
        for (name,), part in table.group_by(run, maintain_order=True):
            broken = [each.name for each in problems.get(name, ())]
            broken += [f"{each.name} ({short(baseline)})" for each in problems.get(baseline, ())]
            changed = part.filter("changes").get_column("choice").unique(maintain_order=True)
            text = "unclear" if part.item(0, "verdict") in ("unclear", "too few") else "holds"
            if broken or len(changed):
                what = "broken" if broken else "depends on"
                text = f"{what}: {', '.join(broken or changed)}"
            headlines += [text, *[None] * (part.height - 1)]
        texts = pl.Series("headline", headlines, pl.String)
        return table.with_columns(texts).select(run, *RESULT)


def lowest_of(metric: pl.Expr, conventions: Conventions) -> float:
    """Return the lowest relevant label of a metric."""
    leaves = leaves_of(metric)
    own = leaves[0].arguments.get("rel") if leaves else None
    return conventions.of(metric).rel if own is None else own


def _choices(made: Definition, known: LogFacts) -> Iterator[tuple[str, str, Definition]]:
    """Yield the name and the value of each other choice, with its definition."""
    for ties in ("best", "worst") if known.has_ties else ():
        yield "ties", ties, made.but(ties=ties)
    if known.has_unjudged:
        yield "unjudged", "removed", made.but(unjudged="removed")
    lowest = lowest_of(made.given, made.conventions)
    below = [each for each in known.labels if each < lowest]
    relevant = [each for each in known.labels if each >= lowest]
    parameters: list[tuple[str, str, dict[str, Any]]] = [
        *(("gain", gain, {"gain": gain}) for gain in _GAINS),
        *(("cutoff", str(k), {"k": k}) for k in _CUTOFFS if k <= known.longest),
        *(("threshold", f"{rel:g}", {"rel": rel}) for rel in (*below[1:][-1:], *relevant[1:2])),
    ]
    leaves = made.given.leaves if isinstance(made.given, Metric) else []
    accepted = {name for leaf in leaves for name in parameters_of(leaf)}
    labels = pl.lit(pl.Series(known.labels, dtype=pl.Float64))
    for name, value, parameter in parameters:
        if {*parameter} <= accepted:
            changed = made.but(**parameter)
            refused = refusals(tree_of(changed.metric)).values()
            if not any(pl.select(each(labels).any()).item() for each in refused):
                yield name, value, changed
    for undefined in ("zero", "skip"):
        yield "undefined", undefined, made.but(undefined=undefined)


def _differs(made: pl.DataFrame, other: pl.DataFrame, name: str) -> bool:
    """Return whether the values of a choice differ in a query, or other queries count."""
    if not made.drop(name).equals(other.drop(name)):
        return True
    values, others = made.get_column(name), other.get_column(name)
    changes: Any = (values - others).abs().max()
    return (changes or 0) > _ROUNDING or bool((values.is_null() != others.is_null()).any())


def _of_choice(compared: pl.DataFrame, run: str, choice: str, value: str | None) -> pl.DataFrame:
    """Return the rows of a choice; the mean of the baseline is for relative margins."""
    return compared.select(
        run, pl.lit(choice).alias("choice"), pl.lit(value, pl.String).alias("value"),
        "difference", "low", "high", "verdict", "baseline_mean",
    )  # fmt: skip
