"""Likely mistakes: the class of the error, and what its message says."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from calls import JUDGMENTS, LOG, ONE, VALUES, tables
from polars_rank.errors import ArgumentError, DataError, RankError, SchemaError, SourceError

BOTH = LOG.rename({"run": "system"}).drop("label").filter(doc=2)
PATTERN = ONE.with_columns(pl.lit(1).alias("x"), pl.lit(1).alias("^x$"))
SYSTEMS = ONE.with_columns(model=pl.lit("a"))
LABELED = pl.DataFrame({"query": 1, "doc": "d", "judge": ["x", "y"], "label": ["good", "bad"]})
NO_SCORE = pl.DataFrame({"query": 1, "position": [1, 2], "label": [0, 1]})
OF_LISTS = VALUES.with_columns(run=pl.concat_list("run"))
FALSELY_SORTED = ONE.reverse().lazy().set_sorted("query")
#: An own expression of text, which has no mean.
TEXT = ["rr", pl.col("country").max()]
#: The column that numbers the rankings of a scan.
RANKING = "polars_rank:ranking(query)"
BANDS = partial(pr.diagnostics.tie_bands, metrics="rr")

Rows = list[tuple[Callable[[], Any], str]]
#: Values that a parameter cannot have, and the parameter.
VALUES_OF: Rows = [
    (lambda: pr.metrics.utility(b=1e308), "b"),
    (lambda: pr.fbeta(beta=1e200), "beta"),
    (lambda: pr.metrics.set_f(beta=1e200), "beta"),
    (lambda: pr.r_precision(multiple=1e200), "multiple"),
    (lambda: pr.metrics.inst(max_grade=math.inf), "max_grade"),
    (lambda: pr.metrics.pfound(max_grade=1e-320), "max_grade"),
    (lambda: pr.metrics.sdcg(3, max_grade=1, min_grade=-math.inf), "min_grade"),
    (lambda: pr.metrics.inst(max_grade=1, T=1e200), "T"),
    (lambda: pr.metrics.insq(max_grade=1, T=1e-320), "T"),
    (lambda: pr.metrics.log_average_precision(floor=2), "floor"),
    (lambda: pr.metrics.log_bpref(floor=1e200), "floor"),
    (lambda: pr.ndcg(2**32), "k"),
    (lambda: pr.Conventions(parameters={"a": 1}), "parameters"),
    (lambda: pr.Conventions(parameters={"gain": "exp3"}), "gain"),
    (lambda: pr.Conventions(parameters={"gian": "exp2"}), "parameters"),
    (lambda: pr.Conventions(parameters={"ndcg.norm": "min"}), "'norm'"),
    (lambda: pr.Conventions(parameters={"rbp.graded": "no"}), "graded"),
    (lambda: pr.Conventions(exceptions={"ndgc": {"ties": "input"}}), "exceptions"),
    (lambda: pr.Conventions(float32_scores=2), "float32_scores"),
    (lambda: pr.conventions.TREC_EVAL.but(tie="doc"), "'tie'"),
    (lambda: pr.evaluate(ONE, "rr", conventions="lightgmb"), "conventions"),
    (lambda: pr.summarize(VALUES, query="session"), "query"),
    (lambda: pr.compare(VALUES, "rr", baseline="a", margin="2"), "margin"),
    (lambda: pr.rank_curve(ONE, "ndcg", 20), "ks"),
    (lambda: pr.scan_log(["", "log.parquet"]), "paths"),
    (lambda: pr.datasets.search_log(2**70), "queries"),
    (lambda: pr.stats.write_junit(tables()["verdicts"].clear(), "file"), "verdicts"),
    (lambda: pr.stats.write_markdown(VALUES, "file"), "verdicts"),
    # Only None means ungrouped.
    *(
        (lambda call=call, by=by: call(by=by), "by")
        for by in (0, False)
        for call in (partial(pr.rank, ONE), partial(pr.diagnostics.overlap, LOG, baseline="a"))
    ),
    # Options that a function does not pass on.
    (lambda: pr.diagnostics.tie_bands(ONE, "rr", keep="query"), "keep"),
    (lambda: pr.diagnostics.judgment_bounds(ONE, "rr", keep="query"), "keep"),
    (lambda: pr.rank_curve(ONE, "rr", [1], keep="query"), "keep"),
    (lambda: pr.grouped_auc(ONE, weight="query"), "weight"),
    (lambda: pr.explain_difference(ONE, "rr", "ranx", "sklearn", conventions=1), "conventions"),
]  # fmt: skip
ARGUMENTS: Rows = [
    (lambda: pr.rank_curve(ONE, "dcg", [2], margin=0.1), "`margin`; available: `metrics`, `ks`"),
    (lambda: pr.scan_log("log.parquet", rows=1), r"no parameter `rows`\. Did you mean `n_rows`"),
    (lambda: pr.scan_log("log.parquet", n_rows=-1), "^`n_rows` has an invalid value: -1"),
    (lambda: pr.evaluate(ONE, pr.ndcg), r"ndcg\(\)"),
    (lambda: pr.explain(["ndcg", "ap"]), "must be the name of a metric"),
    (lambda: pr.explain(pl.len()), "must be the name of a metric"),
    (lambda: pr.evaluate(ONE, pl.col("score").alias("x")), "one value per ranking"),
    (lambda: pr.ndcg(gain={"a": 1}), "finite grades"),
    (lambda: pr.metric("ndgc"), "Did you mean 'ndcg'"),
    (lambda: pr.metric("freshness"), "(?!.*Did you mean)"),
    (lambda: pr.evaluate(ONE, "rr", score="s", position="position"), "`score` and `position`"),
    (lambda: pr.evaluate(ONE, pl.col("polars_rank:position").max()), "internal columns"),
    (lambda: pr.evaluate(ONE.with_columns(queries=1), "rr", by="queries"), "has the name of a"),
    (lambda: pr.pr_curve(ONE.with_columns(hits=1), by="hits"), "`by`. has the name of a result"),
    (lambda: pr.per_query(ONE, "rr", keep="query"), "used for both `query` and `keep`"),
    (lambda: pr.evaluate(ONE, "rr", by="traffic", weight="traffic"), "both `by` and `weight`"),
    (lambda: pr.evaluate(ONE.with_columns(rr=1), "rr", weight="rr"), "`weight`. has the name of a"),
    (lambda: pr.fuse([LOG, LOG]), "pass one table: put the tables together with pl.concat"),
    (lambda: pr.compare(VALUES, baseline=["a", "b"]), "a value of .*for each of the runs"),
    (lambda: pr.compare(VALUES, baseline="a", correction="fdr_bh"), "must be True or False"),
]  # fmt: skip
SCHEMAS: Rows = [
    (lambda: pr.compare(VALUES.rename({"run": "model"})), "not found.*pass run='model'$"),
    (lambda: pr.evaluate(SYSTEMS.lazy(), "ap", by="run"), r"\(`by`\) not found.*pass run='model'$"),
    (lambda: pr.clicks.coec(pl.DataFrame({"System": ["a"]}), by="run"), "pass by='System'$"),
    (lambda: pr.evaluate(ONE, "rr", score="country"), "`score`. must be numeric; found"),
    (lambda: pr.evaluate(ONE, "rr", score=pl.lit("x")), "^`score` must be numeric; found"),
    (lambda: pr.evaluate(ONE, "intra_list_diversity@2"), r"join it: log.join\(items, "),
    (lambda: pr.evaluate(ONE, "unseen_share@2"), r"'seen' .*; or join it: log.join\(history"),
    (lambda: pr.rank(ONE.with_columns(grade=1), label="grade"), "also has a column 'label'"),
    (lambda: pr.rank(ONE.with_columns(s=1), score="s"), "also has a column 'score'"),
    *(
        (lambda call=call: call(ONE.with_columns(pl.lit(1).alias("polars_rank:rows"))), "reserved")
        for call in (partial(pr.evaluate, metrics="rr"), BANDS, pr.rank)
    ),
    *(
        (lambda call=call: call(ONE.with_columns(pl.lit(1).alias(RANKING))), "reserved; rename")
        for call in (partial(pr.evaluate, metrics="rr"), BANDS)
    ),
    (lambda: pr.summarize(VALUES.with_columns(pl.lit(1).alias("polars_rank:x"))), "reserved"),
    *(
        (lambda call=call, table=table: call(table, metrics=TEXT), "must be numeric.*String")
        for call in (pr.evaluate, pr.diagnostics.tie_bands)
        for table in (ONE, ONE.lazy())
    ),
    *(
        (lambda call=call, table=table: call(table, metrics="rr"), "pass position='position'")
        for call in (pr.evaluate, pr.per_query, pr.diagnostics.tie_bands)
        for table in (NO_SCORE, NO_SCORE.lazy())
    ),
    (lambda: pr.evaluate(NO_SCORE.cast({"position": pl.String}), "rr"), r"available: [^.]*\.$"),
    *(
        (lambda call=call, name=name: call(ONE.lazy(), pr.reciprocal_rank().alias(name)), "pattern")
        for call in (pr.evaluate, pr.per_query)
        for name in ("*", "^x$")
    ),
    (lambda: pr.scan_log("log.parquet", query="^x$"), "as a pattern"),
    (lambda: pr.evaluate(PATTERN, "rr", score=["^x$"]), "as a pattern"),
    (lambda: pr.evaluate(PATTERN, "rr", score="-^x$"), "as a pattern"),
    (lambda: pr.evaluate(PATTERN, pr.metrics.popularity(interactions="^x$")), "as a pattern"),
    (lambda: pr.join_judgments(PATTERN.drop("label"), JUDGMENTS), "as a pattern"),
    (lambda: pr.evaluate(ONE, "rr", doc="dok"), "column 'dok' .`doc`. not found"),
    (lambda: pr.compare(OF_LISTS, baseline="a"), "`run`. must have one id per row"),
    (lambda: pr.power(OF_LISTS.lazy(), baseline=["a"]), "`run`. must have one id per row"),
    (lambda: pr.judges.agreement(LABELED), r"String; .*\.replace_strict\({'no': 0"),
]  # fmt: skip
EMPTY = pl.DataFrame({"query": [1, 1], "doc": None, "score": None, "label": None})
DATA: Rows = [
    (lambda: pr.evaluate(EMPTY, "rr"), "more than once in a ranking"),
    (lambda: pr.evaluate(pl.concat([ONE, ONE]).with_columns(g=None), "rr", by="g"), "more than"),
    (lambda: pr.evaluate(ONE, "rr", score=pl.lit(math.nan)), r"^6 of 6 rows: `score` has .*e\.g"),
    (lambda: pr.evaluate(pr.join_judgments(BOTH, JUDGMENTS), "rr", by="system"), "null for judged"),
    (lambda: pr.evaluate(pl.concat([ONE, ONE]), "rr"), "columns .* with `run`, `by` or `query`"),
    (lambda: pr.evaluate(ONE.with_columns(label=1024), "err"), "too large for ERR"),
    (lambda: pr.evaluate(ONE, pr.metrics.mcc(1, size=1)), "`size` of the collection is 1"),
    (lambda: pr.evaluate(ONE, pr.fall_out(size=1)), "`size` of the collection is 1"),
    (lambda: pr.evaluate(ONE, pr.metrics.classification_accuracy(size=1)), "`size`"),
    (lambda: pr.evaluate(ONE, "rr", weight="position"), "has several values in a ranking"),
    (lambda: pr.evaluate(ONE.with_columns(w=-1), "rr", weight="w"), "finite numbers of 0 or more"),
    (lambda: pr.per_query(ONE, "rr", keep="doc"), "'doc' has several values in a ranking"),
    (lambda: pr.evaluate(FALSELY_SORTED, "rr").collect(engine="streaming"), "may not be adjacent"),
]  # fmt: skip
SOURCES: Rows = [
    (lambda: pr.scan_log("~no user/log.parquet"), "directory '~no user/log.parquet' not found"),
]  # fmt: skip
NAMES: Rows = [
    (lambda: pr.mrr, r"'mrr'; use reciprocal_rank\(\)$"),
    (lambda: ONE.ranking.mrr(), r"'mrr'; use reciprocal_rank\(\)$"),
    (lambda: pr.movers, "no attribute 'movers'; use pr.diagnostics.movers$"),
    (lambda: pr.exclude_seen, "use pr.catalog.exclude_seen$"),
    (lambda: pr.SchemaError, "use pr.errors.SchemaError$"),
    (lambda: pr.TREC_EVAL, "use pr.conventions.TREC_EVAL$"),
]  # fmt: skip
MISTAKES = {
    RankError: [
        (call, parameter if "'" in parameter else f"`{parameter}[`\\[]")
        for call, parameter in VALUES_OF
    ],
    ArgumentError: ARGUMENTS,
    SchemaError: SCHEMAS,
    DataError: DATA,
    SourceError: SOURCES,
    AttributeError: NAMES,
}


@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
@pytest.mark.parametrize("kind", MISTAKES, ids=lambda kind: kind.__name__)
def test_messages(kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PATTERN.write_parquet("log.parquet")
    wrong = []
    for number, (call, said) in enumerate(MISTAKES[kind]):
        try:
            found: object = call()
        except Exception as error:
            found = error
            if isinstance(error, kind) and re.search(said, str(error), re.DOTALL):
                continue
        wrong.append(f"{number}, {said}: {found!r}")
    assert not wrong, "\n".join(wrong)


def test_errors_have_no_internal_frames() -> None:
    broken = ONE.with_columns(score=math.nan)
    for call in (
        lambda: pr.evaluate(ONE, "ndgc"),
        lambda: pr.evaluate(broken, "ndcg"),
        lambda: pr.compare(ONE, baseline="a"),
    ):
        with pytest.raises(RankError) as caught:
            call()
        assert len(caught.traceback) <= 3


def test_a_column_of_runs_explains_duplicates() -> None:
    log = pr.datasets.search_log(5, runs=2).rename({"run": "model"})
    two = log.with_columns(run=1)
    for table, options, advice in (
        (log, {}, "pass run='model'"),
        (log, {"by": "country"}, "pass run='model'"),
        (two, {}, "pass by='model'"),
        (two, {"by": "country"}, "add 'model' to `by`"),
    ):
        said = f"more than once.*there is a column 'model': {advice}"
        with pytest.raises(DataError, match=said):
            pr.evaluate(table.collect(), "ndcg@10", **options)
        with pytest.raises(DataError, match=said):
            pr.evaluate(table, "ndcg@10", **options).collect()


def test_what_looks_like_an_id_or_a_run_is_not_passed_over() -> None:
    rows = {"query": [1, 1, 2, 2], "docid": [1, 1, 2, 3], "score": 1.0, "label": [1, 0, 1, 0]}
    ids = pl.DataFrame(rows)
    runs = ids.rename({"docid": "model"})
    for call, said in (
        (lambda: pr.evaluate(ids, "rr"), "'docid'.* pass it as `doc`"),
        (lambda: pr.evaluate(ids, "rr", doc="doc"), "'docid'.* pass it as `doc`"),
        (lambda: pr.evaluate(runs, "rr"), "'model'.* pass run='model'"),
        (lambda: pr.pr_curve(runs), "'model'.* pass run='model'"),
        (lambda: pr.pr_curve(runs.with_columns(run=1)), "'model'.* pass by='model'"),
    ):
        with pytest.warns(pr.errors.RankWarning, match=said):
            call()
    pr.evaluate(ids, "rr", doc=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.RankWarning)
        pr.evaluate(ids, "rr")
