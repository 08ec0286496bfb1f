"""Moments: what they add up, and that parts make the whole."""

import json
import random
import warnings

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import strategies  # noqa: F401  (sets the number of examples of hypothesis)

#: Tests of a few lists by hand.
pytestmark = pytest.mark.filterwarnings("ignore:.* intervals exceed")

#: Users of queries; some queries have none.
USER = pl.when(pl.col("query") % 5 > 0).then(pl.col("query") % 7).alias("user")
SITE = pl.when(pl.col("query") % 3 == 0).then(pl.lit("de")).otherwise(pl.lit("fr")).alias("site")
VALUES = st.one_of(st.none(), st.integers(0, 64).map(lambda n: n / 64), st.floats(0, 1))


@st.composite
def tables(draw):
    """Per-query values of two or three runs in groups, with weights, gaps and missing queries."""
    rows = []
    for query in range(draw(st.integers(0, 25))):
        group = draw(st.sampled_from(["x", "y", None]))
        weight = draw(st.sampled_from([0.0, 0.5, 1.0, 3.0]))
        for run in draw(st.sampled_from([["a", "b"], ["a", "b", "c"], ["a"], ["b"]])):
            values = draw(st.tuples(VALUES, VALUES, st.integers(0, 9)))
            rows.append((run, query, group, weight, *values))
    schema = {"run": pl.String, "query": pl.Int64, "group": pl.String, "weight": pl.Float64,
              "ap": pl.Float64, "own": pl.Float64, "num_rel": pl.Float64}  # fmt: skip
    return pl.DataFrame(rows, schema, orient="row")


def close(left, right):
    order = [name for name in ("group", "run", "metric") if name in left.columns]
    assert_frame_equal(left.sort(order), right.sort(order), rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"by": "group"},
        {"by": "group", "weight": "weight"},
        {"run": "run", "baseline": "a"},
        {"by": "group", "run": "run", "baseline": "a", "weight": "weight"},
        {"run": "run", "baseline": "a", "undefined": "skip"},
        {"cluster": "user"},
        {"by": "group", "weight": "weight", "cluster": ["user", "site"]},
        {"run": "run", "baseline": "a", "cluster": "user"},
        {"run": "run", "baseline": "a", "weight": "weight", "cluster": ["user", "site"]},
    ],
)
@pytest.mark.filterwarnings("ignore:the same clusters")
@given(lists=tables(), cuts=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_parts_make_the_whole(options, lists, cuts, seed):
    """Each query, or each cluster, is in one part; those without a user are in any part."""
    place = random.Random(seed)
    lists = lists.with_columns(USER, SITE)
    unit = "user" if "cluster" in options else "query"
    units = lists[unit].fill_null(pl.Series(-1 - lists["query"]))
    where = {each: place.randrange(cuts) for each in units.unique().sort()}
    part = pl.Series([where[each] for each in units], dtype=pl.Int64)
    parts = [pr.stats.moments(lists.filter(part == index), **options) for index in range(cuts)]
    place.shuffle(parts)
    whole = pr.stats.moments(lists, **options)
    close(pr.stats.merge(parts), whole)
    close(pr.stats.merge(pl.concat(parts).lazy()).collect(engine="streaming"), whole)
    if lists.height:
        same_statistics(pr.stats.merge(parts), lists, options)


def same_statistics(merged, lists, options):
    """Statistics of merged moments equal those of the values."""
    kept = {name: options[name] for name in ("run", "baseline", "by") if name in options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "baseline" not in options:
            assert_frame_equal(
                pr.summarize(merged, **kept), pr.summarize(lists, **options), rel_tol=1e-9,
                abs_tol=1e-9,
            )  # fmt: skip
            return
        try:
            expected = pr.compare(lists, **options)
        except pr.errors.DataError:  # there is one run
            return
        assert_frame_equal(
            pr.compare(merged, **kept), expected, rel_tol=1e-9, abs_tol=1e-9, check_row_order=False
        )


def test_by_hand():
    lists = pl.DataFrame({"query": [1, 2, 3], "rr": [1.0, 0.5, None], "w": [1.0, 2.0, 1.0]})
    plain = pr.stats.moments(lists, ["rr"]).row(0, named=True)
    assert (plain["queries"], plain["undefined"]) == (3, 1)
    assert plain["mean"] == 0.5  # (1 + 1/2 + 0) / 3
    assert plain["squares"] == pytest.approx(0.25 + 0 + 0.25)
    weighed = pr.stats.moments(lists, ["rr"], weight="w", undefined="skip").row(0, named=True)
    mean = (1 * 1 + 2 * 0.5) / 3
    assert weighed["counted"] == 2
    assert weighed["mean"] == pytest.approx(mean)
    assert weighed["squares"] == pytest.approx((1 - mean) ** 2 + 2 * (0.5 - mean) ** 2)
    assert weighed["weight_squares"] == 1 + 4
    assert weighed["deviations"] == pytest.approx((1 - mean) + 4 * (0.5 - mean))
    assert weighed["unit_squares"] == pytest.approx((1 - mean) ** 2 + 4 * (0.5 - mean) ** 2)


def test_nothing_cancels_far_from_zero():
    values = np.random.default_rng(0).random(1000) + 1e6
    lists = pl.DataFrame({"query": range(1000), "own": values})
    merged = pr.stats.merge([pr.stats.moments(part) for part in lists.iter_slices(37)])
    exact = 1000 * np.var(values - 1e6)
    assert merged["squares"].item() == pytest.approx(exact, rel=1e-9)


def test_constant_values_have_no_spread_whatever_their_weight():
    lists = pl.DataFrame({"query": range(99), "own": 0.1, "w": np.random.default_rng(0).random(99)})
    with pytest.warns(pr.errors.RankWarning, match="all values are equal in 1 row"):
        result = pr.summarize(lists, ["own"], weight="w", interval="normal").row(0, named=True)
    assert [result[name] for name in ("std", "std_error", "low")] == [0, 0, None]


def test_files(tmp_path):
    lists = pl.DataFrame({"query": range(20), "ap": np.random.default_rng(1).random(20)})
    for index, part in enumerate(lists.iter_slices(7)):
        pr.stats.write_moments(pr.stats.moments(part), tmp_path / f"{index}.parquet")
    result = pr.stats.scan_moments(tmp_path / "*.parquet").collect()
    close(result, pr.stats.moments(lists))
    about = json.loads(pl.read_parquet_metadata(tmp_path / "0.parquet")["polars_rank.moments"])
    assert about["metric"] == ["ap"]
    assert about["format"] == 6
    # A plain scan of the same files is a table to merge, too.
    close(pr.stats.merge(pl.read_parquet(tmp_path / "*.parquet")), pr.stats.moments(lists))


@pytest.mark.parametrize("source", ["", "day?.parquet", "day[12].parquet", "**/*.parquet"])
def test_files_of_a_directory_or_a_pattern(tmp_path, source):
    for day in (1, 2):
        part = pr.stats.moments(LISTS.with_columns(pl.col("query") + 10 * day))
        pr.stats.write_moments(part, tmp_path / f"day{day}.parquet")
    result = pr.stats.scan_moments(f"{tmp_path}/{source}").collect()
    assert result["queries"].to_list() == [4, 4]


def test_files_of_another_hash_are_told(tmp_path):
    """The samples of lists in two files can be compared if one function hashed their keys."""
    part = pr.stats.moments(LISTS)
    pr.stats.write_moments(part, tmp_path / "ours.parquet")
    about = json.loads(pl.read_parquet_metadata(tmp_path / "ours.parquet")["polars_rank.moments"])
    for name, hash_version in (("other", {"hash": "0"}), ("without", {})):
        text = json.dumps({**{k: v for k, v in about.items() if k != "hash"}, **hash_version})
        file = tmp_path / f"{name}.parquet"
        part.write_parquet(file, metadata={"polars_rank.moments": text})
        with pytest.warns(pr.errors.RankWarning, match=f"1 of 1 file .*{name}.* may go unnoticed"):
            result = pr.stats.scan_moments(file).collect()
        assert result["queries"].to_list() == part["queries"].to_list()
    with pytest.warns(pr.errors.RankWarning, match="2 of 3 files of moments, e.g. '.*other"):
        pr.stats.scan_moments(tmp_path)


def test_files_are_not_replaced_unasked(tmp_path):
    for write, table in (
        (pr.stats.write_moments, pr.stats.moments(LISTS)),
        (pr.stats.write_junit, pr.check(pr.summarize(LISTS), ["queries > 0"])),
        (pr.stats.write_markdown, pr.check(pr.summarize(LISTS), ["queries > 0"])),
    ):
        file = tmp_path / write.__name__
        file.write_text("mine")
        with pytest.raises(pr.errors.SourceError, match="already exists"):
            write(table, file)
        assert file.read_text() == "mine"
        write(table, file, overwrite=True)
        assert file.read_bytes() != b"mine"


def test_errors_about_damaged_moments_name_the_file(tmp_path):
    values = pl.DataFrame({"query": range(20), "ap": np.random.default_rng(1).random(20)})
    for index, part in enumerate(values.iter_slices(10)):
        pr.stats.write_moments(pr.stats.moments(part), tmp_path / f"{index}.parquet")
    damaged = tmp_path / "1.parquet"
    content = bytearray(damaged.read_bytes())
    content[4:200] = b"\xff" * 196  # the first pages; the description is at the end
    damaged.write_bytes(content)
    with pytest.raises(pr.errors.SourceError, match=r"cannot read '.*1\.parquet' as Parquet"):
        pr.stats.scan_moments(tmp_path).collect()


def test_files_that_are_none(tmp_path):
    with pytest.raises(pr.errors.SourceError, match="no file matches"):
        pr.stats.scan_moments(tmp_path / "*.parquet")
    with pytest.raises(pr.errors.SourceError, match="^file or directory .* not found"):
        pr.stats.scan_moments(tmp_path / "a.parquet")
    with pytest.raises(pr.errors.ArgumentError, match="name at least one Parquet file"):
        pr.stats.scan_moments([])
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    pl.DataFrame({"a": [1]}).write_parquet(
        tmp_path / "text.parquet", metadata={"polars_rank.moments": "{"}
    )
    with pytest.raises(pr.errors.SourceError, match=r"moments in .*text\.parquet' is damaged"):
        pr.stats.scan_moments(tmp_path / "text.parquet")
    with pytest.raises(pr.errors.SourceError, match="cut.parquet' cannot be read"):
        pr.stats.scan_moments(tmp_path / "cut.parquet")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(pr.errors.SourceError, match="has no moments"):
        pr.stats.scan_moments([tmp_path / "a.parquet"])
    pl.DataFrame({"a": [1]}).write_parquet(
        tmp_path / "b.parquet", metadata={"polars_rank.moments": '{"format": 99}'}
    )
    with pytest.raises(pr.errors.SourceError, match="format 99.*newer"):
        pr.stats.scan_moments(tmp_path / "b.parquet")
    with pytest.raises(pr.errors.SchemaError, match="has no moments"):
        pr.stats.write_moments(pl.DataFrame({"a": [1]}), tmp_path / "c.parquet")


LISTS = pl.DataFrame({"run": ["a", "a", "b", "b"], "query": [1, 2] * 2, "ap": [0.5, 1, 0.25, 1]})


def test_other_conventions_are_named():
    ours, theirs = (
        pr.stats.moments(LISTS),
        pr.stats.moments(LISTS, conventions=pr.conventions.LIGHTGBM),
    )
    with pytest.raises(
        pr.errors.DataError, match=r"different conventions.*LightGBM\(.*polars_rank\(\)"
    ):
        pr.stats.merge([ours, theirs])
    skipped = pr.stats.moments(LISTS.lazy(), undefined="skip")
    with pytest.raises(
        pr.errors.DataError, match=r"polars_rank\(undefined='skip', own='skip'|undefined"
    ):
        pr.stats.merge([ours.lazy(), skipped]).collect()


def test_conventions_by_name():
    options = {"run": "run", "baseline": "a"}
    for function, more in [
        (pr.stats.moments, {}),
        (pr.stats.moments, options),
        (pr.summarize, {"interval": "none"}),
        (pr.compare, options),
        (pr.stats.compare_all, {"run": "run"}),
        (pr.stats.power, options),
        (pr.slices, {**options, "metric": "ap", "slices": "query"}),
    ]:
        named, said = (
            function(LISTS, **more, conventions=each)
            for each in ("lightgbm", pr.conventions.LIGHTGBM)
        )
        assert_frame_equal(named, said)


@pytest.mark.parametrize("function", [pr.compare, pr.stats.power])
@pytest.mark.parametrize("word", [{"undefined": "skip"}, {"conventions": "lightgbm"}], ids=str)
def test_what_undefined_values_count_as_is_settled(function, word):
    made = pr.stats.moments(LISTS, run="run", baseline="a")
    with pytest.raises(pr.errors.ArgumentError, match="cannot be changed for moments"):
        function(made, run="run", baseline="a", **word)


@pytest.mark.parametrize(
    "key",
    [
        pl.duration(days="query"),
        pl.format("{}", "query").cast(pl.Binary) + pl.lit(b"\xff"),
        pl.concat_list("query"),
    ],
    ids=["durations", "bytes", "lists"],
)
def test_any_type_tells_lists_apart(key):
    lists = LISTS.with_columns(query=key)
    options = {"run": "run", "baseline": "a"}
    assert_frame_equal(
        pr.compare(lists, test="randomization", **options),
        pr.compare(LISTS.with_columns(pl.col("query") * 7), test="randomization", **options),
    )
    assert_frame_equal(
        pr.compare(pr.stats.moments(lists, **options), **options, test="t"),
        pr.compare(LISTS, **options, test="t"),
    )


def test_other_baselines_are_named():
    of_a, of_b = (pr.stats.moments(LISTS, run="run", baseline=name) for name in "ab")
    with pytest.raises(pr.errors.DataError, match="different baseline.*'a', 'b'"):
        pr.stats.merge([of_a, of_b])


def test_misuse_of_merge():
    with pytest.raises(pr.errors.ArgumentError, match="`tables` is empty"):
        pr.stats.merge([])
    with pytest.raises(pr.errors.SchemaError, match="has no moments"):
        pr.stats.merge(LISTS)
    with pytest.raises(pr.errors.SchemaError, match="different columns"):
        pr.stats.merge([pr.stats.moments(LISTS), pr.stats.moments(LISTS, run=None)])
    weighted, other = (
        pr.stats.moments(LISTS.with_columns(w=1.0, v=1.0), ["ap"], weight=name) for name in "wv"
    )
    with pytest.raises(pr.errors.SchemaError, match="with weights and moments without weights"):
        pr.stats.merge([weighted, pr.stats.moments(LISTS)])
    with pytest.raises(pr.errors.DataError, match="different weights cannot be merged: 'v', 'w'"):
        pr.stats.merge([weighted, other])
    clustered = pr.stats.moments(LISTS, cluster="query")
    with pytest.raises(pr.errors.SchemaError, match="with clusters and moments without clusters"):
        pr.stats.merge([clustered, pr.stats.moments(LISTS)])
    with pytest.raises(pr.errors.SchemaError, match="with a baseline and moments without"):
        pr.stats.merge([pr.stats.moments(LISTS, baseline="a"), pr.stats.moments(LISTS)])


@pytest.mark.parametrize("by", [None, "day"])
def test_ids_of_two_types_are_not_merged(by, tmp_path):
    """Equal ids of another type would count twice; the width of integers does not matter."""
    lists = LISTS.with_columns(day=1)
    parts = {
        dtype: pr.stats.moments(lists.cast({"query": dtype}), ["ap"], by=by)
        for dtype in (pl.Int64, pl.Int32, pl.String)
    }
    other = parts[pl.String]
    if by is not None:
        other = other.with_columns(day=pl.lit(2, pl.Int32))
    with pytest.raises(pr.errors.DataError, match="ids of different types .* integer, text"):
        pr.stats.merge([parts[pl.Int64], other])
    with pytest.raises(pr.errors.DataError, match="two parts"):
        pr.stats.merge([parts[pl.Int64], parts[pl.Int32]])
    for index, part in enumerate((parts[pl.Int64], other)):
        pr.stats.write_moments(part, tmp_path / f"{index}.parquet")
    with pytest.raises(pr.errors.DataError, match="ids of different types"):
        pr.stats.scan_moments(tmp_path).collect()


def test_misuse_of_moments():
    with pytest.raises(pr.errors.ArgumentError, match="`baseline` needs `run`"):
        pr.stats.moments(LISTS, run=None, baseline="a")
    with pytest.raises(
        pr.errors.DataError, match="2 rows: NaN or infinite values in the column 'ap'"
    ):
        pr.stats.moments(LISTS.with_columns(ap=pl.Series([float("nan"), 1, 0, float("inf")])))
    with pytest.raises(
        pr.errors.DataError,
        match="1 row: null, negative, NaN or infinite weights in the column 'w'",
    ):
        pr.stats.moments(LISTS.with_columns(w=pl.Series([1, -1, 1, 0])), ["ap"], weight="w")
    with pytest.raises(pr.errors.SchemaError, match="it is a log"):
        pr.stats.moments(pr.datasets.search_log(3))
    with pytest.raises(pr.errors.SchemaError, match="already has moments.*pr.stats.merge"):
        pr.stats.moments(pr.stats.moments(LISTS))
    with pytest.raises(pr.errors.SchemaError, match="column 'qid' .`query`. not found"):
        pr.stats.moments(LISTS, query="qid")
    with pytest.raises(pr.errors.ArgumentError, match="unknown preset 'lightgmb'"):
        pr.stats.moments(LISTS, conventions="lightgmb")
    with pytest.raises(pr.errors.ArgumentError, match="'run' .`by`. is the column of runs"):
        pr.stats.moments(LISTS, by="run", baseline="a")
    with pytest.raises(pr.errors.DataError, match="different weights in two runs"):
        weights = LISTS.with_columns(w=pl.Series([1, 2, 1, 3]))
        pr.stats.moments(weights, ["ap"], run="run", baseline="a", weight="w")


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_errors_are_the_same_lazily(engine):
    broken = LISTS.with_columns(ap=pl.lit(float("nan"))).lazy()
    with pytest.raises(pr.errors.DataError, match="NaN or infinite values in the column 'ap'"):
        pr.stats.moments(broken).collect(engine=engine)


def test_streams_in_flat_memory():
    plan = pr.stats.moments(LISTS.lazy()).show_graph(
        engine="streaming", plan_stage="physical", raw_output=True, show=False
    )
    assert "group-by" in plan
    assert "in-memory-map" not in plan


def test_one_table_of_any_kind_is_merged() -> None:
    lists = pl.DataFrame({"day": [1, 1, 2], "query": [1, 2, 3], "rr": [1.0, 0.5, 0.0]})
    parts = pr.stats.moments(lists, by="day")
    expected = pr.stats.merge([parts])
    for table in (parts, parts.to_arrow(), parts.to_pandas(use_pyarrow_extension_array=True)):
        assert_frame_equal(pr.stats.merge(table), expected, check_dtypes=False)
