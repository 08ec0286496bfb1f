"""Tables of every library in every function."""

from __future__ import annotations

import re
import subprocess
import sys
import types
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import duckdb
import pandas as pd
import polars as pl
import polars_rank as pr
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

# The reserved prefix.
from polars_rank._params import OWN
from strategies import SCHEMA, assert_close, log_of, random_lists, shuffled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The tables are small, and some functions warn about small samples.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(below 5|below 30|fewer than 50 pairs|intervals are unreliable|the interval is unknown|all .* are equal|more than 5%|judged queries is in no run):polars_rank.errors.RankWarning"
)

METRICS = ["ndcg@10", "rr"]
PLAIN = log_of(random_lists(seed=61, queries=40)).select(*SCHEMA).sort("query")
LOG = pl.concat(
    PLAIN.with_columns(
        run=pl.lit(run),
        score=pl.col("score") * sign + pl.col("doc") / 8,
        site=(pl.col("query") % 3).cast(pl.Utf8),
    )
    for run, sign in (("a", 1), ("b", -1))
)
ONE = LOG.filter(run="a")
LISTS = pr.per_query(LOG, METRICS, by="run", keep="site")
ARRAYS = pl.DataFrame({"query": [1, 2], "shown": [["a", "b"], ["c"]], "bought": [["b"], ["d"]]})
SHOWN = pr.datasets.search_log(12, runs=6, seed=4).collect()
SHOWN = SHOWN.rename({"run": "session"}).drop("label")
PAIRED: dict[str, Any] = {"run": "run", "baseline": "a"}


class Bare:
    """A table with only an Arrow C stream, which can be read several times."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def arrow(table: pl.DataFrame) -> pa.Table:
    return table.to_arrow(compat_level=pl.CompatLevel.oldest())


def frame_of_pandas(table: pl.DataFrame) -> pd.DataFrame:
    return arrow(table).to_pandas(types_mapper=pd.ArrowDtype)


KINDS: dict[str, Callable[[pl.DataFrame], Any]] = {
    "Table": arrow,
    "RecordBatch": lambda table: arrow(table).combine_chunks().to_batches()[0],
    "RecordBatchReader": lambda table: arrow(table).to_reader(max_chunksize=100),
    "Dataset": lambda table: pyarrow.dataset.dataset(arrow(table)),
    "Scanner": lambda table: pyarrow.dataset.dataset(arrow(table)).scanner(),
    "pandas": frame_of_pandas,
    "DuckDB": lambda table: duckdb.connect().from_arrow(arrow(table)),
    "stream": lambda table: Bare(arrow(table)),
    "Polars": lambda table: table,
}


@cache
def summary() -> pl.DataFrame:
    return pr.summarize(LISTS)


def written(write: Callable[..., None], table: Any, folder: Path, **options: Any) -> pl.DataFrame:
    path = folder / "out"
    path.unlink(missing_ok=True)
    write(table, path, **options)
    return pl.DataFrame({"bytes": [path.read_bytes()]})


def reported(table: Any, folder: Path) -> pl.DataFrame:
    with mock.patch("vl_convert.javascript_bundle", return_value=""):  # which takes seconds
        page = pr.report(table, "rr", run=None, path=folder / "report.html", overwrite=True)
    (verdict,) = re.findall(r'<p class="verdict">(.*?)</p>', page.read_text("utf-8"))
    return pl.DataFrame({"verdict": [verdict]})


CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "evaluate": lambda m, _: pr.evaluate(m(LOG), METRICS, by="run"),
    "per_query": lambda m, _: pr.per_query(m(LOG), METRICS, by="run", keep="site"),
    "rank": lambda m, _: pr.rank(m(ONE)),
    "tie_bands": lambda m, _: pr.diagnostics.tie_bands(m(ONE), METRICS),
    "judgment_bounds": lambda m, _: pr.diagnostics.judgment_bounds(m(ONE), METRICS),
    "grouped_auc": lambda m, _: pr.grouped_auc(m(ONE)),
    "answerability": lambda m, _: pr.diagnostics.answerability(m(ONE), "rr", rel=2),
    "headroom": lambda m, _: pr.diagnostics.headroom(m(ONE), METRICS),
    "stages": lambda m, _: pr.diagnostics.stages(m(LOG), "rr", run=None, stage="run", order=[*"ab"]),
    "fidelity": lambda m, _: pr.diagnostics.fidelity(m(ONE), m(ONE), 1, run=None),
    "movers": lambda m, _: pr.diagnostics.movers(m(LOG), "rr", baseline="a"),
    "robustness": lambda m, _: pr.diagnostics.robustness(m(LOG), "rr", baseline="a"),
    "overlap of runs": lambda m, _: pr.diagnostics.overlap(m(LOG), baseline="a"),
    "pr_curve": lambda m, _: pr.pr_curve(m(ONE)),
    "collapse": lambda m, _: pr.collapse(m(ONE), doc="doc"),
    "fuse": lambda m, _: pr.fuse(m(LOG), keep_runs=True),
    "tune_fusion": lambda m, _: pr.tune_fusion(m(LOG), "rr", step=0.5, folds=2),
    "rank_curve": lambda m, _: pr.rank_curve(m(ONE), "rr", [1, 2]),
    "overlap": lambda m, _: pr.diagnostics.overlap(m(ONE), m(LOG.filter(run="b")), "rbo"),
    "explain_difference":
        lambda m, _: pr.explain_difference(m(ONE), "ndcg@5", "polars_rank", "lightgbm"),
    "identify": lambda m, _: pr.identify(m(ONE), "ndcg@5", "0.5"),
    "join_judgments": lambda m, _: pr.join_judgments(
        m(ONE.drop_nulls("score").drop("label")), m(PLAIN.drop_nulls("label").drop("score"))
    ).sort("query", "doc"),
    "join_spans": lambda m, _: pr.join_spans(
        m(CHUNKS), m(CHUNKS.head(20).drop("score"))
    ).with_columns(pl.col("doc").struct.field("doc")),
    "from_lists": lambda m, _: pr.from_lists(m(ARRAYS), retrieved="shown", relevant="bought"),
    "summarize": lambda m, _: pr.summarize(m(LISTS)),
    "compare": lambda m, _: pr.compare(m(LISTS), **PAIRED),
    "leaderboard": lambda m, _: pr.leaderboard(m(LISTS), metrics="rr"),
    "power": lambda m, _: pr.power(m(LISTS), **PAIRED, difference=0.1),
    "write_qrels": lambda m, folder: written(
        pr.trec.write_qrels, m(ONE.filter(pl.col("label") >= 0).select("query", "doc", "label")),
        folder,
    ),
    "write_run": lambda m, folder: written(
        pr.trec.write_run, m(ONE.drop_nulls("score").select("query", "doc", "score")), folder,
        tag="a",
    ),
    "check": lambda m, _: pr.check(m(summary()), ["mean(rr) >= 0"]),
    "write_junit": lambda m, folder: written(pr.stats.write_junit, m(checked()), folder),
    "write_markdown": lambda m, folder: written(pr.stats.write_markdown, m(checked()), folder),
    "report": lambda m, folder: reported(m(ONE), folder),
    "click_through_rates":
        lambda m, _: pr.clicks.click_through_rates(m(SHOWN)).sort("query", "doc"),
    "coec": lambda m, _: pr.clicks.coec(m(SHOWN)).sort("query", "doc"),
    "labels": lambda m, _: pr.clicks.labels(m(SHOWN)),
}  # fmt: skip
CHUNKS = ONE.drop_nulls("score").select("query", "doc", "score", start=0, end=10)


def checked() -> pl.DataFrame:
    return pr.check(summary(), ["mean(rr) >= 0"])


#: Functions without a table as input.
OTHERS = {*(
    "explain from_arrays from_dicts metric define_metric flat gate list_metrics mapping referee "
    "at_least jarvelin log exp2 linear log2 reciprocal scan_log scan_judgments scan_run"
).split()}  # fmt: skip


def test_no_public_function_is_left_out() -> None:
    modules = [pr, pr.clicks, pr.diagnostics, pr.stats, pr.trec]
    functions = {
        name
        for module in modules
        for name in dir(module)
        if isinstance(getattr(module, name), types.FunctionType) and name not in pr.metrics.__all__
    }
    assert functions - OTHERS == {name.partition(" ")[0] for name in CALLS}


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("wanted")
    return {name: call(KINDS["Polars"], folder) for name, call in CALLS.items()}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("evaluate", kind) for kind in KINDS if kind != "Polars"),
        # All functions read tables in the same way; this kind can be read only once.
        *((name, "RecordBatchReader") for name in CALLS if name != "evaluate"),
    ],
)
def test_every_function_takes_any_kind_of_table(
    name: str, kind: str, wanted: dict[str, Any], tmp_path: Path
) -> None:
    found = CALLS[name](KINDS[kind], tmp_path)
    assert isinstance(found, pl.DataFrame)
    assert not [column for column in found.columns if column.startswith(OWN)]
    assert_frame_equal(found, wanted[name], rel_tol=1e-9)


def test_what_is_no_table() -> None:
    for table in (
        pd.Series([1]), pl.Series([1]), pa.array([1]), pa.chunked_array([[1]]), [1], None,
        pd.Index([1]), 3.5,
    ):  # fmt: skip
        kind = type(table).__name__
        said = f"^`frame` must be a table; found {kind}; pass a Polars LazyFrame"
        with pytest.raises(pr.errors.ArgumentError, match=said):
            pr.evaluate(table, "rr")


def test_a_path_is_no_table() -> None:
    for function, path, reader in (
        (pr.evaluate, "log.parquet", "pr.scan_log('log.parquet')"),
        (pr.evaluate, Path("logs"), "pr.scan_log('logs')"),
        (pr.summarize, "log.csv", "pl.scan_csv('log.csv')"),
        (pr.diagnostics.tie_bands, Path("bm25.run"), "pr.scan_run('bm25.run')"),
    ):
        with pytest.raises(pr.errors.ArgumentError, match=f"pass {re.escape(reader)}$"):
            function(path, "rr")


def test_datasets_of_files(tmp_path: Path) -> None:
    table = arrow(PLAIN)
    half = len(table) // 2
    for kind in ("parquet", "feather", "csv"):
        for index, part in enumerate((table.slice(0, half), table.slice(half))):
            pyarrow.dataset.write_dataset(part, tmp_path / kind / str(index), format=kind)
        files = sorted(str(path) for path in (tmp_path / kind).glob("*/*"))
        found = pr.evaluate(pyarrow.dataset.dataset(files, format=kind), METRICS)
        assert_close(found, pr.evaluate(PLAIN, METRICS))


def test_a_stream_that_was_read_before_is_not_taken_for_an_empty_log() -> None:
    reader = arrow(PLAIN).to_reader(max_chunksize=100)
    pr.evaluate(reader, "rr")
    with pytest.warns(pr.errors.RankWarning, match="so check that it was not read"):
        assert pr.evaluate(reader, "rr")["queries"].item() == 0


def test_a_stream_of_no_rows_is_said_to_be_one() -> None:
    reader = arrow(PLAIN.clear()).to_reader()
    with pytest.warns(pr.errors.RankWarning, match="has no rows; it can be read only once"):
        assert pr.evaluate(reader, "rr")["queries"].item() == 0
    relation = duckdb.connect().from_arrow(arrow(PLAIN.clear()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pr.evaluate(relation, "rr")["queries"].item() == 0


def test_invalid_rows_are_counted() -> None:
    bad = PLAIN.with_columns(
        score=pl.when(pl.int_range(pl.len()) == 200).then(float("nan")).otherwise("score")
    )
    for kind in ("RecordBatchReader", "DuckDB", "Dataset"):
        with pytest.raises(pr.errors.DataError, match="1 of .* rows: .* NaN or inf"):
            pr.evaluate(KINDS[kind](bad), "rr")


def test_an_engine_that_fails_on_the_way() -> None:
    connection = duckdb.connect()
    failing = connection.sql(
        "select i // 10 as query, i % 10 as doc, 1.0 as score, "
        "case when i < 20000 then '1' else 'no number' end::int as label from range(40000) t(i)"
    )
    with pytest.raises(pr.errors.SourceError, match="engine failed to read .*Could not convert"):
        pr.evaluate(failing, "rr")
    # The connection is available again.
    assert connection.sql("select 1").fetchall() == [(1,)]


def test_the_connection_is_free_after_any_error() -> None:
    connection = duckdb.connect()
    relation = connection.from_arrow(arrow(PLAIN.with_columns(label=-1.5, score=float("nan"))))
    for call in (
        lambda: pr.evaluate(relation, "rr"),
        lambda: pr.evaluate(relation, "rr", query="none"),
        lambda: pr.evaluate(relation, "nothing"),
        lambda: pr.per_query(relation, "rr", by="query"),
    ):
        with pytest.raises(pr.errors.RankError):
            call()
        assert connection.sql("select 1").fetchall() == [(1,)]


ONE_ROW = {"query": [1], "score": [1.0], "label": [1]}
UNREADABLE: list[tuple[Any, str]] = [
    # Values of several types, complex numbers, and runs.
    (pd.DataFrame({**ONE_ROW, "x": [[1, "a"]]}), r"does not support column 'x' \(object\)"),
    (pd.DataFrame({**ONE_ROW, "x": [1j]}), r"column 'x' \(complex128\)"),
    (pa.table({**ONE_ROW, "x": pa.compute.run_end_encode(pa.array([1]))}), "column 'x' "),
    (pd.DataFrame([[1, 2]], columns=["query", "query"]), "duplicate column 'query'; drop"),
    (pa.table([[1], [2]], names=["query", "query"]), "duplicate column 'query'; drop"),
    (pa.table([[1], [2]], names=["query", "query"]).to_reader(), "duplicate column 'query'; drop"),
    (duckdb.connect().sql("select 1 as query, interval 1 day as wait"),
     "does not support column 'wait' .*cast it"),
    (duckdb.connect().sql("select 1 as query, union_value(a := 1) as either"),
     "'either' .*cast it"),
]  # fmt: skip


def test_tables_that_polars_cannot_hold() -> None:
    for table, said in UNREADABLE:
        with pytest.raises(pr.errors.SchemaError, match=said):
            pr.evaluate(table, "rr")


def test_keys_of_duckdb_types() -> None:
    names = ", ".join(f"'q{number}'" for number in PLAIN["query"].unique().sort())
    connection, expected = duckdb.connect(), pr.evaluate(PLAIN, METRICS)
    connection.register("log", arrow(PLAIN))
    for query in (
        "query::varchar", "query::hugeint", "query::decimal(12, 2)", "{'a': query}",
        f"('q' || query)::enum({names})", "date '2020-01-01' + query::int",
        "timestamp '2020-01-01' + to_seconds(query)",
    ):  # fmt: skip
        relation = connection.sql(
            f"select {query} as query, doc, score, label from log order by log.query"
        )
        assert_close(pr.evaluate(relation, METRICS), expected)


def test_maps_are_no_ids(tmp_path: Path) -> None:
    maps = pa.array([[("a", 1)], [("b", 1)]], pa.map_(pa.string(), pa.int32()))
    table = pa.table({"query": maps, "score": [1.0, 2.0], "label": [1, 0]})
    with pytest.raises(
        pr.errors.SchemaError, match=r"one id per row; found Map.*use a column of ids"
    ):
        pr.evaluate(table, "rr")
    pl.DataFrame(table).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(pr.errors.SchemaError, match=r"one id per row; found"):
        pr.scan_log(tmp_path / "log.parquet")
