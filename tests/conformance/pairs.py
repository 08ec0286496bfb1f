"""The metrics of each peer, from `peers.json`, and what differs between them and polars_rank.

In the file, `metrics` are names of the peer that `pr.metric` accepts with the preset, and `renamed`
has the others with their names in polars_rank. The page examples/guide/peers.md is generated from it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import polars_rank as pr

# The names of metrics of trec_eval.
from polars_rank.metrics.aliases import SETS
from polars_rank.metrics.names import read

from . import peers
from .logs import LOGS, REAL, SHARED


@dataclass(frozen=True)
class Peer:
    """A tool, the preset that reproduces it, and its metrics: names here by those of the tool.

    `name` may have a part in parentheses; `group` is that of the dependencies with `module`. Metrics
    are compared on `logs`, some families `only` on other logs, up to `tolerance`, which is more than
    1e-9 if the tool computes in 32 bits or prints few digits. `values` and `means` are functions that
    evaluate a log with the tool, `part` returns what it averages without a failure, and families
    that are `different` have another mean, which is a known difference.
    """

    name: str
    conventions: pr.Conventions
    module: str
    pairs: dict[str, str]
    values: Callable[..., peers.Values]
    logs: list[str]
    group: str = "conformance"
    only: dict[str, list[str]] = field(default_factory=dict)
    tolerance: float = 1e-9
    means: Callable[..., peers.Means] | None = None
    part: Callable[[pl.DataFrame], pl.DataFrame] = lambda log: log
    different: tuple[str, ...] = ()

    def ours(self, name: str) -> pr.Metric:
        """Return the metric for a name in the tool."""
        return read(self.pairs[name], self.conventions.name)

    def on(self, log: str) -> list[str]:
        """Return the names of the metrics to compare on a log."""
        return [name for name in self.pairs if log in self.only.get(family(name), self.logs)]

    def wrong(self) -> list[str]:
        """Return the values and means on all logs that are not those of the tool."""
        logs = [log for log in LOGS if self.on(log) and (log not in REAL or SHARED.is_dir())]
        return [each for log in logs for each in (*self.wrong_values(log), *self.wrong_means(log))]

    def wrong_values(self, log: str) -> list[str]:
        """Return the values of rankings that are not those of the tool."""
        frame, names, wrong = LOGS[log](), self.on(log), []
        expected = self.values(frame, names)
        metrics = [self.ours(name).alias(name) for name in names]
        found = pr.per_query(frame, metrics, conventions=self.conventions)
        for name in names:
            ours, theirs = dict(found.select("query", name).iter_rows()), expected[name]
            if len(theirs) <= 2 or not theirs.keys() <= ours.keys():
                wrong.append(f"{log}, {name}: values of the queries {[*theirs]}")
            for query in theirs.keys() & ours.keys():
                if not self.agrees(ours[query], theirs[query]):
                    values = f"{ours[query]}, not {theirs[query]}"
                    wrong.append(f"{log}, {name}, query {query}: {values}")
        return wrong

    def wrong_means(self, log: str) -> list[str]:
        """Return the means that are not those that the tool reports."""
        names = [name for name in self.on(log) if family(name) not in self.different]
        if self.means is None or not names:
            return []
        frame = self.part(LOGS[log]())
        expected = self.means(frame, names)
        metrics = [self.ours(name).alias(name) for name in expected]
        found = pr.evaluate(frame, metrics, conventions=self.conventions).row(0, named=True)
        wrong = [
            f"{log}, mean of {name}: {found[name]}, not {mean}"
            for name, mean in expected.items()
            if not self.agrees(found[name], mean)
        ]
        return wrong if expected else [f"{log}: no means"]

    def agrees(self, own: float | None, value: float) -> bool:
        """Return whether numbers agree; null is NaN."""
        own = math.nan if own is None else own
        return abs(own - value) <= self.tolerance * max(1, abs(value)) or own != own != value


def family(name: str) -> str:
    """Return a name without parameters and cutoff."""
    return name.partition("(")[0].partition("@")[0].partition(":")[0]


def _read(name: str, fields: dict) -> Peer:
    names = SETS["all_trec"] if fields.get("metrics") == "all_trec" else fields.get("metrics", ())
    pairs = {**{each: each for each in names}, **fields.pop("renamed", {})}
    conventions = getattr(pr.conventions, fields.pop("preset"))
    functions = {
        key: getattr(peers, fields[key]) for key in {"values", "means", "part"} & {*fields}
    }
    fields.pop("metrics", None)
    return Peer(name, conventions, pairs=pairs, **fields | functions)


_FILE = Path(__file__).with_name("peers.json")
PEERS = [_read(*each) for each in json.loads(_FILE.read_text(encoding="utf-8")).items()]
