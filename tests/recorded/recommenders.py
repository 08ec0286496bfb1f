"""Values of recommender tools, user by user, and means."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from . import Means, Tools, Values, by_key


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
        "accuracy": accuracy_log(items),
    }


def accuracy_log(items: list[str]) -> dict[str, Any]:
    """Return rankings of users, and the grades of their relevant documents.

    Some users have no ranking, some no relevant document; some rankings are short.
    """
    draw = random.Random(11)
    users = [f"u{number}" for number in range(40)]
    rankings = {user: draw.sample(items, draw.randint(1, 12)) for user in users[4:]}
    relevant = {}
    for user in users[:-4]:
        likely = [*items, *rankings.get(user, ()), *rankings.get(user, ())]
        some = sorted({draw.choice(likely) for _ in range(draw.choice((1, 2, 4, 9)))})
        relevant[user] = {item: draw.randint(1, 3) for item in some}
    for user in users[4:10]:  # only the last document is relevant
        relevant[user] = {rankings[user][-1]: 1}
    for user in users[10:14]:  # a perfect ranking
        relevant[user] = dict.fromkeys(rankings[user][:7], 2)
    return {"rankings": rankings, "relevant": relevant}


def rectools(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with RecTools."""
    import pandas as pd
    from rectools import Columns
    from rectools import metrics as m

    pair = [Columns.User, Columns.Item]
    train = pd.DataFrame(data["train"], columns=pair)
    test = pd.DataFrame(data["test"], columns=pair)
    reco = pd.DataFrame(list(_ranks(data["rankings"])), columns=[*pair, Columns.Rank])
    features = pd.DataFrame({"category": data["category"]})
    distance = m.PairwiseHammingDistanceCalculator(features)
    metrics: dict[str, tuple[Any, ...]] = {
        "MIUF@5": (m.MeanInvUserFreq(5), train),
        "AvgRecPopularity@5": (m.AvgRecPopularity(5), train),
        "AvgRecPopularity(normalize)@5": (m.AvgRecPopularity(5, normalize=True), train),
        "Serendipity@5": (m.Serendipity(5), test, train, data["items"]),
        "IntraListDiversity@5": (m.IntraListDiversity(5, distance),),
    }
    metrics = {name: (metric, reco, *tables) for name, (metric, *tables) in metrics.items()}
    accuracy = data["accuracy"]
    shown = pd.DataFrame(list(_ranks(accuracy["rankings"])), columns=[*pair, Columns.Rank])
    seen = pd.DataFrame(_pairs(accuracy["relevant"]), columns=pair)
    metrics |= {
        f"{metric.__name__}@5": (metric(5), shown, seen)
        for metric in (m.Precision, m.Recall, m.F1Beta, m.HitRate, m.MAP, m.MRR, m.NDCG)
    }
    metrics |= {
        "Precision(r_precision)@5": (m.Precision(5, r_precision=True), shown, seen),
        "F1Beta(beta=2)@5": (m.F1Beta(5, beta=2), shown, seen),
        "NDCG(divide_by_achievable)@5": (m.NDCG(5, divide_by_achievable=True), shown, seen),
        "Accuracy@5": (m.Accuracy(5), shown, seen, data["items"]),
        "MCC@5": (m.MCC(5), shown, seen, data["items"]),
    }
    values: Values = {}
    means: Means = {}
    for name, (metric, *tables) in metrics.items():
        values[name] = by_key(metric.calc_per_user(*tables))
        means[name] = float(metric.calc(*tables))
    return values, means


def replay(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with RePlay."""
    import pandas as pd
    from replay import metrics as m

    def scored(rankings: dict[str, list[str]]) -> pd.DataFrame:
        rows = [(user, item, -float(rank)) for user, item, rank in _ranks(rankings)]
        return pd.DataFrame(rows, columns=["query_id", "item_id", "rating"])

    train = pd.DataFrame(data["train"], columns=["query_id", "item_id"])
    recs, base = scored(data["rankings"]), scored(data["baseline"])
    categories = recs.assign(category_id=recs["item_id"].map(data["category"])).dropna()
    metrics: dict[str, tuple[Any, ...]] = {
        "Surprisal@5": (m.Surprisal, recs, train),
        "Novelty@5": (m.Novelty, recs, train),
        "Unexpectedness@5": (m.Unexpectedness, recs, base),
        "CategoricalDiversity@5": (m.CategoricalDiversity, categories),
    }
    accuracy = data["accuracy"]
    shown = scored(accuracy["rankings"])
    seen = pd.DataFrame(_pairs(accuracy["relevant"]), columns=["query_id", "item_id"])
    metrics |= {
        f"{metric.__name__}@5": (metric, shown, seen)
        for metric in (m.HitRate, m.MAP, m.MRR, m.NDCG, m.Precision, m.Recall, m.RocAuc)
    }
    values: Values = {}
    means: Means = {}
    for name, (metric, *tables) in metrics.items():
        values[name] = by_key(*metric(5, mode=m.PerUser())(*tables).values())
        (means[name],) = map(float, metric(5)(*tables).values())
    return values, means


def evidently(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with Evidently, by the functions inside its metrics: it returns only means."""
    import pandas as pd
    from evidently.legacy.calculations.recommender_systems import collect_dataset
    from evidently.legacy.metrics.recsys.f_beta_top_k import FBetaTopKMetric
    from evidently.legacy.metrics.recsys.hit_rate_k import HitRateKMetric
    from evidently.legacy.metrics.recsys.mrr import MRRKMetric
    from evidently.legacy.metrics.recsys.ndcg_k import NDCGKMetric
    from evidently.legacy.metrics.recsys.novelty import NoveltyMetric
    from evidently.legacy.metrics.recsys.popularity_bias import PopularityBias
    from evidently.legacy.metrics.recsys.precision_recall_k import PrecisionRecallCalculation
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

    found: Values = {"Novelty@5": by_key(novelty), "ARP@5": {}}
    for user, rows in recs.groupby("user"):
        found["ARP@5"] |= by_key({user: popularity(rows)})
    found["Gini@5"] = by_key({"all": PopularityBias.get_gini(None, 5, recs, "rank", "item")})
    means = {"Novelty@5": float(mean_novelty), "ARP@5": float(popularity(recs))}

    accuracy = data["accuracy"]
    shown = pd.DataFrame(list(_ranks(accuracy["rankings"])), columns=["user", "item", "rank"])
    grades = [
        accuracy["relevant"].get(u, {}).get(i, 0) for u, i in zip(shown["user"], shown["item"])
    ]

    def accuracies(rows: pd.DataFrame) -> Means:
        """Return the means over users, for whom Evidently has a row per recommended document."""

        def read(*, binary: bool, all_users: bool) -> pd.DataFrame:
            columns = rows["user"], rows["grade"], rows["rank"]
            return collect_dataset(*columns, RecomType.RANK, None, all_users, binary)

        table = read(binary=True, all_users=False)
        counts = PrecisionRecallCalculation.get_precision_and_recall_dict(
            None, read(binary=True, all_users=True), 5
        )
        last = {name: each[-1] for name, each in counts.items()}
        f_beta = FBetaTopKMetric(5).fbeta([last["precision"]], [last["recall"]])
        return {
            "PrecisionTopK@5": last["precision"],
            "RecallTopK@5": last["recall"],
            "FBetaTopK@5": f_beta[0],
            "MAP@5": last["map"],
            "HitRate@5": HitRateKMetric.get_values(None, table, 5).iloc[-1],
            "MRR@5": MRRKMetric.get_values(None, table, 5).iloc[-1],
            "NDCG@5": NDCGKMetric.calculate_ndcg(None, read(binary=False, all_users=False), 5)
            .loc[: min(5, rows["rank"].max())]
            .iloc[-1],
        }

    shown = shown.assign(grade=grades)
    means |= accuracies(shown)
    for user, rows in shown.groupby("user"):
        if rows["grade"].any():
            for name, value in accuracies(rows).items():
                found.setdefault(name, {}).update(by_key({user: value}))
    return found, {name: float(mean) for name, mean in means.items()}


def lenskit(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with LensKit; "all" has the Gini indices, which are of all users together.

    Its similarity of documents is evaluated for documents with a category only. Means are those of
    accuracy.
    """
    import pandas as pd
    from lenskit.data import DatasetBuilder, ItemList
    from lenskit import metrics as m
    from lenskit.metrics.ranking import AveragePrecision

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
        "MeanPopRank@5": m.MeanPopRank(dataset, n=5),
        "ILS@5": m.ILS(dataset, "category", n=5),
    }
    found: Values = {}
    for name, metric in of_users.items():
        found[name] = {}
        for user, ranking in data["rankings"].items():
            known = [item for item in ranking if item in data["category"] or name != "ILS@5"]
            value = metric.measure_list(ItemList(known, ordered=True), ItemList(relevant[user]))
            found[name] |= by_key({user: value})
    accuracy = data["accuracy"]
    users = sorted({*accuracy["rankings"], *accuracy["relevant"]})
    means: Means = {}
    for metric in (
        m.NDCG,
        m.DCG,
        m.Hit,
        m.Recall,
        m.Precision,
        m.RecipRank,
        m.RBP,
        AveragePrecision,
    ):
        name, together = f"{metric.__name__}@5", metric(5).create_accumulator()
        found[name] = {}
        # Without a relevant document, AP is an error, 0 divided by 0.
        for user in users if metric is not AveragePrecision else accuracy["relevant"]:
            shown = ItemList(accuracy["rankings"].get(user, []), ordered=True)
            seen = ItemList([*accuracy["relevant"].get(user, ())])
            value = metric(5).measure_list(shown, seen)
            together.add(value)
            found[name] |= by_key({user: value})
        means[name] = float(together.accumulate()["mean"])
    for gini in (m.ListGini(5, items=dataset), m.ExposureGini(5, items=dataset)):
        together = gini.create_accumulator()
        for ranking in data["rankings"].values():
            together.add(gini.measure_list(ItemList(ranking, ordered=True), ItemList([])))
        found[f"{type(gini).__name__}@5"] = by_key({"all": together.accumulate()})
    return found, means


TOOLS: Tools = {
    "RecTools": ("rectools", rectools),
    "RePlay": ("replay-rec", replay),
    "Evidently": ("evidently", evidently),
    "LensKit": ("lenskit", lenskit),
}


def _ranks(rankings: dict[str, list[str]]) -> Iterable[tuple[str, str, int]]:
    for user, ranking in rankings.items():
        for rank, item in enumerate(ranking, 1):
            yield user, item, rank


def _pairs(relevant: dict[str, dict[str, int]]) -> list[tuple[str, str]]:
    return [(user, item) for user, items in relevant.items() for item in items]
