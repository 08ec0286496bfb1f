"""The contenders. Each is a function in three stages, divided by `yield`: import, read, compute.

The docstring of a contender, which the report prints, says what it does and which conventions
differ. NDCG uses the gain 2^label - 1; peers that only support the linear gain get it as the label,
which gives the same value and the same relevant documents.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .logs import Log

CUTOFFS = (1, 5, 10, 20, 50, 100)
FAMILIES = ("ndcg", "p", "recall")
METRICS = [f"{family}@{k}" for family in FAMILIES for k in CUTOFFS] + ["ap", "rr"]
Stages = Iterator[Any]  # None, None, {metric: mean}


Run = Callable[[Log, list[str]], Stages]


class Contender(NamedTuple):
    run: Run
    title: str  # a name, and how it computes
    package: str
    compiles: bool  # is warmed up on a small log


CONTENDERS: dict[str, Contender] = {}


def contender(title: str, package: str, *, compiles: bool = False) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        CONTENDERS[run.__name__] = Contender(run, title, package, compiles)
        return run

    return register


@contender("polars_rank", "polars_rank")
def polars_rank(log: Log, metrics: list[str]) -> Stages:
    """Default settings, streaming engine; reads while it computes."""
    import polars_rank as pr

    assert pr.evaluate and pr.scan_log and pr.metrics  # names are imported on first use
    yield
    yield
    names = own_names(metrics)
    scan = pr.scan_log(log.path, memory=log.memory)
    means = pr.evaluate(scan, names).collect(engine="streaming")
    yield dict(zip(metrics, means.select(names).row(0)))


@contender("polars_rank of pl.scan_parquet", "polars_rank")
def scan_parquet(log: Log, metrics: list[str]) -> Stages:
    """Default settings, streaming engine, of a plain scan; reads while it computes."""
    import polars as pl
    import polars_rank as pr

    assert pr.evaluate and pr.metrics
    yield
    yield
    names = own_names(metrics)
    means = pr.evaluate(pl.scan_parquet(log.path), names).collect(engine="streaming")
    yield dict(zip(metrics, means.select(names).row(0)))


@contender("polars_rank of a DataFrame", "polars_rank")
def dataframe(log: Log, metrics: list[str]) -> Stages:
    """Default settings, of a table in memory."""
    import polars as pl
    import polars_rank as pr

    assert pr.evaluate and pr.metrics
    yield
    frame = pl.read_parquet(log.path)
    yield
    names = own_names(metrics)
    yield dict(zip(metrics, pr.evaluate(frame, names).select(names).row(0)))


def own_names(metrics: list[str]) -> list[str]:
    return [name.replace("ndcg", "ndcg(gain='exp2')") for name in metrics]


@contender("Compiled loop", "numba", compiles=True)
def numba(log: Log, metrics: list[str]) -> Stages:
    """A loop over arrays on all cores, compiled by Numba: the limit. Same ties. Polars reads the
    arrays, sorts a shuffled log by query and turns string ids into numbers."""
    import numpy as np
    import polars as pl

    from .kernel import compiled

    measure = compiled()
    yield
    frame = pl.read_parquet(log.path)
    if log.layout == "shuffled":
        frame = frame.sort("query")
    if log.ids == "string":
        frame = frame.with_columns(pl.col("doc").rank("dense"))
    starts = frame["query"].ne_missing(frame["query"].shift()).arg_true().to_numpy()
    starts = np.append(starts, frame.height).astype(np.int64)
    # Writable, whether the column comes in one piece or not: for numba that is part of the type.
    columns = frame.select("score", "doc", "label")
    score, doc, label = (column.to_numpy(writable=True) for column in columns)
    yield
    cutoffs = sorted({int(name.partition("@")[2]) for name in metrics if "@" in name})
    names = [f"{family}@{k}" for family in FAMILIES for k in cutoffs] + ["ap", "rr"]
    values = np.zeros((len(starts) - 1, len(names)))
    discount = 1 / np.log2(np.arange(2, np.diff(starts).max() + 2))
    measure(starts, score, doc, label, np.array(cutoffs, np.int64), discount, values)
    means = dict(zip(names, values.mean(axis=0).tolist()))
    yield {name: means[name] for name in metrics}


@contender("DuckDB, window functions in SQL", "duckdb")
def duckdb(log: Log, metrics: list[str]) -> Stages:
    """One SQL query with window functions. Same ties; reads while it computes."""
    import duckdb as peer

    yield
    yield
    if log.memory:
        peer.execute(f"set memory_limit = '{log.memory}'")
    (row,) = peer.execute(windows(f"'{log.path}'", metrics)).fetchall()
    yield dict(zip(metrics, row))


@contender("DataFusion, window functions in SQL", "datafusion")
def datafusion(log: Log, metrics: list[str]) -> Stages:
    """The same SQL query as DuckDB. Same ties; reads while it computes."""
    import datafusion as peer

    yield
    yield
    context = peer.SessionContext()
    context.register_parquet("log", str(log.path))
    (batch,) = context.sql(windows("log", metrics)).collect()
    yield dict(zip(metrics, (column[0].as_py() for column in batch.columns)))


def windows(table: str, metrics: list[str]) -> str:
    """Return the SQL query with window functions, rank and hits in one window."""
    forms = {
        "ndcg": "sum(gain / log2(rank + 1)) filter (where rank <= {0})"
        " / nullif(sum(gain / log2(ideal_rank + 1)) filter (where ideal_rank <= {0}), 0)",
        "p": "sum(relevant) filter (where rank <= {0}) * 1e0 / {0}",
        "recall": "sum(relevant) filter (where rank <= {0}) * 1e0 / nullif(sum(relevant), 0)",
        "ap": "sum(hits * 1e0 / rank) filter (where relevant = 1) / nullif(sum(relevant), 0)",
        "rr": "max(1e0 / rank) filter (where relevant = 1)",
    }
    values = ", ".join(f'{renamed(name, forms)} as "{name}"' for name in metrics)
    means = ", ".join(f'avg(coalesce("{name}", 0))' for name in metrics)
    ranking = "partition by query order by score desc, doc desc"
    return f"""
        with log_of_gains as (
            select query, doc, score, label, (label >= 1)::int as relevant,
                pow(2, label) - 1 as gain
            from {table}
        ), ranked as (
            select query, relevant, gain,
                row_number() over ({ranking}) as rank,
                sum(relevant) over ({ranking} rows unbounded preceding) as hits,
                row_number() over (partition by query order by label desc) as ideal_rank
            from log_of_gains
        ), per_query as (select {values} from ranked group by query)
        select {means} from per_query
    """


@contender("Plain Polars, window functions", "polars")
def polars(log: Log, metrics: list[str]) -> Stages:
    """Sorts and window functions over the query, lazily, streaming engine. Same ties; reads while
    it computes."""
    import polars as pl

    yield
    yield
    relevant, gain, rank = pl.col("relevant"), pl.col("gain"), pl.col("rank")
    ideal_gain, discount = pl.col("ideal_gain"), (rank + 1).log(2)
    ranked = (
        pl.scan_parquet(log.path)
        .with_columns(relevant=pl.col("label") >= 1, gain=2.0 ** pl.col("label") - 1)
        .with_columns(
            pl.col("relevant", "gain").sort_by("score", "doc", descending=True).over("query"),
            ideal_gain=gain.sort(descending=True).over("query"),
            rank=pl.int_range(1, pl.len() + 1).over("query"),
        )
        .with_columns(hits=relevant.cum_sum().over("query"))
    )

    def value(name: str) -> pl.Expr:
        family, _, k = name.partition("@")
        match family:
            case "ndcg":
                top = rank <= int(k)
                return (gain / discount).filter(top).sum() / (
                    (ideal_gain / discount).filter(top).sum()
                )
            case "p":
                return relevant.filter(rank <= int(k)).sum() / int(k)
            case "recall":
                return relevant.filter(rank <= int(k)).sum() / relevant.sum()
            case "ap":
                return (pl.col("hits") / rank).filter(relevant).sum() / relevant.sum()
            case _:
                return (1 / rank).filter(relevant).max()

    values = ranked.group_by("query").agg(value(name).alias(name) for name in metrics)
    means = values.select(pl.col(metrics).fill_nan(0).fill_null(0).mean())
    yield means.collect(engine="streaming").row(0, named=True)


@contender("ClickHouse, arrays in SQL", "chdb")
def clickhouse(log: Log, metrics: list[str]) -> Stages:
    """One SQL query with array functions, a row per query. Same ties; reads while it
    computes."""
    import chdb as peer

    yield
    yield
    forms = {
        "ndcg": "if(ideal_dcg[least({0}, n)] > 0, dcg[least({0}, n)] / ideal_dcg[least({0}, n)], 0)",
        "p": "hits[least({0}, n)] / {0}",
        "recall": "if(R > 0, hits[least({0}, n)] / R, 0)",
        "ap": "if(R > 0, precisions / R, 0)",
        "rr": "if(first > 0, 1 / first, 0)",
    }
    means = ", ".join(f"avg({renamed(name, forms)})" for name in metrics)
    query, doc = ("String", "String") if log.ids == "string" else ("Int64", "Int32")
    answer = peer.query(f"""
        select {means} from (
            select arrayReverseSort(groupArray((score, doc, label))) as ranked,
                arrayMap(x -> x.3, ranked) as labels, length(labels) as n,
                arrayReverseSort(labels) as ideal,
                arrayMap(i -> 1 / log2(i + 1), range(1, n + 1)) as discounts,
                arrayCumSum(arrayMap((l, d) -> (exp2(l) - 1) * d, labels, discounts)) as dcg,
                arrayCumSum(arrayMap((l, d) -> (exp2(l) - 1) * d, ideal, discounts)) as ideal_dcg,
                arrayMap(l -> l > 0, labels) as relevant, arrayCumSum(relevant) as hits,
                hits[n] as R, indexOf(relevant, 1) as first,
                arraySum((h, r, i) -> if(r, h / i, 0), hits, relevant, range(1, n + 1))
                    as precisions
            from file('{log.path}', Parquet,
                'query {query}, doc {doc}, score Float32, label Int8')
            group by query)
    """, "CSV")  # fmt: skip
    yield dict(zip(metrics, map(float, str(answer).split(","))))


@contender("pandas", "pandas")
def pandas(log: Log, metrics: list[str]) -> Stages:
    """Sorts, cumulative counts and group-by sums of columns. Same ties."""
    import numpy as np
    import pandas as pd

    yield
    frame = pd.read_parquet(log.path)
    yield
    frame["gain"] = np.exp2(frame["label"]) - 1
    frame["relevant"] = (frame["label"] >= 1).astype(float)
    ideal = frame[["query", "gain"]].sort_values(["query", "gain"], ascending=[True, False])
    frame = frame.sort_values(["query", "score", "doc"], ascending=[True, False, False])
    lists = frame.groupby("query", sort=False)
    rank, hits, relevant = lists.cumcount() + 1, lists["relevant"].cumsum(), lists["relevant"].sum()
    ideal_rank = ideal.groupby("query", sort=False).cumcount() + 1
    gain, ideal_gain = frame["gain"] / np.log2(rank + 1), ideal["gain"] / np.log2(ideal_rank + 1)

    def total(term: Any, where: Any, query: Any = frame["query"]) -> Any:
        return term.where(where, 0).groupby(query, sort=False).sum()

    means = {}
    for name in metrics:
        family, _, k = name.partition("@")
        if family == "ndcg":
            ideal_dcg = total(ideal_gain, ideal_rank <= int(k), ideal["query"])
            value = total(gain, rank <= int(k)) / ideal_dcg
        elif family == "ap":
            value = total(hits / rank, frame["relevant"] > 0) / relevant
        elif family == "rr":
            value = (frame["relevant"] / rank).groupby(frame["query"], sort=False).max()
        else:
            divisor = int(k) if family == "p" else relevant
            value = total(frame["relevant"], rank <= int(k)) / divisor
        means[name] = value.fillna(0).mean()
    yield means


@contender("scikit-learn", "scikit-learn")
def sklearn(log: Log, metrics: list[str]) -> Stages:
    """NDCG only, one call per cutoff on a dense table. Tied scores share their gain."""
    import polars as pl
    from sklearn.metrics import ndcg_score

    yield
    frame = pl.read_parquet(log.path, columns=["query", "score", "label"])
    if log.layout == "shuffled":
        frame = frame.sort("query")
    frame = frame.select("score", gain=2.0 ** pl.col("label") - 1)
    score, gain = (column.to_numpy().reshape(-1, log.list_length) for column in frame)
    yield
    yield {name: float(ndcg_score(gain, score, k=k)) for name, k in only_ndcg(metrics)}


@contender("pytrec_eval", "pytrec_eval-terrier")
def pytrec_eval(log: Log, metrics: list[str]) -> Stages:
    """Dictionaries of dictionaries. Same ties. Given gains as labels."""
    import pytrec_eval as peer

    yield
    judgments, run = dictionaries(log)
    yield
    forms = {
        "ndcg": "ndcg_cut.{}",
        "p": "P.{}",
        "recall": "recall.{}",
        "ap": "map",
        "rr": "recip_rank",
    }
    asked = {name: renamed(name, forms) for name in metrics}
    values = peer.RelevanceEvaluator(judgments, set(asked.values())).evaluate(run).values()
    keys = {name: theirs.replace(".", "_") for name, theirs in asked.items()}
    yield {name: sum(value[key] for value in values) / len(values) for name, key in keys.items()}


@contender("ir_measures", "ir_measures")
def ir_measures(log: Log, metrics: list[str]) -> Stages:
    """Dictionaries of dictionaries, computed by pytrec_eval. Same ties. Given gains as labels."""
    import ir_measures as peer

    yield
    judgments, run = dictionaries(log)
    yield
    forms = {"ndcg": "nDCG@{}", "p": "P@{}", "recall": "R@{}", "ap": "AP", "rr": "RR"}
    measures = {name: peer.parse_measure(renamed(name, forms)) for name in metrics}
    means = peer.calc_aggregate(measures.values(), judgments, run)
    yield {name: means[measure] for name, measure in measures.items()}


@contender("ranx", "ranx", compiles=True)
def ranx(log: Log, metrics: list[str]) -> Stages:
    """Dictionaries of dictionaries, compiled. Given gains as labels. Tied documents in no
    defined order."""
    import ranx as peer

    yield
    judgments, scores = dictionaries(log)
    qrels, run = peer.Qrels(judgments), peer.Run(scores)
    yield
    forms = {
        "ndcg": "ndcg@{}",
        "p": "precision@{}",
        "recall": "recall@{}",
        "ap": "map",
        "rr": "mrr",
    }
    names = [renamed(name, forms) for name in metrics]
    means = peer.evaluate(qrels, run, names)
    yield dict(zip(metrics, map(float, means.values() if len(names) > 1 else [means])))


def only_ndcg(metrics: list[str]) -> list[tuple[str, int]]:
    return [(name, int(name[5:])) for name in metrics if name.startswith("ndcg@")]


def renamed(name: str, forms: dict[str, str]) -> str:
    family, _, k = name.partition("@")
    return forms[family].format(k)


def dictionaries(log: Log) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Judgments (as gains) and run the way most peers take them, built a list at a time."""
    import polars as pl

    ids = pl.col("query", "doc").cast(pl.String)
    gain = 2 ** pl.col("label").cast(pl.Int64) - 1
    frame = pl.scan_parquet(log.path).with_columns(ids, gain=gain)
    lists = frame.group_by("query").agg("doc", "gain", "score").collect(engine="streaming")
    judgments, run = {}, {}
    for query, docs, gains, scores in lists.iter_rows():
        judgments[query] = dict(zip(docs, gains))
        run[query] = dict(zip(docs, scores))
    return judgments, run


def main(name: str, log: str, warm_log: str, *metrics: str) -> dict[str, Any]:
    """Run one contender once, in this process."""
    run, _, package, compiles = CONTENDERS[name]

    def timed(log: Log) -> dict[str, Any]:
        stages = run(log, list(metrics))
        times = []
        for means in stages:
            times.append(time.perf_counter())
        return {"seconds": times[2] - times[0], "inside": times[2] - times[1], "means": means}

    try:
        if compiles:
            timed(Log(**json.loads(warm_log)))
        return timed(Log(**json.loads(log))) | {"version": importlib.metadata.version(package)}
    except ImportError as error:
        return {"problem": f"not installed: {error}; pip install --group bench {package}"}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
