"""Agreement of judges: other packages, plain Python, worked examples, intervals, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from . import plain

#: Most tables here have few queries.
pytestmark = pytest.mark.filterwarnings("ignore:intervals of agreement are too narrow")

IRRCAC = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "irrcac.json").read_text(encoding="utf-8")
)
COMPARED = IRRCAC[:3]
NAMES = "abcdefgh"


def table(ratings: list[list[int | None]], docs_of_query: int = 3) -> pl.DataFrame:
    """Return the log of a matrix with a row per document and a column per judge."""
    schema = dict.fromkeys(NAMES[: len(ratings[0])], pl.Float64)
    number = pl.int_range(pl.len())
    return pl.DataFrame(ratings, schema, orient="row").select(
        query=number // docs_of_query, doc=number, **{name: pl.col(name) for name in schema}
    )


def long(log: pl.DataFrame) -> pl.DataFrame:
    index = [name for name in log.columns if name not in [*NAMES]]
    return log.unpivot(index=index, variable_name="judge", value_name="label")


def judges(log: pl.DataFrame) -> list[str]:
    return log.columns[2:]


def agreement(log: Any, **options: Any) -> pl.DataFrame:
    return pr.judges.agreement(log, n_resamples=1, **options)


def values(result: pl.DataFrame, judge: str, reference: str | None) -> dict[str, float]:
    rows = result.filter(pl.col("judge") == judge, pl.col("reference").eq_missing(reference))
    return dict(rows.select("statistic", "value").iter_rows())


def test_irrcac() -> None:
    for case in COMPARED:
        log = table(case["ratings"])
        result = agreement(long(log), categories=[0, 1, 2, 5])
        pair = len(judges(log)) == 2
        ours = values(result, "b", "a") if pair else values(result, "all", None)
        peer = case["values"]
        assert {name: ours[name] for name in peer} == pytest.approx(peer, abs=1e-9)


def test_scikit_learn() -> None:
    """Places of grades are their values if the grades are equally spaced."""
    peer = needs.package("sklearn.metrics", "test")
    for step in (1, 5):
        ratings = [[{2: 2 * step, 1: step, 5: 0}.get(each, 3 * step) for each in row]
                   for row in IRRCAC[0]["ratings"]]  # fmt: skip
        log = table(ratings)
        ours = values(agreement(long(log)), "b", "a")
        for name, weights in (("kappa", None), ("kappa_quadratic", "quadratic")):
            expected = peer.cohen_kappa_score(log["a"], log["b"], weights=weights)
            assert ours[name] == pytest.approx(expected, abs=1e-9)


@st.composite
def ratings(draw: st.DrawFn) -> list[list[int | None]]:
    grades = draw(st.sampled_from([[0, 1], [-1, 0, 4], [0, 1, 2, 3], [1]]))
    raters = draw(st.integers(2, 4))
    grade = st.sampled_from([None, *grades])
    rows = draw(st.lists(st.lists(grade, min_size=raters, max_size=raters), max_size=12))
    return [[grades[0]] * raters, *rows]


@settings(max_examples=40)
@given(ratings())
def test_plain(rows: list[list[int | None]]) -> None:
    log = table(rows)
    names = judges(log)
    documents = [
        {name: each for name, each in zip(names, row, strict=True) if each is not None}
        for row in rows
    ]
    grades = sorted({each for document in documents for each in document.values()})
    result = agreement(long(log))
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            expected = plain.of_pair(documents, first, second, grades)
            assert values(result, second, first) == pytest.approx(expected, abs=1e-9)
            counts = [(first in each) + (second in each) for each in documents]
            rows_of_pair = result.filter(judge=second, reference=first)
            assert {*rows_of_pair["pairs"]} == {counts.count(2)}
            assert {*rows_of_pair["unpaired"]} == {counts.count(1)}
    if len(names) > 2:
        expected = plain.of_all(documents, grades)
        assert values(result, "all", None) == pytest.approx(expected, abs=1e-9)
        assert {*result.filter(judge="all")["unpaired"]} == {
            sum(len(each) == 1 for each in documents)
        }
    undefined = pl.col("value").is_null()
    assert result.filter(undefined & pl.col("note").is_null()).is_empty()


def test_weights_are_by_value_and_categories_count() -> None:
    log = table([[0, 1], [1, 5], [5, 5], [1, 1]])
    ours = values(agreement(long(log)), "b", "a")
    observed = (1 + 16) / 4
    # Squared differences of all pairs of a in (0, 1, 5, 1) and b in (1, 5, 5, 1).
    expected = ((1 + 25 + 25 + 1) + 2 * (0 + 16 + 16 + 0) + (16 + 0 + 0 + 16)) / 16
    assert ours["kappa_quadratic"] == pytest.approx(1 - observed / expected)
    four = values(agreement(long(log), categories=[0, 1, 2, 5]), "b", "a")
    changed = {name for name in ours if four[name] != pytest.approx(ours[name])}
    assert changed == {"ac2_quadratic"}
    of_other_judges = table([[0, 1, 2], [1, 5, 2], [5, 5, 2], [1, 1, 2]])
    union = values(agreement(long(of_other_judges)), "b", "a")
    assert union == pytest.approx(four)


def test_undefined_values_have_reasons() -> None:
    log = table([[0, 0], [0, 0]])
    notes = dict(agreement(long(log)).select("statistic", "note").iter_rows())
    same = "all labels are one and the same grade"
    assert notes == {
        **dict.fromkeys(("kappa", "kappa_quadratic", "alpha_ordinal"), same),
        "ac2_quadratic": "there is only one category",
        **dict.fromkeys(("agreement", "bias"), "no interval: all resamples have the same value"),
    }
    apart = agreement(long(table([[0, None], [None, 1]])))
    assert {*apart["value"]} == {None}
    assert {*apart["note"]} == {"no document has labels of two judges"}
    assert apart.select("pairs", "unpaired").unique().row(0) == (0, 2)


def noisy(queries: int, seed: int = 0) -> pl.DataFrame:
    """Return labels of a judge whose quality depends on the query."""
    import numpy as np

    draw = np.random.default_rng(seed)
    quality = np.repeat(draw.beta(2, 2, queries), 5)
    human = draw.integers(0, 3, 5 * queries)
    llm = np.where(draw.random(5 * queries) < quality, human, draw.integers(0, 3, 5 * queries))
    return table([*zip(human.tolist(), llm.tolist(), strict=True)], 5)


def test_intervals_are_of_a_bootstrap_over_queries() -> None:
    """The standard error of a mean of queries of equal size is known."""
    log = noisy(400)
    rows = pr.judges.agreement(long(log), n_resamples=4_000)
    row = rows.row(0, named=True)
    equal = log.group_by("query").agg(value=(pl.col("a") == pl.col("b")).mean())["value"]
    width = 2 * 1.96 * equal.std() / 400**0.5
    assert row["value"] == pytest.approx(equal.mean())
    assert row["high"] - row["low"] == pytest.approx(width, rel=0.06)
    assert (row["low"] + row["high"]) / 2 == pytest.approx(row["value"], abs=width / 20)
    narrower = pr.judges.agreement(long(log), n_resamples=4_000, confidence=0.5)
    assert narrower["low"][0] > row["low"]
    # Of many queries, groups are drawn.
    log = noisy(20_000).filter(pl.col("doc") % 5 == 0)
    row = pr.judges.agreement(long(log), n_resamples=1_000).row(0, named=True)
    width = 2 * 1.96 * (log["a"] == log["b"]).cast(pl.Int8).std() / 20_000**0.5
    assert row["high"] - row["low"] == pytest.approx(width, rel=0.12)


@pytest.mark.filterwarnings("error")
def test_few_queries_warn() -> None:
    with pytest.warns(pr.errors.RankWarning, match="fewer than 30 queries; found 29"):
        pr.judges.agreement(long(noisy(29)), n_resamples=10)
    pr.judges.agreement(long(noisy(30)), n_resamples=10)


def test_undefined_resamples_are_counted() -> None:
    log = table([[1, 1], [1, 0], *[[0, 0]] * 38], 1)
    many = pr.judges.agreement(long(log), n_resamples=2_000)
    note = many.filter(statistic="kappa")["note"].item()
    share = float(note.removeprefix("undefined in ").removesuffix("% of the resamples"))
    # Each of the two first queries is in no resample with the probability 1/e.
    assert share == pytest.approx(100 / 2.718**2, abs=3)


def test_reference_and_order_of_pairs() -> None:
    log = long(table([[0, 1, 1], [1, 0, 1]]))
    pairs = [("b", "a"), ("c", "a"), ("c", "b"), ("all", None)]

    def found(result: pl.DataFrame) -> list[tuple[str, str | None]]:
        return result.select("judge", "reference").unique(maintain_order=True).rows()

    assert found(agreement(log)) == found(agreement(log.reverse())) == pairs
    assert found(agreement(log.filter(pl.col("judge") != "b"))) == [("c", "a")]
    assert found(agreement(log, reference="b")) == [("a", "b"), ("c", "b")]
    numbered = log.with_columns(judge=pl.col("judge").replace_strict({"a": 7, "b": 8, "c": 9}))
    assert found(agreement(numbered, reference=8)) == [("7", "8"), ("9", "8")]


def test_groups_engines_and_forms_are_equal() -> None:
    log = long(noisy(60)).with_columns(country=pl.when(pl.col("query") % 3 == 0).then(pl.lit("x")))
    options = {"by": "country", "n_resamples": 20, "categories": [0, 1, 2]}
    result = pr.judges.agreement(log, **options)
    lazy = pr.judges.agreement(log.lazy(), **options)
    parts = [
        pr.judges.agreement(log.filter(pl.col("country").eq_missing(pl.lit(country))), **options)
        for country in (None, "x")
    ]
    renamed = log.rename({"judge": "variable", "label": "value"})
    for same in (
        *(lazy.collect(engine=engine) for engine in ("in-memory", "streaming")),
        pl.concat(parts),
        pr.judges.agreement(renamed, judge="variable", label="value", **options),
        pr.judges.agreement(log.to_arrow(), **options),
        pr.judges.agreement(log.sample(fraction=1, shuffle=True, seed=1), **options),
        # Labels of several runs count once.
        pr.judges.agreement(
            pl.concat([log.with_columns(run=pl.lit(run)) for run in "xy"]), **options
        ),
    ):
        assert_frame_equal(same, result)
    other = pr.judges.agreement(log, **options, seed=1)
    assert (result["low"] != other["low"]).all()
    assert pr.judges.agreement(log.clear()).shape == (0, 9)
    assert pr.judges.confusion(log.clear()).shape == (0, 6)


def test_documents_without_a_judge_do_not_count() -> None:
    """A left join with judgments has such rows. Judges need not label documents of each group."""
    log = long(noisy(40)).with_columns(country=pl.col("query") % 2)
    unjudged = log.with_columns(doc=-pl.col("doc") - 1, judge=None, label=None)
    is_labeled = (pl.col("country") == 0) | (pl.col("judge") == "a")
    of_half = log.with_columns(label=pl.when(is_labeled).then("label"))
    options = {"by": "country", "n_resamples": 20}
    for rows in (log, of_half):
        first, second = (
            pr.judges.agreement(each, **options) for each in (pl.concat([rows, unjudged]), rows)
        )
        assert_frame_equal(first, second)


def test_confusion() -> None:
    log = table([[0, 0], [0, 1], [1, 1], [1, 1], [None, 1], [2, None]])
    result = pr.judges.confusion(long(log))
    assert result.rows() == [
        ("b", "a", 0, 0, 1, 0.5),
        ("b", "a", 0, 1, 1, 0.5),
        ("b", "a", 0, 2, 0, 0.0),
        ("b", "a", 1, 0, 0, 0.0),
        ("b", "a", 1, 1, 2, 1.0),
        ("b", "a", 1, 2, 0, 0.0),
        *(("b", "a", 2, label, 0, None) for label in range(3)),
    ]
    halves = log.with_columns(pl.col("a", "b") / 2)
    of_halves = pr.judges.confusion(long(halves), reference="b", categories=[1, 0, 0.5])
    counts = of_halves.filter(reference_label=0.5)["pairs"].to_list()
    assert counts == [1, 2, 0]


ONE = table([[0, 1], [1, 1]])
LONG = long(ONE)


def test_invalid_arguments() -> None:
    for options, message in (
        ({"label": []}, "`label` must name at least one column"),
        ({"label": pl.col("label")}, "`label` must be the name of a column; found Expr"),
        ({"categories": [0, 0]}, "`categories` must be different numbers"),
        ({"categories": []}, "`categories` must be different numbers"),
        ({"by": "doc"}, "column 'doc' is used for both `by` and `doc`"),
    ):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.judges.confusion(LONG.lazy(), **options)


@pytest.mark.parametrize("function", [agreement, pr.judges.confusion])
def test_the_error_for_a_column_per_judge_gives_the_line_that_unpivots_them(function: Any) -> None:
    for added in ([], ["judge", "label"]):
        wide = ONE.with_columns(pl.lit(0).alias(name) for name in added)
        for log in (wide, wide.lazy()):
            message = "`label` must be a single"
            with pytest.raises(pr.errors.ArgumentError, match=message) as caught:
                function(log, label=["a", "b"], reference="b")
            line, _, options = str(caught.value).partition("table: ")[2].partition(", and pass ")
            rows, named = eval(line, {"log": log}), eval(f"dict({options})")  # noqa: S307
            result = function(rows, reference="b", **named).lazy().collect()
            assert_frame_equal(result, function(long(ONE), reference="b"))
            with pytest.raises(pr.errors.SchemaError, match="column 'c' .`label`. not found"):
                function(log, label=["a", "c"])


def test_grades_that_are_not_whole_numbers() -> None:
    half = ONE.with_columns(pl.col("a") + 0.5)
    message = "labels of 'label' .`label`. are not whole numbers .*list the grades in `categories`"
    example = "2 of 4 rows: .* e.g. {'query': 0, 'doc': 0, 'judge': 'a', 'label': 0.5}"
    for match in (message, example):
        with pytest.raises(pr.errors.DataError, match=match):
            agreement(long(half))
    for large in (2.0**31, -(2.0**31) - 1):
        label = pl.when(pl.col("label") == 0).then(large).otherwise("label")
        with pytest.raises(pr.errors.DataError, match="1 of 4 rows: .*that fit in Int32"):
            agreement(LONG.with_columns(label=label))
    result = agreement(long(half), categories=[0.5, 1, 1.5])
    assert values(result, "b", "a")["bias"] == 0
    many = table([[each, each] for each in range(129)])
    with pytest.raises(pr.errors.ArgumentError, match="at most 128 different grades; found 129"):
        agreement(long(many))


def test_invalid_rows() -> None:
    third = LONG.head(2).with_columns(judge=pl.lit("c"), label=None)
    for rows, options, message in (
        (LONG.with_columns(query=None), {}, r"column 'query' \(`query`\) has nulls"),
        (LONG.with_columns(doc=None), {}, r"column 'doc' \(`doc`\) has nulls"),
        (LONG.with_columns(judge=pl.lit(None, pl.String)), {}, r"'judge' \(`judge`\) has"),
        (LONG.with_columns(label=float("nan")), {}, "'label' .`label`. are NaN or infinite"),
        (LONG, {"categories": [1]}, "1 of 4 rows: .*'label' .`label`. are not in `categories`"),
        (LONG.filter(judge="a"), {}, "has only the judge 'a'"),
        (LONG.with_columns(label=pl.lit(None, pl.Int64)), {}, r"'label' has no labels \(4 rows\)"),
        (LONG.with_columns(label=pl.when(judge="a").then("label")), {"reference": "b"},
         r"the judge 'b' \(column 'judge'\) has no labels \(2 rows\); check .* or drop these"),
        (pl.concat([LONG, third]), {}, r"judge 'c' \(column 'judge'\) has no labels \(2 rows\)"),
        (LONG, {"reference": "aa"}, r"no rows of the judge 'aa' \(`reference`\)"),
        (pl.concat([LONG, LONG.with_columns(pl.col("label") + 1)]), {},
         "the judge 'a' gave 2 documents different labels, e.g. {'query': 0, 'doc': "),
    ):  # fmt: skip
        with pytest.raises(pr.errors.DataError, match=message):
            agreement(rows, **options)
        lazy = pr.judges.confusion(rows.lazy(), **options)
        with pytest.raises(pr.errors.DataError):
            lazy.collect(engine="streaming")
