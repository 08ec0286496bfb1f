"""Write tests/fixtures/recommenders.json: values of recommender tools, user by user.

These tools need other versions of NumPy and pandas than this project. Run the script once in an
environment of each tool; it replaces the values of the tools that are installed there:

    pip install rectools==0.19.0 replay-rec==0.22.0 && python tests/conformance/write_recommenders.py
    pip install evidently==0.7.23 && python tests/conformance/write_recommenders.py
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

#: Values by the tool, its name of the metric, and the user.
Values = dict[str, dict[str, float | None]]


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


def rectools(data: dict[str, Any]) -> Values:
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
    return {
        name: _by_user(values)
        for name, values in {
            "MIUF@5": MeanInvUserFreq(5).calc_per_user(reco, train),
            "AvgRecPopularity@5": AvgRecPopularity(5).calc_per_user(reco, train),
            "AvgRecPopularity(normalize)@5": AvgRecPopularity(5, normalize=True).calc_per_user(
                reco, train
            ),
            "Serendipity@5": Serendipity(5).calc_per_user(reco, test, train, data["items"]),
            "IntraListDiversity@5": IntraListDiversity(5, distance).calc_per_user(reco),
        }.items()
    }


def replay(data: dict[str, Any]) -> Values:
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
    found = {
        "Surprisal@5": Surprisal(5, mode=PerUser())(recs, train),
        "Novelty@5": Novelty(5, mode=PerUser())(recs, train),
        "Unexpectedness@5": Unexpectedness(5, mode=PerUser())(recs, base),
        "CategoricalDiversity@5": CategoricalDiversity(5, mode=PerUser())(categories),
    }
    return {name: _by_user(*values.values()) for name, values in found.items()}


def evidently(data: dict[str, Any]) -> Values:
    """Evaluate with Evidently, by the functions inside its metrics: it returns only means."""
    import pandas as pd
    from evidently.legacy.metrics.recsys.novelty import NoveltyMetric
    from evidently.legacy.metrics.recsys.popularity_bias import PopularityBias
    from evidently.legacy.pipeline.column_mapping import RecomType

    train = pd.DataFrame(data["train"], columns=["user", "item"]).drop_duplicates()
    recs = pd.DataFrame(list(_ranks(data["rankings"])), columns=["user", "item", "rank"])
    users = train.groupby("item")["user"].nunique()
    share = users / train["user"].nunique()
    novelty, _ = NoveltyMetric.get_miuf(
        None, recs, 5, RecomType.RANK, "user", "item", "rank", share
    )
    found: Values = {"Novelty@5": _by_user(novelty), "ARP@5": {}}
    for user, rows in recs.groupby("user"):
        value, _ = PopularityBias.get_apr(None, 5, rows, users, True, "rank", "user", "item")
        found["ARP@5"] |= _by_user({user: value})
    return found


TOOLS: dict[str, tuple[str, Callable[[dict[str, Any]], Values]]] = {
    "RecTools": ("rectools", rectools),
    "RePlay": ("replay-rec", replay),
    "Evidently": ("evidently", evidently),
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
    old = json.loads(FIXTURE.read_text(encoding="utf-8")) if FIXTURE.exists() else {"values": {}}
    found = {"versions": old.get("versions", {}), "log": data, "values": old["values"]}
    for tool, (package, evaluate) in TOOLS.items():
        try:
            found["versions"][tool] = version(package)
        except PackageNotFoundError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["values"][tool] = evaluate(data)
    FIXTURE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
