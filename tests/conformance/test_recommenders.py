"""Values of recommender tools, user by user, from a file that `write_recommenders` writes."""

from __future__ import annotations

import json
from collections.abc import Callable

import polars as pl
import polars_rank as pr
import pytest

from .write_recommenders import FIXTURE, log

FOUND = json.loads(FIXTURE.read_text(encoding="utf-8"))
DATA = FOUND["log"]

#: The metric of accuracy for each name in each tool, under the preset of the tool.
ACCURACY: dict[tuple[str, str], str] = {
    **{
        (tool, f"{name}@5"): f"{name}@5"
        for tool, names in {
            "RecTools": ("Precision", "Recall", "F1Beta", "HitRate", "MAP", "MRR", "NDCG"),
            "RePlay": ("Precision", "Recall", "HitRate", "MAP", "MRR", "NDCG"),
            "Evidently": (
                *("PrecisionTopK", "RecallTopK", "FBetaTopK", "HitRate", "MAP", "MRR", "NDCG"),
            ),
            "LensKit": (
                *("Precision", "Recall", "Hit", "AveragePrecision", "RecipRank", "RBP", "DCG"),
                "NDCG",
            ),
        }.items()
        for name in names
    },
    ("RecTools", "Precision(r_precision)@5"): "recall_capped@5",
    ("RecTools", "F1Beta(beta=2)@5"): "F1Beta(beta=2)@5",
    ("RecTools", "NDCG(divide_by_achievable)@5"): "ndcg(ideal='judged')@5",
    ("RecTools", "Accuracy@5"): "accuracy(size=30)@5",
    ("RecTools", "MCC@5"): "mcc(size=30)@5",
    ("RePlay", "RocAuc@5"): "pair_accuracy@5",
}
#: Metrics whose values of short rankings differ, as `test_differences` shows.
DIFFERENT = {
    *(("RecTools", "Accuracy@5"), ("RecTools", "MCC@5")),
    *(("Evidently", "FBetaTopK@5"), ("RePlay", "RocAuc@5")),
}
#: The other metrics.
BEYOND_ACCURACY: dict[tuple[str, str], str | pr.Metric] = {
    ("RecTools", "MIUF@5"): "MIUF(num_users=20)@5",
    ("RecTools", "AvgRecPopularity@5"): "AvgRecPopularity@5",
    ("RecTools", "AvgRecPopularity(normalize)@5"): "popularity(interactions='interaction_share')@5",
    ("RecTools", "Serendipity@5"): "Serendipity(num_items=30)@5",
    (
        "RecTools",
        "IntraListDiversity@5",
    ): "IntraListDiversity(features='category',distance='category')@5",
    ("RePlay", "Surprisal@5"): "Surprisal@5",
    ("RePlay", "Novelty@5"): "Novelty@5",
    ("RePlay", "Unexpectedness@5"): "Unexpectedness(expected='baseline')@5",
    ("RePlay", "CategoricalDiversity@5"): (pr.metrics.category_count(5) / 5).alias(
        "CategoricalDiversity"
    ),
    ("Evidently", "Novelty@5"): "Novelty@5",
    ("Evidently", "ARP@5"): "ARP(interactions='of_largest')@5",
    ("LensKit", "MeanPopRank@5"): "popularity(interactions='quantile')@5",
    ("LensKit", "ILS@5"): 1 - pr.intra_list_diversity(5, features="category", distance="category"),
}
METRICS = {**ACCURACY, **BEYOND_ACCURACY}
RECOMMENDED = pl.col("recommended").cast(pl.Int64)
#: Gini indices of all users together: our value, and the discount of the exposure.
GINI = {
    ("LensKit", "ListGini@5"): (pl.col("gini"), None),
    ("LensKit", "ExposureGini@5"): (pl.col("gini"), lambda rank: 0.85 ** (rank - 1)),
    ("Evidently", "Gini@5"): (
        pl.col("gini_recommended") * RECOMMENDED / (RECOMMENDED - 1),
        None,
    ),
}


def rankings(name: str) -> pl.DataFrame:
    rows = [(u, i, r) for u, items in DATA[name].items() for r, i in enumerate(items, 1)]
    return pl.DataFrame(rows, ["user", "item", "position"], orient="row")


def pairs(name: str) -> pl.DataFrame:
    return pl.DataFrame(DATA[name], ["user", "item"], orient="row")


def ranked() -> pl.DataFrame:
    """Return the rankings, the relevant documents, and those of the baseline that users saw."""
    return (
        rankings("rankings")
        .join(
            pairs("test").unique().with_columns(label=1),
            on=["user", "item"],
            how="full",
            coalesce=True,
        )
        .join(
            rankings("baseline").filter(pl.col("position") <= 5).with_columns(baseline=True),
            on=["user", "item"],
            how="left",
        )
        .drop("position_right")
    )


def accuracy_log(tool: str) -> pl.DataFrame:
    """Return the rankings and grades; Evidently knows the grades of recommended documents only."""
    data = DATA["accuracy"]
    shown = [(u, i, r) for u, ranking in data["rankings"].items() for r, i in enumerate(ranking, 1)]
    grades = [
        (u, i, label) for u, labels in data["relevant"].items() for i, label in labels.items()
    ]
    return pl.DataFrame(shown, ["user", "item", "position"], orient="row").join(
        pl.DataFrame(grades, ["user", "item", "label"], orient="row"),
        on=["user", "item"],
        how="left" if tool == "Evidently" else "full",
        coalesce=True,
    )


def items() -> pl.DataFrame:
    """Return the attributes of documents, and what tools compute from them."""
    number = len(DATA["items"])
    popularity = pr.catalog.popularity(pairs("train"), query="user", doc="item").with_columns(
        of_largest=pl.col("users") / pl.col("users").max(),
        quantile=pl.col("users").rank("average") / pl.len(),
        expected=(number + 1 - pl.col("popularity_rank").cast(pl.Int64)) / number,
    )
    category = pl.DataFrame([*DATA["category"].items()], ["item", "category"], orient="row")
    return category.join(popularity, on="item", how="full", coalesce=True)


def test_the_file_is_up_to_date() -> None:
    assert json.loads(json.dumps(log())) == DATA
    assert sorted(FOUND["versions"]) == sorted({tool for tool, _ in METRICS})
    names = {(tool, name) for tool, found in FOUND["values"].items() for name in found}
    assert names == {*METRICS, *GINI}


@pytest.mark.parametrize(("tool", "name"), GINI, ids=map("-".join, GINI))
def test_gini(tool: str, name: str) -> None:
    value, discount = GINI[tool, name]
    found = pr.catalog.summary(
        rankings("rankings"), 5, items=pl.DataFrame({"item": DATA["items"]}),
        discount=discount, query="user", doc="item", position="position",
    )  # fmt: skip
    # LensKit adds exposures up in 32 bits.
    assert found.select(value).item() == pytest.approx(FOUND["values"][tool][name]["all"], rel=1e-6)


def evaluated(evaluate: Callable[..., pl.DataFrame], tool: str, name: str) -> pl.DataFrame:
    """Return the result of `evaluate` or `per_query` for a metric under the preset of its tool."""
    seen = pairs("train").select("user", "item", seen=True).unique()
    frame = (
        ranked().join(items(), on="item", how="left").join(seen, on=["user", "item"], how="left")
    )
    if name in ("CategoricalDiversity@5", "ILS@5"):  # it was given only documents with a category
        frame = frame.filter(pl.col("item").is_in(list(DATA["category"])))
    return evaluate(
        frame,
        METRICS[tool, name],
        query="user",
        doc="item",
        position="position",
        conventions=tool,
    )


@pytest.mark.parametrize(("tool", "name"), ACCURACY, ids=map("-".join, ACCURACY))
def test_accuracy(tool: str, name: str) -> None:
    options = {"query": "user", "doc": "item", "position": "position", "conventions": tool}
    log, metric = accuracy_log(tool), ACCURACY[tool, name]
    values = pr.per_query(log, metric, **options)
    ours = dict(values.drop_nulls().iter_rows())
    theirs = {user: v for user, v in FOUND["values"][tool][name].items() if v is not None}
    if (tool, name) in DIFFERENT:
        rankings = DATA["accuracy"]["rankings"]
        users = [u for u in ours.keys() & theirs.keys() if len(rankings.get(u, ())) >= 5]
        assert len(users) >= 10
        assert {u: ours[u] for u in users} == pytest.approx({u: theirs[u] for u in users}, rel=1e-9)
        return
    assert len(theirs) > 25
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    if (tool, name) != ("Evidently", "MAP@5"):
        mean = pr.evaluate(log, metric, **options).to_series(-1).item()
        assert mean == pytest.approx(FOUND["means"][tool][name], rel=1e-9)


@pytest.mark.filterwarnings("ignore:`items` has no row")
@pytest.mark.parametrize(("tool", "name"), BEYOND_ACCURACY, ids=map("-".join, BEYOND_ACCURACY))
def test_value_of_every_user(tool: str, name: str) -> None:
    ours = dict(evaluated(pr.per_query, tool, name).iter_rows())
    theirs = {user: v for user, v in FOUND["values"][tool][name].items() if v is not None}
    assert len(theirs) > 15
    assert {user: v for user, v in ours.items() if v is not None} == pytest.approx(theirs, rel=1e-9)


MEANS = [(tool, name) for tool, name in BEYOND_ACCURACY if tool != "LensKit"]


@pytest.mark.filterwarnings("ignore:`items` has no row")
@pytest.mark.parametrize(("tool", "name"), MEANS, ids=map("-".join, MEANS))
def test_mean_of_every_metric(tool: str, name: str) -> None:
    ours = evaluated(pr.evaluate, tool, name).to_series(-1).item()
    assert ours == pytest.approx(FOUND["means"][tool][name], rel=1e-9)
