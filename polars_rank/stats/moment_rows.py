"""Rows of results from tables of moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, SchemaError
from polars_rank.frames.tables import collected, schema_of
from polars_rank.metrics.names import listed, lower_is_better, output_name
from polars_rank.stats._arrays import Array, numpy
from polars_rank.stats.families import Bonferroni, Family, root
from polars_rank.stats.groups import Facts, coded
from polars_rank.stats.kernel import ONE_UNIT, PAIR, Moments
from polars_rank.stats.moment_tables import COUNTS, FACTS, Shape
from polars_rank.stats.rows import Key, Rows, rows_of_pairs, rows_of_runs
from polars_rank.stats.value_columns import Variable, check_run, unknown_run
from polars_rank.stats.values import Values

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics


#: With fewer sampled tasks, there are no intervals of ranks.
FEW_TASKS = 10


@dataclass(frozen=True)
class _Source:
    """Moments of a table, from which rows of results follow."""

    table: pl.LazyFrame
    shape: Shape
    by: tuple[str, ...]
    metrics: tuple[str, ...]
    baseline: Any = None
    is_pairs: bool = False

    @property
    def types(self) -> pl.Schema:
        """The types of the columns."""
        return self.shape.schema

    @property
    def run(self) -> str | None:
        """The column of runs."""
        return self.shape.run

    @property
    def is_weighted(self) -> bool:
        """Whether there are weights or clusters."""
        return self.shape.is_weighted

    @property
    def lower_is_better(self) -> dict[str, bool]:
        """Whether a lower mean is better, by metric."""
        return {name: lower_is_better(name) for name in self.metrics}

    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, Facts]]:
        """Return the rows of runs and of pairs in the groups of `by`, and the facts of metrics."""
        table = collected(self.table)
        table = self.shape.added(table, self.by, pooled={*self.by} < {*self.shape.by})
        is_pair = pl.lit(value=False) if self.run is None else pl.col("baseline").is_not_null()
        facts = {name: _facts(table, name) for name in self.metrics}
        return table.filter(~is_pair), table.filter(is_pair), facts

    def rows(self) -> Rows:
        """Return the rows of runs, or of pairs of runs."""
        own, pairs, facts = self.tables()
        return self._pairs(own, pairs, facts) if self.is_pairs else self._runs(own, facts)

    def _runs(self, own: pl.DataFrame, facts: Mapping[str, Facts]) -> Rows:
        rows = Rows()
        for name in self.metrics:
            for row in own.iter_rows(named=True):
                run = None if self.run is None else row[self.run]
                self._add(rows, row, name, facts[name], Key(self._group(row), name, run))
        return _grouped(rows)

    def boards(self, population: str) -> Iterator[tuple[Rows, Rows, Context]]:
        """Yield the rows of runs and of pairs of each metric, over all tasks."""
        own, pairs, facts = self.tables()
        if not pairs.height:
            raise _no_pairs(str(self.run))
        tasks = own.select(self.by).n_unique() if self.by else None
        if tasks is not None:
            number = own.group_by(self.by).len()
            if number.get_column("len").n_unique() > 1:
                lacking = number.sort("len", *self.by).drop("len").row(0, named=True)
                raise DataError(
                    f"a task lacks some runs: {lacking}; evaluate all runs on all tasks"
                )
        whole = replace(self, by=())
        for name in self.metrics:
            context = Context(weighted=self.is_weighted or bool(self.by), tasks=tasks)
            if tasks is not None and population == "tasks":
                context.has_ranks = tasks >= FEW_TASKS
                runs = own.get_column(str(self.run)).n_unique()
                context.queries = int(own.get_column("queries").sum()) // runs
                task = pl.struct(self.by).rank("dense").alias(OWN + "task")
                values = own.select(task, self.run, pl.col(name).struct.field("md").alias(name))
                source = Values(
                    [Variable(name, self.lower_is_better[name])], (), self.run,
                    (OWN + "task",), table=values.lazy(),
                )  # fmt: skip
                yield rows_of_runs(source), rows_of_pairs(source, every=True), context
                continue
            of_metric = replace(whole, metrics=(name,))
            tables = own, pairs
            if tasks is not None:
                tables = self._over_tasks(own, name), self._over_tasks(pairs, name)
                facts = {**facts, name: Facts(is_binary=False, range=facts[name].range)}
            yield of_metric._runs(tables[0], facts), of_metric._pairs(*tables, facts), context

    def _over_tasks(self, table: pl.DataFrame, name: str) -> pl.DataFrame:
        """Return the moments of the means of task means, with queries as a sample of their task.

        A query of a task with n queries has the weight 1 / n, and deviates from the mean of its
        task, by √(n / (n - 1)) more than in the sample.
        """
        np = numpy()
        fields = table.get_column(name).struct
        parts = {f: fields.field(f).fill_null(float("nan")).to_numpy().copy() for f in PAIR.fields}
        keys = [str(self.run), "baseline"]
        codes, groups = coded(table, keys)
        n = Moments(parts).effective()
        share = np.where(parts["Ww"] > 0, 1 / parts["Ww"], 0.0)
        spread = np.where(n > ONE_UNIT, np.sqrt(n / (n - 1)), 1.0)
        for field in PAIR.products:
            parts[field] *= share ** len(field) * spread ** sum(x in PAIR.weight_of for x in field)
        for x, y in PAIR.rows:
            parts["r" + x + y] *= share * spread**2
        parts["Ww"] = (parts["Ww"] > 0).astype(float)
        sums = PAIR.merged(parts, codes, len(groups))
        means = {"m" + x: sums["m" + x] for x in PAIR.weight_of}
        for field, mean in means.items():  # tasks are given, so their means do not vary
            parts[field] = mean[codes]
        sums = PAIR.merged(parts, codes, len(groups))
        scale = dict(zip(zip(codes, self._tasks(table), strict=True), share * spread, strict=True))
        runs = {key[0]: code for code, key in enumerate(groups) if key[1] is None}
        rows: list[dict[str, Any]] = []
        for code, key in enumerate(groups):
            row: dict[str, Any] = dict(zip(keys, key, strict=True))
            of_group = table.filter(pl.Series(codes == code))
            row |= {each: of_group.get_column(each).sum() for each in ("queries", "empty")}
            cross: dict[Any, float] = {}
            for task, struct in zip(self._tasks(of_group), of_group.get_column(name), strict=True):
                for other in struct["cross"]:
                    factor = scale[code, task] * scale.get((runs.get(other["run"]), task), 0.0)
                    cross[other["run"]] = cross.get(other["run"], 0.0) + factor * other["yy"]
            struct = {field: float(each[code]) for field, each in sums.items()}
            fields = of_group.get_column(name).struct
            struct |= {each: fields.field(each).sum() for each in COUNTS}
            struct["cross"] = [{"run": run, "yy": yy} for run, yy in cross.items()]
            row[name] = struct
            rows.append(row)
        types = {key: table.schema[key] for key in keys}
        return pl.DataFrame(rows, schema_overrides=types)

    def _tasks(self, table: pl.DataFrame) -> list[tuple[Any, ...]]:
        return table.select(self.by).rows()

    def _group(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.by)

    def _add(
        self, rows: Rows, row: Mapping[str, Any], name: str, facts: Facts, key: Key,
        *, turned: bool = False, missing: int = 0,
    ) -> None:  # fmt: skip
        struct = dict(row[name])
        wins, losses = struct["wins"], struct["losses"]
        sums = {field: float(struct[field]) for field in PAIR.fields}
        if turned:
            wins, losses, sums = losses, wins, _turned(sums)
        rows.keys.append(key)
        rows.sums.append(sums)
        rows.facts.append(facts)
        rows.counts.append(
            {"queries": row["queries"], "empty": row["empty"], "undefined": struct["undefined"],
             "wins": wins, "losses": losses, "ties": struct["ties"], "missing": missing}
        )  # fmt: skip

    def _pairs(self, own: pl.DataFrame, pairs: pl.DataFrame, facts: Mapping[str, Facts]) -> Rows:
        run = str(self.run)
        queries = {(self._group(row), row[run]): row for row in own.iter_rows(named=True)}
        runs = own.get_column(run).unique().sort().to_list()
        if not pairs.height:
            raise _no_pairs(run)
        if self.baseline is not None and self.baseline not in runs:
            raise unknown_run(run, runs, "baseline", self.baseline)
        rows = Rows()
        for name in self.metrics:
            for row in pairs.iter_rows(named=True):
                first, second, turned = row[run], row["baseline"], False
                if self.baseline is not None:
                    if self.baseline not in (first, second):
                        continue
                    turned = second != self.baseline
                    first, second = (second, first) if turned else (first, second)
                group = self._group(row)
                either = (queries[group, each]["queries"] for each in (first, second))
                key = Key(group, name, first, second)
                missing = sum(either) - 2 * row["queries"]
                of_run = {**row, "empty": queries[group, first]["empty"]}
                self._add(rows, of_run, name, facts[name], key, turned=turned, missing=missing)
        if not rows.keys:
            raise DataError(
                f"the moments have no pairs with the baseline {self.baseline!r}; compute them with "
                "this `baseline`, or without one for all pairs"
            )
        rows = _grouped(rows)
        return self._with_families(rows, queries)

    def _with_families(self, rows: Rows, own: Mapping[Any, Mapping[str, Any]]) -> Rows:
        """Return the rows with a family for each group and metric, corrected for all metrics."""
        members: dict[tuple[Any, str], list[int]] = {}
        for place, key in enumerate(rows.keys):
            members.setdefault((key.group, key.metric), []).append(place)
        for (group, metric), places in members.items():
            keys = [rows.keys[place] for place in places]
            runs = sorted({each for key in keys for each in (key.run, key.baseline)}, key=str)
            rows.families.append(
                (
                    places,
                    _family(
                        keys,
                        runs,
                        {run: own[group, run][metric] for run in runs},
                        len(self.metrics),
                    ),
                )
            )
        return rows


def _family(keys: Sequence[Key], runs: Sequence[Any], own: Mapping[Any, Any], times: int) -> Any:
    """Return how to get the family of some pairs from the products of runs."""
    np = numpy()
    products = np.zeros((len(runs), len(runs)))
    for i, run in enumerate(runs):
        of_run = {each["run"]: each["yy"] for each in own[run]["cross"]}
        for j, other in enumerate(runs):
            weights = own[run]["Ww"] * own[other]["Ww"]
            products[i, j] = of_run.get(other, 0.0) / weights if weights else 0.0

    def family(tested: Array) -> Family:
        if not products.any():
            return Bonferroni(int(tested.sum()) * times)
        scale = np.abs(products).max()
        factor = root(products / scale)
        chosen = [key for key, is_tested in zip(keys, tested, strict=True) if is_tested]
        first = [runs.index(key.run) for key in chosen]
        second = [runs.index(key.baseline) for key in chosen]
        return Family(factor[:, first] - factor[:, second], times)

    return family


def _no_pairs(run: str) -> DataError:
    return DataError(
        "the moments have no pairs of runs; compute them of the values of several runs, with the "
        f"column of the runs, {run!r}, and the columns of the query"
    )


class Context:
    """Counts of the queries and tasks of a leaderboard, and whether its units have weights."""

    def __init__(
        self, *, weighted: bool, queries: int | None = None, missing: int = 0,
        tasks: int | None = None, has_ranks: bool = True,
    ) -> None:  # fmt: skip
        self.weighted = weighted
        self.queries = queries
        self.missing = missing
        self.tasks = tasks
        self.has_ranks = has_ranks


def _turned(sums: Mapping[str, float]) -> dict[str, float]:
    """Return the moments of a pair with the runs exchanged: d becomes -d, and x the other run."""
    turned = dict(sums)
    for name in sums:
        letters = name.removeprefix("r")
        if name[0] not in "nuWm" and letters.count("x") == 0 and letters.count("d") % 2:
            turned[name] = -sums[name]
    turned["md"], turned["mx"] = -sums["md"], sums["mx"] - sums["md"]
    # x - d is the value of the other run.
    for prefix in ("", "r"):
        dd, dx, xx = (sums[prefix + name] for name in ("dd", "dx", "xx"))
        turned[prefix + "dx"] = -(dx - dd)
        turned[prefix + "xx"] = xx - 2 * dx + dd
    turned["xw"] = sums["xw"] - sums["dw"]
    return turned


def _grouped(rows: Rows) -> Rows:
    """Return rows in the order of groups, and then as they are."""
    groups = list(dict.fromkeys(key.group for key in rows.keys))
    order = sorted(range(len(rows.keys)), key=lambda place: groups.index(rows.keys[place].group))
    return Rows(
        keys=[rows.keys[place] for place in order],
        sums=[rows.sums[place] for place in order],
        counts=[rows.counts[place] for place in order],
        facts=[rows.facts[place] for place in order],
    )


def _facts(table: pl.DataFrame, name: str) -> Facts:
    fields = table.get_column(name).struct
    low, high, between = (fields.field(each) for each in FACTS)
    return Facts.of(low.min(), high.max(), between.sum())  # type: ignore[arg-type]


def run_rows(values: pl.LazyFrame, metrics: Metrics | None, **given: Any) -> _Source:
    """Return the moments of single runs of a table."""
    return _source(values, metrics, **given)


def pair_rows(
    values: pl.LazyFrame, metrics: Metrics | None, *, baseline: Any = None, **given: Any
) -> _Source:
    """Return the moments of pairs of runs of a table; `baseline` None for all pairs."""
    return _source(values, metrics, baseline=baseline, is_pairs=True, **given)


def moments_source(values: pl.LazyFrame, metrics: Metrics | None, **given: Any) -> _Source:
    """Return the moments of runs and pairs of a table, for leaderboards."""
    return _source(values, metrics, is_pairs=True, **given)


def _source(
    values: pl.LazyFrame, metrics: Metrics | None, *, run: str | None, by: Names | None,
    baseline: Any = None, is_pairs: bool = False, **others: Any,
) -> _Source:  # fmt: skip
    for name, value in others.items():
        if value is not None:
            raise ArgumentError(
                f"`{name}` needs per-query values; found moments. Pass the result of `per_query`"
            )
    schema = schema_of(values)
    shape = Shape.of(schema)
    if run not in (None, "run", shape.run):
        raise ArgumentError(f"`run` must be {shape.run!r} as in `moments`; found {run!r}")
    if is_pairs and shape.run is None:
        raise SchemaError("the moments have no column of runs; compute them with `run`")
    groups = Columns.find(schema, {"by": by, "run": shape.run}).groups
    for name in groups:
        if name not in shape.by:
            raise ArgumentError(
                f"column {name!r} (`by`) is not a group of the moments; groups: "
                f"{', '.join(map(repr, shape.by)) or 'none'}"
            )
    if baseline is not None:
        check_run("baseline", baseline, str(shape.run), schema[str(shape.run)])
    return _Source(values, shape, groups, _chosen(metrics, shape), baseline, is_pairs)


def _chosen(metrics: Metrics | None, shape: Shape) -> tuple[str, ...]:
    """Return the given metrics, or all; raise if one is missing."""
    if metrics is None:
        return shape.metrics
    chosen = tuple(each if isinstance(each, str) else output_name(each) for each in listed(metrics))
    for name in chosen:
        if name not in shape.metrics:
            raise SchemaError(
                f"metric {name!r} (`metrics`) not found in the moments; available: "
                f"{', '.join(map(repr, shape.metrics))}"
            )
    return chosen
