"""Integrations with sentence-transformers, MTEB and MLflow; see also `integrations`."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest

# The tools issue many warnings of their own.
pytestmark = pytest.mark.filterwarnings("ignore")
OURS = pr.integrations
WORDS = [f"w{number}" for number in range(30)]


def embedding(seed: int = 0) -> Any:
    """Return a model whose embeddings are sums of small whole numbers, so that scores have ties."""
    package = needs.package("sentence_transformers", "conformance")
    import numpy as np
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.random.default_rng(seed).integers(-2, 3, (30, 4)).astype("float32")
    layer = StaticEmbedding(tokenizer, embedding_weights=weights)
    return package.SentenceTransformer(modules=[layer], device="cpu")


def texts(seed: int = 1, *, of: type = str) -> tuple[dict[Any, Any], ...]:
    """Return queries, a corpus and relevant documents; ids are text or numbers."""
    draw = random.Random(seed)

    def some(prefix: str, number: int) -> dict[Any, str]:
        keys = (f"{prefix}{each}" if of is str else each for each in range(number))
        return {key: " ".join(draw.choices(WORDS, k=draw.randint(1, 2))) for key in keys}

    queries, corpus = some("q", 30), some("d", 200)
    missing = "nowhere" if of is str else -1
    relevant = {
        query: {*draw.sample([*corpus, missing], draw.choice((1, 3, 120)))} for query in queries
    }
    first, second, *_ = queries
    relevant[first] = set()
    del relevant[second]
    return queries, corpus, relevant


class TestSentenceTransformers:
    @pytest.mark.parametrize("of", [str, int])
    def test_values_are_those_of_the_original(self, of: type, tmp_path: Path) -> None:
        model, data = embedding(), texts(of=of)
        from sentence_transformers.sentence_transformer.evaluation import (
            InformationRetrievalEvaluator,
        )

        functions = {"dot": lambda a, b: a @ b.T, "negative": lambda a, b: -(a @ b.T)}
        options = {
            "name": "dev", "write_predictions": True, "corpus_chunk_size": 70,
            "score_functions": functions, "ndcg_at_k": [3, 10], "main_score_function": "dot",
        }  # fmt: skip
        theirs = InformationRetrievalEvaluator(*data, **options)
        ours = OURS.sentence_transformers.evaluator(
            *data, metrics=["rbp", "ndcg@3", (pr.recall(100) == 1).alias("all")], **options
        )
        expected = theirs(model, str(tmp_path / "theirs"))
        for _ in range(2):  # the second call replaces the values of the first
            found = ours(model, str(tmp_path / "ours"))
        new = {key: found.pop(key) for key in [*found] if key not in expected}
        assert found == pytest.approx(expected, abs=1e-9)
        added = ("rbp", "all")
        assert {*new} == {f"dev_{run}_{name}" for run in functions for name in added}
        assert ours.primary_metric == theirs.primary_metric == "dev_dot_ndcg@10"
        assert (ours.name, ours.description) == (theirs.name, theirs.description)
        header, *rows = (tmp_path / "ours" / ours.csv_file).read_text().splitlines()
        assert header.split(",") == theirs.csv_headers and len(rows) == 2

        values = ours.per_query
        assert values.height == 2 * 28 and values["run"].unique().sort().to_list() == [*functions]
        for row in values.drop("query").group_by("run").mean().iter_rows(named=True):
            assert new[f"dev_{row['run']}_rbp"] == pytest.approx(row["rbp"])
            assert found[f"dev_{row['run']}_map@100"] == pytest.approx(row["map@100"])

        file = tmp_path / "ours" / "Information-Retrieval_evaluation_dev_predictions_dot.jsonl"
        run = pr.scan_run(file).collect()
        judgments = [(query, doc, 1) for query, docs in data[2].items() for doc in docs]
        table = pl.DataFrame(judgments, ["query", "doc", "label"], orient="row")
        log = pr.join_judgments(run, table.cast({"query": pl.String, "doc": pl.String}))
        means = pr.evaluate(log, ["ndcg@10", "map@100"], conventions="sentence-transformers")
        for name in ("ndcg@10", "map@100"):
            is_equal = math.isclose(means[name][0], found[f"dev_dot_{name}"], abs_tol=1e-9)
            assert is_equal or of is int  # tied numbers are in another order as text

    @pytest.mark.filterwarnings("error::polars_rank.errors.RankWarning")
    def test_queries_without_relevant_documents_are_named(self) -> None:
        needs.package("sentence_transformers", "conformance")
        queries, corpus = {"q1": "w1", "q2": "w2"}, {"d": "w1"}
        evaluator = OURS.sentence_transformers.evaluator
        assert evaluator(queries, corpus, {"q1": ["d"], "q2": ["d"]}).left_out == ""
        said = "queries without relevant documents are left out: 1 of 2, e.g. 'q2'"
        with pytest.warns(pr.errors.RankWarning, match=f"^{said}$"):
            assert evaluator(queries, corpus, {"q1": ["d"]}).left_out == said
        with pytest.raises(pr.errors.ArgumentError, match="`relevant_docs` has none of `queries`"):
            evaluator(queries, corpus, {1: ["d"]})

    def test_metrics_and_conventions(self) -> None:
        model, evaluator = embedding(), OURS.sentence_transformers.evaluator
        data = {"q": "w1"}, {"a": "w2", "b": "w2", "c": "w2"}, {"q": {"a"}}
        # All documents are tied.
        for ties, rank in (("best", 1), ("worst", 3), ("doc", 3), ("doc_ascending", 1)):
            ours = evaluator(*data, metrics="rr", conventions={"ties": ties})
            found = ours(model)
            assert found["cosine_rr"] == found["cosine_mrr@10"] == 1 / rank
            assert (ours.per_query["rr"].item(), ours.primary_metric) == (
                1 / rank,
                "cosine_ndcg@10",
            )
        for options, message in (
            ({"metrics": "ndgc"}, "'ndcg'"),
            ({"metrics": "recall@200"}, "'recall@200', but the evaluator retrieves 100 documents"),
            ({"metrics": "alpha_ndcg"}, "subtopic"),
            ({"conventions": {"ties": "no"}}, "`ties`"),
        ):
            with pytest.raises(pr.errors.RankError, match=message):
                evaluator(*data, **options)
        assert (
            evaluator(*data, metrics="recall@200", map_at_k=[200])(model)["cosine_recall@200"] == 1
        )

    def test_a_trainer_selects_models_by_a_metric(self, tmp_path: Path) -> None:
        model, data = embedding(), texts()
        import sentence_transformers as peer
        from datasets import Dataset
        from sentence_transformers.sentence_transformer.losses import (
            MultipleNegativesRankingLoss,
        )

        evaluator = OURS.sentence_transformers.evaluator(*data, metrics="rbp", name="dev")
        settings = peer.SentenceTransformerTrainingArguments(
            str(tmp_path), num_train_epochs=2, learning_rate=1.0, eval_strategy="epoch",
            save_strategy="epoch", load_best_model_at_end=True, report_to="none", use_cpu=True,
            metric_for_best_model="eval_dev_cosine_rbp", disable_tqdm=True,
        )  # fmt: skip
        queries, corpus, relevant = data
        pairs = [(queries[query], corpus[min(docs)]) for query, docs in relevant.items() if docs]
        trainer = peer.SentenceTransformerTrainer(
            model, settings, evaluator=evaluator, loss=MultipleNegativesRankingLoss(model),
            train_dataset=Dataset.from_list([{"query": a, "doc": b} for a, b in pairs]),
        )  # fmt: skip
        trainer.train()
        history = [each.get("eval_dev_cosine_rbp") for each in trainer.state.log_history]
        seen = [each for each in history if each is not None]
        assert len(seen) == 2 and trainer.state.best_metric == max(seen)
        assert evaluator(model)["dev_cosine_rbp"] == pytest.approx(max(seen))


def test_mteb_adds_scores() -> None:
    mteb = needs.package("mteb", "conformance")
    model, (queries, corpus, relevant) = embedding(), texts()
    from mteb.abstasks import AbsTaskRetrieval

    names = {"ndcg@10": "ndcg_at_10", "map@10": "map_at_10", "mrr@10": "mrr_at_10"}
    names |= {"recall@10": "recall_at_10", "precision@5": "precision_at_5", "rbp": None}

    class Words(AbsTaskRetrieval):
        metadata = mteb.get_task("SciFact").metadata.model_copy(
            update={"name": "Words", "main_score": "rbp"}
        )
        task_specific_scores = OURS.mteb.task_specific_scores([*names])

        def load_data(self, **_: Any) -> None:
            self.queries, self.corpus = {"test": queries}, {"test": corpus}
            qrels = {query: dict.fromkeys(docs, 1) for query, docs in relevant.items()}
            self.relevant_docs, self.data_loaded = {"test": qrels}, True

    for skips in (False, True):
        Words.skip_first_result = skips
        (scores,) = mteb.evaluate(model, Words(), cache=None)[0].scores["test"]
        for ours, theirs in names.items():
            if theirs != "mrr_at_10" or not skips:  # MTEB's MRR counts the first result
                expected = scores["main_score" if theirs is None else theirs]
                assert scores[ours] == pytest.approx(expected, abs=6e-6), ours  # of five digits


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    package = needs.package("mlflow", "conformance")
    monkeypatch.chdir(tmp_path)
    package.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    yield package
    package.set_tracking_uri(None)


def traced(mlflow: Any, results: Any, *, span: str = "search") -> Any:
    """Return the trace of a program that retrieves documents, or fails if there are none."""

    @mlflow.trace(span_type="RETRIEVER", name=span)
    def search(text: str) -> list[Any]:
        if results is None:
            raise OSError("no index")
        return results

    @mlflow.trace
    def answer(text: str) -> str:
        search(text)
        return "yes"

    with contextlib.suppress(OSError):
        answer("?")
    mlflow.flush_trace_async_logging()
    return mlflow.get_trace(mlflow.get_last_active_trace_id())


class TestMlflow:
    def test_an_evaluation_has_means(self, mlflow: Any) -> None:
        found = {"1": ["a", "b"], "2": ["b", "x", 7], "3": []}
        relevant = {"1": ["a"], "2": {"a": 2, "7": 1}, "3": ["a"]}

        @mlflow.trace(span_type="RETRIEVER")
        def search(text: str) -> list[Any]:
            return [mlflow.entities.Document("text", id=doc) for doc in found[text]]

        with contextlib.redirect_stdout(None):
            result = mlflow.genai.evaluate(
                [{"inputs": {"text": q}, "expectations": {"gold": relevant[q]}} for q in found],
                scorers=[OURS.mlflow.scorer(["ndcg@3", "rr"], relevant="gold")],
                predict_fn=search,
            )
        second = (1 / 2) / (2 + 1 / math.log2(3))
        assert result.metrics == pytest.approx(
            {"ndcg_at_3/mean": (1 + second) / 3, "rr/mean": (1 + 1 / 3) / 3}
        )

    def test_scores_of_a_trace(self, mlflow: Any) -> None:
        chunks = [{"page_content": "", "metadata": {"doc_uri": uri}} for uri in ("b", "a", "a")]
        trace, scorer = traced(mlflow, chunks), OURS.mlflow.scorer
        once = scorer(["rr", "tau_b"], duplicates="first", span="search")
        (feedback,) = once(trace=trace, expectations={"relevant": {"a"}})  # tau_b is undefined
        assert (feedback.name, feedback.value, feedback.rationale) == ("rr", 1 / 2, None)
        for options, expectations, message in (
            ({}, {"relevant": ["a"]}, "duplicates"),
            ({"span": "rerank"}, {"relevant": ["a"]}, r"0 retriever spans \(`span`: 'rerank'\)"),
            ({}, {"relevant": "a"}, "expectation 'relevant' .* found 'a'"),
            ({}, {"gold": ["a"]}, "expectation 'relevant' .* found None"),
        ):
            with pytest.raises(pr.errors.DataError, match=message):
                scorer("rr", **options)(trace=trace, expectations=expectations)
        for results, message in (
            ([{"page_content": ""}], "a retrieved document has no id"),
            ({"documents": ["a"]}, "the span has no list of documents; found"),
            (None, "the retriever failed: "),
        ):
            with pytest.raises(pr.errors.DataError, match=message):
                scorer("rr")(trace=traced(mlflow, results), expectations={"relevant": ["a"]})
        with pytest.raises(pr.errors.ArgumentError, match="'ndcg'"):
            scorer("ndgc")

    def test_numbers_of_a_result_are_logged(self, mlflow: Any) -> None:
        log = pr.datasets.search_log(50, runs=["a", "b"], seed=1)
        comparison = pr.compare(pr.per_query(log, "ndcg@10"), baseline="a")
        with mlflow.start_run() as run:
            OURS.mlflow.log_metrics(comparison, step=3)
        found = mlflow.get_run(run.info.run_id).data.metrics
        assert found == pytest.approx(pr.flat(comparison, safe=True))
        (point,) = mlflow.MlflowClient().get_metric_history(run.info.run_id, "b/ndcg_at_10")
        assert point.step == 3
