"""Write tests/fixtures/recommenders.json: values of recommender tools, user by user, and means.

These tools need other versions of NumPy and pandas than this project. Run the script once in an
environment of each tool; it replaces the values of the tools that are installed there:

    pip install rectools==0.19.0 replay-rec==0.22.0 && python tests/conformance/write_recommenders.py
    pip install evidently==0.7.23 'pandas<3' && python tests/conformance/write_recommenders.py
    pip install lenskit==2026.4.0 && python tests/conformance/write_recommenders.py

LensKit 2026.4 needs Python 3.12.5 or later.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

FIXTURE = Path(__file__).parents[1] / "fixtures" / "recommenders.json"

#: Values by the tool's name of the metric, and by the user.
Values = dict[str, dict[str, float | None]]
#: The means that the tool reports, by its name of the metric.
Means = dict[str, float]


def log() -> dict[str, Any]:
    """Return a training log with repeated interactions, and rankings with new documents."""
    draw = random.Random(7)
    items = [f"i{number}" for number in range(30)]
    users = [f"u{number}" for number in range(20)]
    weights = [1 / (1 + place) for place in range(24)]  # the last items are new
    train = [(u, i) for u in users for i in draw.choices(items[:24], weights, k=draw.randint(2, 9))]
    return {
        "items": items,
        "category": {item: draw.randint(0, 3) for item in items[3:]},
        "train": train,
        "test": [(user, item) for user in users for item in draw.sample(items, 6)],
        "rankings": {user: draw.sample(items, draw.randint(1, 8)) for user in users},
        "baseline": {user: draw.sample(items[:12], 5) for user in users},
    }


def rectools(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with RecTools."""
    import pandas as pd
    from rectools import Columns
    from rectools.metrics import (
        AvgRecPopularity,
        IntraListDiversity,
        MeanInvUserFreq,
        PairwiseHammingDistanceCalculator,
        Serendipity,
    )

    pair = [Columns.User, Columns.Item]
    train = pd.DataFrame(data["train"], columns=pair)
    test = pd.DataFrame(data["test"], columns=pair)
    reco = pd.DataFrame(list(_ranks(data["rankings"])), columns=[*pair, Columns.Rank])
    features = pd.DataFrame({"category": data["category"]})
    distance = PairwiseHammingDistanceCalculator(features)
    metrics: dict[str, tuple[Any, ...]] = {
        "MIUF@5": (MeanInvUserFreq(5), train),
        "AvgRecPopularity@5": (AvgRecPopularity(5), train),
        "AvgRecPopularity(normalize)@5": (AvgRecPopularity(5, normalize=True), train),
        "Serendipity@5": (Serendipity(5), test, train, data["items"]),
        "IntraListDiversity@5": (IntraListDiversity(5, distance),),
    }
    values: Values = {}
    means: Means = {}
    for name, (metric, *tables) in metrics.items():
        values[name] = _by_user(metric.calc_per_user(reco, *tables))
        means[name] = float(metric.calc(reco, *tables))
    return values, means


def replay(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with RePlay."""
    import pandas as pd
    from replay.metrics import (
        CategoricalDiversity,
        Novelty,
        PerUser,
        Surprisal,
        Unexpectedness,
    )

    def scored(rankings: dict[str, list[str]]) -> pd.DataFrame:
        rows = [(user, item, -float(rank)) for user, item, rank in _ranks(rankings)]
        return pd.DataFrame(rows, columns=["query_id", "item_id", "rating"])

    train = pd.DataFrame(data["train"], columns=["query_id", "item_id"])
    recs, base = scored(data["rankings"]), scored(data["baseline"])
    categories = recs.assign(category_id=recs["item_id"].map(data["category"])).dropna()
    metrics: dict[str, tuple[Any, ...]] = {
        "Surprisal@5": (Surprisal, recs, train),
        "Novelty@5": (Novelty, recs, train),
        "Unexpectedness@5": (Unexpectedness, recs, base),
        "CategoricalDiversity@5": (CategoricalDiversity, categories),
    }
    values: Values = {}
    means: Means = {}
    for name, (metric, *tables) in metrics.items():
        values[name] = _by_user(*metric(5, mode=PerUser())(*tables).values())
        (means[name],) = map(float, metric(5)(*tables).values())
    return values, means


def evidently(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with Evidently, by the functions inside its metrics: it returns only means."""
    import pandas as pd
    from evidently.legacy.metrics.recsys.novelty import NoveltyMetric
    from evidently.legacy.metrics.recsys.popularity_bias import PopularityBias
    from evidently.legacy.pipeline.column_mapping import RecomType

    train = pd.DataFrame(data["train"], columns=["user", "item"]).drop_duplicates()
    recs = pd.DataFrame(list(_ranks(data["rankings"])), columns=["user", "item", "rank"])
    users = train.groupby("item")["user"].nunique()
    share = users / train["user"].nunique()
    novelty, mean_novelty = NoveltyMetric.get_miuf(
        None, recs, 5, RecomType.RANK, "user", "item", "rank", share
    )

    def popularity(rows: pd.DataFrame) -> float:
        return PopularityBias.get_apr(None, 5, rows, users, True, "rank", "user", "item")[0]

    found: Values = {"Novelty@5": _by_user(novelty), "ARP@5": {}}
    for user, rows in recs.groupby("user"):
        found["ARP@5"] |= _by_user({user: popularity(rows)})
    found["Gini@5"] = _by_user({"all": PopularityBias.get_gini(None, 5, recs, "rank", "item")})
    return found, {"Novelty@5": float(mean_novelty), "ARP@5": float(popularity(recs))}


def lenskit(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with LensKit; "all" has the Gini indices, which are of all users together.

    Its similarity of documents is evaluated for documents with a category only. Means are not
    evaluated.
    """
    import pandas as pd
    from lenskit.data import DatasetBuilder, ItemList
    from lenskit.metrics import (
        DCG,
        ILS,
        NDCG,
        RBP,
        ExposureGini,
        Hit,
        ListGini,
        MeanPopRank,
        Precision,
        Recall,
        RecipRank,
    )

    train = pd.DataFrame(data["train"], columns=["user_id", "item_id"]).drop_duplicates()
    builder = DatasetBuilder()
    builder.add_entities("item", data["items"])
    builder.add_interactions("view", train, entities=["user", "item"], missing="insert")
    category = pd.DataFrame(
        [(item, [str(number)]) for item, number in data["category"].items()],
        columns=["item_id", "category"],
    )
    builder.add_list_attribute("item", "category", category)
    dataset = builder.build()
    relevant: dict[str, list[str]] = {}
    for user, item in data["test"]:
        relevant.setdefault(user, []).append(item)
    of_users = {
        **{f"{each.__name__}@5": each(5)
           for each in (NDCG, DCG, Hit, Recall, Precision, RecipRank, RBP)},
        "MeanPopRank@5": MeanPopRank(dataset, n=5),
        "ILS@5": ILS(dataset, "category", n=5),
    }  # fmt: skip
    found: Values = {}
    for name, metric in of_users.items():
        found[name] = {}
        for user, ranking in data["rankings"].items():
            known = [item for item in ranking if item in data["category"] or name != "ILS@5"]
            value = metric.measure_list(ItemList(known, ordered=True), ItemList(relevant[user]))
            found[name] |= _by_user({user: value})
    for gini in (ListGini(5, items=dataset), ExposureGini(5, items=dataset)):
        together = gini.create_accumulator()
        for ranking in data["rankings"].values():
            together.add(gini.measure_list(ItemList(ranking, ordered=True), ItemList([])))
        found[f"{type(gini).__name__}@5"] = _by_user({"all": together.accumulate()})
    return found, {}


TOOLS: dict[str, tuple[str, Callable[[dict[str, Any]], tuple[Values, Means]]]] = {
    "RecTools": ("rectools", rectools),
    "RePlay": ("replay-rec", replay),
    "Evidently": ("evidently", evidently),
    "LensKit": ("lenskit", lenskit),
}


def _ranks(rankings: dict[str, list[str]]) -> Iterable[tuple[str, str, int]]:
    for user, ranking in rankings.items():
        for rank, item in enumerate(ranking, 1):
            yield user, item, rank


def _by_user(values: Any) -> dict[str, float | None]:
    known = {str(user): float(value) for user, value in dict(values).items()}
    return {user: None if value != value else value for user, value in known.items()}


def main() -> None:
    """Replace the values of the tools that are installed."""
    data = log()
    old = json.loads(FIXTURE.read_text(encoding="utf-8")) if FIXTURE.exists() else {}
    found = {"log": data, **{part: old.get(part, {}) for part in ("versions", "values", "means")}}
    for tool, (package, evaluate) in TOOLS.items():
        try:
            found["versions"][tool] = version(package)
        except PackageNotFoundError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["values"][tool], found["means"][tool] = evaluate(data)
    FIXTURE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
