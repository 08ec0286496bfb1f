"""Known differences between polars_rank and tools, most of them in `differences.json`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest

from tests import recorded
from tests.peers import test_differences as of_peers

from . import recorded_logs
from .differences import DIFFERENCES, check_tool, frame, is_equal, log_of, mean, number, of_group
from .recorded_logs import BY_USER, DATA, RAG, RETRIEVAL, USERS

pytestmark = pytest.mark.filterwarnings("ignore")  # from the peers


def test_means_of_presets() -> None:
    wrong = []
    for each in DIFFERENCES:
        for preset, values in each.get("values", {}).items():
            for name, expected in values.items():
                found = mean(frame(each), name, preset)
                if not is_equal(found, number(expected)):
                    wrong.append(f"{each['title']}: {name} of {preset} is {found}")
    assert not wrong, wrong


@pytest.mark.parametrize("difference", of_group("test"))
def test_tools(difference: dict[str, Any]) -> None:
    needs.package(difference["tool"]["module"], "test")
    check_tool(difference)


def test_each_difference_has_a_test() -> None:
    names = {
        each.get("test", "test_means_of_presets") for each in DIFFERENCES if "tool" not in each
    }
    assert names <= {*dir(of_peers), *globals()}


def test_pytrec_eval_ends_the_process() -> None:
    needs.package("pytrec_eval", "test")
    code = (
        "import pytrec_eval as p;"
        "p.RelevanceEvaluator({'1': {'a': -2}}, set(p.supported_measures)).evaluate({'1': {'a': 1}})"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode != 0


def test_quepid_has_no_dcg_if_a_hit_has_no_rating() -> None:
    for name in ("cg@10", "dcg@10"):
        theirs = RETRIEVAL["values"]["Quepid"][name]
        log = recorded_logs.retrieval_log("Quepid", name)
        unrated = log.filter(pl.col("score").is_not_null() & pl.col("label").is_null())["query"]
        assert {query for query, value in theirs.items() if value is None} <= {*unrated}
        ours = pr.per_query(log, name, conventions="Quepid").drop_nulls()
        assert {*unrated} & theirs.keys() <= {*ours["query"]}


def test_replay_divides_map_by_at_most_k() -> None:
    """The example of its documentation."""
    rankings = {1: [3, 7, 10, 11, 2], 2: [5, 8, 11, 1, 3], 3: [4, 9, 2]}
    relevant = {1: [5, 6, 7, 8, 9, 10], 2: [6, 7, 4, 10, 11], 3: [1, 2, 3, 4, 5]}
    log = pr.from_dicts(
        {q: {doc: -rank for rank, doc in enumerate(docs)} for q, docs in rankings.items()},
        {q: dict.fromkeys(docs, 1) for q, docs in relevant.items()},
    )
    found = pr.per_query(log, "MAP@2", conventions="replay").sort("query")
    assert found["MAP@2"].to_list() == [0.25, 0, 0.5]


def test_rectools_counts_k_documents_of_short_rankings() -> None:
    values = USERS["values"]["RecTools"]["Accuracy@5"]
    ranking, relevant = (DATA["accuracy"][key]["u8"] for key in ("rankings", "relevant"))
    assert (len(ranking), len(relevant)) == (2, 1)  # the last one is relevant
    assert values["u8"] == pytest.approx((1 + 30 - 5) / 30)
    log, metric = recorded_logs.accuracy_log("RecTools"), "accuracy(size=30)@5"
    ours = pr.per_query(log, metric, **BY_USER, conventions="rectools")
    assert ours.filter(user="u8").item(0, -1) == pytest.approx((1 + 30 - 2) / 30)


def test_replay_computes_roc_auc_of_the_first_k_documents() -> None:
    metric = pl.coalesce(pr.metrics.pair_accuracy(5), pr.hit_rate(5)).alias("RocAuc")
    log, options = recorded_logs.accuracy_log("RePlay"), {**BY_USER, "conventions": "replay"}
    ours = dict(pr.per_query(log, metric, **options).select("user", "RocAuc").iter_rows())
    theirs = USERS["values"]["RePlay"]["RocAuc@5"]
    assert {user: ours[user] for user in theirs} == pytest.approx(theirs)
    mean_of_theirs = USERS["means"]["RePlay"]["RocAuc@5"]
    assert pr.evaluate(log, metric, **options)["RocAuc"].item() == pytest.approx(mean_of_theirs)


def test_evidently_adds_a_relevant_document_again() -> None:
    log, theirs = recorded_logs.accuracy_log("Evidently"), USERS["means"]["Evidently"]
    ours = pr.evaluate(log, "MAP@5", **BY_USER, conventions="evidently")["MAP@5"].item()
    assert ours < theirs["MRR@5"] < theirs["MAP@5"]


def test_evidently_computes_f_beta_of_means() -> None:
    means = USERS["means"]["Evidently"]
    precision, recall = means["PrecisionTopK@5"], means["RecallTopK@5"]
    assert means["FBetaTopK@5"] == pytest.approx(2 * precision * recall / (precision + recall))


def test_gini_indices_of_tools() -> None:
    shown = pl.DataFrame({"query": [1, 2, 2], "doc": ["a", "a", "b"], "score": [1.0, 2.0, 1.0]})
    found = pr.catalog.summary(shown, items=pl.DataFrame({"doc": ["a", "b", "c"]}))
    # The mean absolute difference of two documents, relative to twice the mean.
    assert found["gini_recommended"].item() == pytest.approx((2 * 1 / 4) / (2 * 1.5))
    assert found["gini"].item() == pytest.approx((2 * (1 + 2 + 1) / 9) / (2 * 1))


def test_rectools_counts_documents_as_catalog_coverage() -> None:
    shown = pl.DataFrame({"query": 1, "doc": ["a", "new"], "score": [2.0, 1.0]})
    found = pr.catalog.summary(shown, items=pl.DataFrame({"doc": ["a", "b", "c", "d"]}))
    assert found.select("recommended", "unknown", "coverage").row(0) == (1, 1, 1 / 4)
    with pytest.raises(pr.errors.ArgumentError, match="'coverage' of pr.catalog.summary"):
        pr.evaluate(shown, "CatalogCoverage@10")


def agreement(ratings: list[list[int | None]]) -> dict[str, float]:
    """Return the statistics of all judges, or of two; a column of the matrix is a judge."""
    judges = [f"judge {index}" for index in range(len(ratings[0]))]
    table = pl.DataFrame(ratings, judges, orient="row").with_row_index("doc").with_columns(query=1)
    table = table.unpivot(judges, index=["query", "doc"], variable_name="judge", value_name="label")
    result = pr.judges.agreement(table, n_resamples=1)
    last = result.filter(pl.col("judge") == result["judge"][-1])
    return dict(last.select("statistic", "value").iter_rows())


def test_scikit_learn_weighs_kappa_by_places_of_grades() -> None:
    peer = needs.package("sklearn.metrics", "test")
    ratings = [[0, 1], [0, 5], [5, 5], [1, 1], [0, 0]]
    first, second = zip(*ratings, strict=True)
    places = [[{5: 2}.get(each, each) for each in row] for row in ratings]
    theirs = peer.cohen_kappa_score(first, second, weights="quadratic")
    assert theirs == pytest.approx(agreement(places)["kappa_quadratic"], abs=1e-9)
    assert theirs != pytest.approx(agreement(ratings)["kappa_quadratic"], abs=0.01)


def test_irrcac_differs() -> None:
    case = recorded.read("irrcac")[3]
    ours, theirs = agreement(case["ratings"]), case["others"]
    assert ours["agreement"] == pytest.approx(theirs["agreement"], abs=1e-9)
    for name in ("ac2_quadratic", "alpha_ordinal"):
        assert ours[name] != pytest.approx(theirs[name], abs=1e-3)


def test_queries_without_documents() -> None:
    """LlamaIndex rejects them, and MLflow counts them as 1."""
    names, log = ["recall", "recall_at_3", "ndcg_at_3"], recorded_logs.rag_log()
    ours = pr.per_query(log, names, duplicates="max")
    theirs = RAG["values"]["LlamaIndex"]["recall"]
    rejected = [own for own, value in zip(ours["recall"], theirs, strict=True) if value is None]
    assert set(rejected) == {0}
    empty = [i for i, each in enumerate(RAG["log"]) if not any(each.values())]
    assert empty
    rows = ours.filter(pl.col("query").is_in(empty)).select(names).rows()
    assert rows == [(0, 0, 0)] * len(empty)
    of_mlflow = RAG["values"]["MLflow"]
    assert {of_mlflow[name][query] for name in names[1:] for query in empty} == {1}


def test_elasticsearch_can_ignore_unrated_hits() -> None:
    log = log_of([[1, 3.0, None], [1, 2.0, 1], [1, 1.0, 0], [1, 0.5, 1]])
    pair = pr.precision(3, depth="retrieved"), pr.judged(3, depth="retrieved")
    own = pr.evaluate(log, (pair[0] / pair[1]).alias("precision"))["precision"].item()
    assert own == 1 / 2
    assert pr.evaluate(log, pair[0], unjudged="removed").item(0, 1) == 2 / 3
