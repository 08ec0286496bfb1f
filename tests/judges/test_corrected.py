"""`corrected`: per-query values from a judge's labels, corrected by people's labels of a sample."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from polars_rank.metrics.metric import REGISTER

t = pr.terms
NAMES = {"judge": "llm", "human": "human", "probability": "chosen"}
#: Three documents, of which people judged two.
LOG = pl.DataFrame({
    "query": "q", "doc": ["a", "b", "c"], "score": [3.0, 2.0, 1.0],
    "llm": [2, 1, 0], "human": [None, 0, 3], "chosen": [None, 0.5, 0.25],
})  # fmt: skip


@pytest.fixture(autouse=True)
def _own_metrics() -> Iterator[None]:
    """Forget the metrics that a test defines."""
    known = {*REGISTER}
    yield
    for name in {*REGISTER} - known:
        del REGISTER[name]


def value(metric: Any, log: pl.DataFrame = LOG, **options: Any) -> float:
    return pr.judges.corrected(log, metric, **{**NAMES, **options}).to_series(-1).item()


def test_values_by_hand() -> None:
    # Gains: 2; 1 + (0 - 1) / 0.5 = -1; 0 + (3 - 0) / 0.25 = 12.
    assert value("cg@1") == 2
    assert value("cg") == 2 - 1 + 12
    assert value("dcg@2") == pytest.approx(2 - 1 / math.log2(3))
    # Gains by exp2: 3; 1 + (0 - 1) / 0.5 = -1; 0 + (7 - 0) / 0.25 = 28.
    assert value("dcg(gain='exp2')") == pytest.approx(3 - 1 / math.log2(3) + 28 / 2)
    # Relevance: 1; 1 + (0 - 1) / 0.5 = -1; 0 + (1 - 0) / 0.25 = 4.
    assert value("p@2") == 0
    assert value("p@3") == pytest.approx(4 / 3)
    assert value("p") == pytest.approx(4 / 3)
    assert value("num_rel_ret@2") == 0
    assert value("num_rel") == 4
    assert value("rbp(p=0.5)") == pytest.approx(0.5 * (1 - 0.5 + 4 * 0.25))
    # Relevance of labels of 2 or more: 1; 0; 4.
    assert value("p@2", rel=2) == value("precision(rel=2)@2") == 0.5
    assert value(pr.cg(1) - 2 * pr.dcg(1) / 4 + 1) == 2 - 2 * 2 / 4 + 1


def test_missing_labels() -> None:
    # Judge: null counts as gain 0; a person may have judged the document nevertheless.
    log = LOG.with_columns(llm=pl.Series([None, None, 1]))
    assert value("cg", log) == 0 + (0 - 0) / 0.5 + 1 + (3 - 1) / 0.25
    assert value("p@2", log) == 0
    # With all documents judged for certain, the judge does not matter.
    judged = LOG.with_columns(human=pl.Series([3, 0, 1]), chosen=1.0)
    metrics = ["cg@2", "dcg", "p@1", "rbp"]
    by_human = pr.per_query(judged, metrics, label="human")
    assert_frame_equal(pr.judges.corrected(judged, metrics, **NAMES), by_human)


def expectation(log: pl.DataFrame, metrics: list[Any], **options: Any) -> pl.DataFrame:
    """Return the mean of corrected values over all samples of (query, document) pairs."""
    pairs = log.select("query", "doc", "chosen").unique(maintain_order=True)
    samples = []
    for chosen in itertools.product((False, True), repeat=pairs.height):
        if any(chosen):
            weight = math.prod(
                p if is_chosen else 1 - p
                for p, is_chosen in zip(pairs["chosen"], chosen, strict=True)
            )
            samples.append((weight, pairs.select("query", "doc", is_chosen=pl.Series(chosen))))
    # All samples in one call: each is a group.
    table = pl.concat(
        log.join(sample, on=["query", "doc"], how="left", maintain_order="left").with_columns(
            human=pl.when("is_chosen").then("human"), sample=index
        )
        for index, (_, sample) in enumerate(samples)
    )
    by = [*options.pop("by", []), "sample"]
    values = pr.judges.corrected(table, metrics, by=by, **NAMES, **options)
    weights = pl.DataFrame({
        "sample": range(len(samples)), "weight": [weight for weight, _ in samples]
    }, schema_overrides={"sample": pl.Int32})  # fmt: skip
    nothing = pr.per_query(log, metrics, label="llm", by=[*by[:-1]], **options)
    unchosen = 1 - weights["weight"].sum()
    names = [*map(str, metrics)]
    keys = [*by[:-1], "query"]
    means = (
        values.join(weights, on="sample")
        .group_by(keys)
        .agg((pl.col(names) * pl.col("weight")).sum())
    )
    return means.join(nothing, on=keys, suffix=" of none").select(
        *keys, *(pl.col(name) + unchosen * pl.col(f"{name} of none") for name in names)
    ).sort(keys)  # fmt: skip


@pytest.mark.filterwarnings("ignore:column 'human' .* has no labels in")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ties": "doc_ascending", "rel": 2},
        {"ties": "expected"},
        {"duplicates": "max", "by": ["run"]},
        {"conventions": "trec_eval"},
    ],
)
def test_values_are_unbiased(options: dict[str, Any]) -> None:
    @pr.define_metric(high=None)
    def own(k: int = 2) -> t.Value:
        liked = t.where(t.relevant(), t.gain("exp2") + 1, -t.gain("linear"))
        return t.ratio(t.top(liked, k, "reciprocal").sum(), t.num_retrieved()) - t.top(1, k).sum()

    metrics = [
        *("cg@2", "dcg(gain='exp2')@3", "dcg", "p@2", "p", "rbp@3", "rbp(graded=True)"),
        *("num_rel_ret@2", "num_rel", "precision(short='null')@3", pr.cg(1) + pr.dcg(3) / 2, own()),
    ]
    # Scores are tied, documents not retrieved, and labels of the judge missing.
    log = pl.DataFrame({
        "query": [1, 1, 1, 1, 2, 2, 2], "doc": [1, 2, 3, 4, 1, 2, 3],
        "score": [2.0, 1.0, 1.0, None, 1.0, 1.0, None],
        "llm": [0, 2, None, 1, 3, 0, 0], "human": [2, 0, 1, 3, 0, 2, 1],
        "chosen": [0.5, 0.25, 0.9, 0.3, 0.7, 1.0, 0.1],
    })  # fmt: skip
    if "by" in options:
        again = log.with_columns(score=-pl.col("score"))
        runs = [log.with_columns(run=pl.lit("a")), again.with_columns(run=pl.lit("b"))]
        log = pl.concat([*runs, runs[1].with_columns(score=pl.col("score") - 1)])
    by_human = pr.per_query(log, metrics, label="human", **options)
    unbiased = expectation(log, metrics, **options)
    columns = [name for name in by_human.columns if name != "num_retrieved"]
    assert_frame_equal(
        unbiased.select(columns), by_human.select(columns), check_dtypes=False, rel_tol=0,
        abs_tol=1e-12,
    )  # fmt: skip


def test_names_of_columns_do_not_matter() -> None:
    names = {"llm": "doc label", "human": "label", "chosen": "score", "score": "bm25"}
    renamed = LOG.rename(names)
    given = {"judge": "doc label", "human": "label", "probability": "score"}
    values = pr.judges.corrected(renamed, ["cg", "p@2"], score="bm25", **given)
    assert_frame_equal(values, pr.judges.corrected(LOG, ["cg", "p@2"], **NAMES))


def test_tables_and_options_of_per_query() -> None:
    log = pl.concat(
        LOG.with_columns(query=pl.lit(query), run=pl.lit(run), text=pl.lit(f"text of {query}"))
        for run, query in itertools.product("ab", "qr")
    ).with_columns(other=-pl.col("score"))
    options = {"by": "run", "keep": "text", "conventions": "trec_eval", **NAMES}
    values = pr.judges.corrected(log, ["p@2", "dcg"], **options)
    expected = ["run", "query", "text", "num_retrieved", "p@2", "dcg"]
    assert values.columns == expected
    lazy = pr.judges.corrected(log.lazy(), ["p@2", "dcg"], **options)
    assert lazy.collect_schema() == values.schema
    for engine in ("in-memory", "streaming"):
        assert_frame_equal(lazy.collect(engine=engine), values)
    assert_frame_equal(pr.judges.corrected(log.to_arrow(), ["p@2", "dcg"], **options), values)
    one = log.filter(run="a").drop("run")
    runs = pr.judges.corrected(one, "p@1", score=["score", "other"], **NAMES)
    assert runs.filter(query="q")["p@1"].to_list() == [1, 4]


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ("ndcg@10", "ndcg@10 divides by a sum of labels"),
        ("ap", "ap divides by a sum of labels"),
        ("recall@3", "recall@3 divides by a sum of labels"),
        ("rr", "rr reads one of several documents"),
        ("hit_rate@2", "hit_rate@2 is a nonlinear function|condition that depends on labels"),
        ("ideal_dcg", "ideal_dcg reads the ideal ranking"),
        ("err", "err is a function of whole rankings"),
        (pr.precision(2) * pr.cg(2), "multiplies sums of labels"),
        (pr.dcg(2) + pr.ndcg(2), "divides by a sum of labels"),
        (pr.precision(2).round(1), "precision@2 is a nonlinear function of a sum of labels"),
        (pl.col("label").sum().alias("own"), "own is an expression, whose form is unknown"),
    ],
)
def test_other_metrics_are_errors(metric: Any, reason: str) -> None:
    for log in (LOG, LOG.lazy()):
        with pytest.raises(pr.errors.ArgumentError, match=reason):
            pr.judges.corrected(log, metric, **NAMES)


def test_own_metrics_by_their_form() -> None:
    @pr.define_metric(high=None)
    def upper(k: int = 2) -> t.Value:
        return t.top(t.at_hits(lambda rank, hits: hits / rank, k).term).sum()

    @pr.define_metric(high=None)
    def cut() -> t.Value:
        return t.top(t.gain("linear"), t.num_relevant()).sum()

    @pr.define_metric(high=None)
    def highest(k: int = 2) -> t.Value:
        return t.top(t.LABEL, k).max()

    @pr.define_metric(high=None)
    def checked() -> t.Value:
        return t.require(t.top(t.LABEL).sum(), t.each(t.LABEL).min() >= 0, "negative")

    @pr.define_metric(high=None)
    def raw() -> t.Value:
        return t.top(t.column("llm")).sum()

    reasons = {
        "raw": "reads the labels as a column",
        "upper": "counts a document by the labels of other documents",
        "cut": "has a cutoff that depends on labels",
        "highest": "reads one of several documents",
        "checked": "has a condition that depends on labels",
    }
    for name, reason in reasons.items():
        with pytest.raises(pr.errors.ArgumentError, match=f"{name}.*{reason}"):
            value(name)


@pytest.mark.parametrize(
    ("log", "options", "message"),
    [
        (LOG, {"label": "llm"}, "`label` is not supported"),
        (LOG, {"label": ["llm", "human"]}, "`label` is not supported"),
        (LOG, {"weight": "chosen"}, "`weight` is not supported"),
        (LOG, {"ties": "best"}, "ranking must not depend on labels, but ties='best'"),
        (LOG.drop("doc"), {}, "ranking must not depend on labels, but ties='worst'"),
        (LOG, {"unjudged": "removed"}, "`unjudged` must be 'nonrelevant'"),
        (LOG, {"human": "llm"}, "column 'llm' is used for both `judge` and `human`"),
        (LOG, {"probability": "llm"}, "column 'llm' is used for both `judge` and `probability`"),
        (LOG, {"probability": "human"}, "'human' is used for both `human` and `probability`"),
        (LOG.with_columns(word=pl.lit("x")), {"probability": "word"}, "'word' .*must be numeric"),
        (LOG, {"judge": "nothing"}, r"column 'nothing' \(`judge`\) not found"),
        (LOG, {"human": "nothing"}, r"column 'nothing' \(`human`\) not found"),
        (LOG, {"probability": "nothing"}, r"column 'nothing' \(`probability`\) not found"),
    ],
)
def test_invalid_arguments(log: pl.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pr.errors.RankError, match=message):
        pr.judges.corrected(log, "p@2", **{**NAMES, **options})


def test_order_does_not_matter_to_whole_rankings() -> None:
    assert value("num_rel_ret", LOG.drop("doc")) == 4
    assert value("p@2", LOG.drop("doc"), ties="input") == 0


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("chosen", [None, 0.5, None], r"'chosen' \(`probability`\) must be above 0 and at most 1"),
        ("chosen", [0.5, 0.5, 0.0], r"'chosen' \(`probability`\) must be above 0 and at most 1"),
        ("chosen", [0.5, 0.5, 1.5], r"'chosen' \(`probability`\) must be above 0 and at most 1"),
        ("chosen", [0.5, 0.5, math.nan], r"'chosen' \(`probability`\) must be above 0"),
        ("human", [0.5, None, math.inf], r"'human' \(`human`\) has NaN or infinite values"),
        ("human", [None, 51, None], "'human' above 50, too large for the gain 'exp2'"),
        ("llm", [1, 51, None], "'llm' above 50, too large for the gain 'exp2'"),
    ],
)
def test_invalid_values(column: str, values: list[Any], message: str) -> None:
    log = LOG.with_columns(chosen=0.5).with_columns(pl.Series(column, values, dtype=pl.Float64))
    with pytest.raises(pr.errors.DataError, match=f"1 of 3 rows: .*{message}.*'doc'"):
        value("dcg(gain='exp2')", log)
    with pytest.raises(pr.errors.DataError, match=message):
        pr.judges.corrected(log.lazy(), "dcg(gain='exp2')", **NAMES).collect()


def test_probabilities_are_not_read_without_a_label() -> None:
    assert value("cg", LOG.with_columns(chosen=pl.Series([-1.0, 0.5, 0.25]))) == 13


def test_human_column_without_labels() -> None:
    none = LOG.with_columns(human=pl.lit(None, dtype=pl.Int64))
    message = r"column 'human' \(`human`\) has no labels \(3 rows\)"
    with pytest.raises(pr.errors.DataError, match=message):
        value("p@2", none)
    for engine in ("in-memory", "streaming"):
        with pytest.raises(pr.errors.DataError, match=message):
            pr.judges.corrected(none.lazy(), "p@2", **NAMES).collect(engine=engine)
    runs = pl.concat([LOG.with_columns(run=pl.lit("a")), none.with_columns(run=pl.lit("b"))])
    for log in (runs, runs.lazy()):
        with pytest.warns(pr.errors.RankWarning, match=r"no labels in 1 group .* {'run': 'b'}"):
            pr.judges.corrected(log, "p@2", by="run", **NAMES).lazy().collect()
    with pytest.warns(pr.errors.RankWarning, match="no label of 1 document with the probability 1"):
        value("p@2", LOG.with_columns(chosen=1.0))
    assert pr.judges.corrected(LOG.head(0), "p@2", **NAMES).shape == (0, 2)


def test_statistics_of_values_beyond_0_and_1_use_the_t_distribution() -> None:
    stats = needs.package("scipy.stats", "stats")

    @pr.define_metric(binary=True)
    def first_relevant() -> t.Value:
        return t.top(t.relevant(), 1).count()

    # Relevance of the first document: 1 + (0 - 1) / 0.5 = -1, or 1; of the second: 1.
    log = pl.concat(
        LOG.with_columns(
            run=pl.lit(run), query=query, human=pl.Series([query % 2, None, None]), chosen=0.5,
            score=pl.Series(scores),
        )
        for query in range(6)
        for run, scores in (("a", [2.0, 1.0, 0.0]), ("b", [1.0, 2.0, 0.0]))
    )  # fmt: skip
    values = pr.judges.corrected(log, ["first_relevant", "p@1"], by="run", **NAMES)
    assert values.filter(run="a")["p@1"].to_list() == [-1, 1] * 3
    assert values.filter(run="b")["p@1"].to_list() == [1] * 6
    # The values -1 and 1, and their differences 2 and 0, have no skewness.
    half = stats.t.ppf(0.975, 5) * math.sqrt(6 / 5 / 6)
    summary = pr.summarize(values.filter(run="a").drop("run"))
    compared = pr.compare(values, baseline="a", correction=False)
    for table, mean in ((summary, 0), (compared, 1)):
        assert table["low"].to_list() == pytest.approx([mean - half] * 2)
        assert table["high"].to_list() == pytest.approx([mean + half] * 2)
