"""Integrations with data in place of the tools, and the provider of ir_measures.

`peers/test_integrations.py` has the tools that need gigabytes.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import needs
import polars_rank as pr
import pytest
from recorded import retrieval

OURS = pr.integrations
#: The tests compare each of these with polars_rank by the preset, too.
MEASURES = json.loads(
    (Path(__file__).parents[1] / "conformance" / "peers.json").read_text("utf-8")
)["ir_measures"]["metrics"]
NO_GRADE = {"q": {"a": 0}}
FOUND = {"q": {"a": 1.0}}


class TestIrMeasures:
    @pytest.fixture
    def peer(self) -> Any:
        return needs.package("ir_measures", "test")

    @pytest.mark.filterwarnings("ignore")  # some queries are in the judgments or the run only
    def test_values_are_those_of_other_providers(self, peer: Any) -> None:
        log = retrieval.log()
        run = {query: dict(ranking) for query, ranking in log["rankings"].items()}
        measures, ours = [*map(peer.parse_measure, MEASURES)], OURS.ir_measures.provider()
        assert all(map(ours.supports, measures))
        found, expected = (
            {(value.measure, value.query_id): value.value for value in values}
            for values in (
                ours.iter_calc(measures, log["grades"], run),
                peer.iter_calc(measures, log["grades"], run),
            )
        )
        assert found == pytest.approx(expected, abs=1e-9)
        assert len(found) == len(measures) * len(log["grades"])
        assert ours.calc_aggregate(measures, log["grades"], run) == pytest.approx(
            peer.calc_aggregate(measures, log["grades"], run), abs=1e-9
        )

    def test_the_default_pipeline_uses_it(self, peer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        providers, rbp = peer.DefaultPipeline.providers, peer.RBP(p=0.5)
        ours = OURS.ir_measures.provider(ties="best")
        monkeypatch.setattr(peer.DefaultPipeline, "providers", [ours, *providers])
        run = {"q": {"a": 1.0, "b": 1.0}}
        for qrels in ({"q": {"a": 1, "b": 0}}, {"q": {"a": 0, "b": 1}}):
            assert peer.calc_aggregate([rbp, peer.RR], qrels, run) == {rbp: 0.5, peer.RR: 1.0}
        judgments, rows = [peer.Qrel("q", "a", 1)], [peer.ScoredDoc("q", "a", 0.5)]
        found = peer.calc([peer.P @ 2], iter(judgments), iter(rows))
        assert found.per_query == [peer.Metric("q", peer.P @ 2, 0.5)]

    def test_other_measures_are_left_to_other_providers(self, peer: Any) -> None:
        ours = OURS.ir_measures.provider()
        defined = peer.define_byquery(lambda qrels, run: 0.0, name="rr")
        for measure in (peer.alpha_nDCG @ 5, peer.StRecall @ 5, peer.AP(judged_only=True), defined):
            assert not ours.supports(measure), measure

    def test_what_does_not_count_is_nan(self, peer: Any) -> None:
        ours = OURS.ir_measures.provider(undefined="null")
        (value,) = ours.iter_calc([peer.RR], NO_GRADE, FOUND)
        assert value[:2] == ("q", peer.RR) and math.isnan(value.value)
        assert math.isnan(ours.calc_aggregate([peer.RR], NO_GRADE, FOUND)[peer.RR])

    def test_invalid_conventions(self) -> None:
        with pytest.raises(pr.errors.ArgumentError, match="ranx"):
            OURS.ir_measures.provider("rnax")


class TestMteb:
    @pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
    def test_scores(self) -> None:
        class Task:
            skip_first_result = False
            task_specific_scores = OURS.mteb.task_specific_scores(["rr", "num_rel", "auc"])

        task = Task()
        qrels = {"q": {"a": 2}, "r": {"b": 1, "c": 1}}
        results = {"q": {"b": 0.9, "a": 0.5}, "r": {"b": 0.9, "d": 0.8, "c": 0.7}}

        def scores() -> dict[str, float]:
            return task.task_specific_scores({}, qrels, results, hf_split="test", hf_subset="en")

        pairs = (0 + 1 / 2) / 2  # the AUC of each query
        assert scores() == {"rr": (1 / 2 + 1) / 2, "num_rel": 3, "auc": pairs}
        task.skip_first_result = True
        # Query "q" has no others, so that its AUC does not count.
        assert scores() == {"rr": (1 + 1 / 2) / 2, "num_rel": 3, "auc": 0}
        qrels, results = {"q": {"a": 0}}, {"q": {"b": 0.2, "c": 0.1}}
        assert scores() == {"rr": 0, "num_rel": 0}  # without the AUC, which is undefined

    def test_a_class_is_not_made_with_invalid_metrics(self) -> None:
        for metric, options, named in (
            ("ndgc@10", {}, "'ndcg@10'"),
            ("ndcg@10", {"conventions": "MTBE"}, "MTEB"),
            ("alpha_ndcg@10", {}, "subtopic"),
        ):
            with pytest.raises(pr.errors.RankError, match=named):
                OURS.mteb.task_specific_scores(metric, **options)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = ("ir_measures", "mlflow", "sentence_transformers")
    for name in [*sys.modules]:
        if name.partition(".")[0] in modules:
            monkeypatch.delitem(sys.modules, name)
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)
    calls = {
        "ir_measures": OURS.ir_measures.provider,
        "mlflow": lambda: OURS.mlflow.scorer("rr"),
        "'mlflow'": lambda: OURS.mlflow.log_metrics(pr.list_metrics()),
        "sentence_transformers": lambda: OURS.sentence_transformers.evaluator({}, {}, {}),
    }
    for name, call in calls.items():
        install = f"package .*{name}.* install it with: pip install {name.strip(chr(39))}$"
        with pytest.raises(pr.errors.MissingExtraError, match=install) as error:
            call()
        assert isinstance(error.value, ImportError)
