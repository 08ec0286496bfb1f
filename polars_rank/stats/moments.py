"""`moments` and `merge`: sums of per-query values that can be added up over days and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import polars as pl

from polars_rank._params import OWN, Names, find_columns, free, public
from polars_rank.errors import ArgumentError, DataError, SchemaError, short, warn
from polars_rank.frames.tables import (
    collected,
    framed_table,
    is_spark,
    is_table,
    lazy,
    run_on_spark,
    schema_of,
)
from polars_rank.metrics.names import listed, lower_is_better, output_name
from polars_rank.stats._arrays import Array, numpy, special
from polars_rank.stats.families import Bonferroni, Family, root
from polars_rank.stats.kernel import ONE_UNIT, PAIR, Moments
from polars_rank.stats.query_hash import mixed, query_key
from polars_rank.stats.rows import Key, Rows, moments_of_run, rows_of_pairs, rows_of_runs
from polars_rank.stats.values import (
    Facts,
    Group,
    Values,
    Variable,
    check_run,
    coded,
    deferred,
    unknown_run,
    with_judge,
)

if TYPE_CHECKING:
    from polars_rank.frames.tables import Spark, Table
    from polars_rank.metrics.names import Metrics

#: Counts in the struct of a metric, besides its moments.
_COUNTS = ("undefined", "wins", "losses", "ties")
#: The lowest and highest value, and the sum of |x (1 - x)|, of a run.
_FACTS = ("low", "high", "between")
#: Sums of products with the deviations y and weights w of another run.
_CROSS = ("yy", "yw", "wy", "ww")
#: Other columns of moments.
_UNITS = ("weighted_by", "clustered_by")
COLUMNS = ("baseline", "queries", "empty", "parts", *_UNITS)
#: With fewer sampled tasks, there are no intervals of ranks.
FEW_TASKS = 10
#: At least this number of groups shows whether they vary more than their errors allow.
_GROUPS = 10
_RUNS = OWN + "runs"


def is_moments(schema: pl.Schema) -> bool:
    """Return whether a table is the result of `moments` or `merge`."""
    return any(_is_struct(dtype) for dtype in schema.values())


def _is_struct(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Struct) and {"Ww", "dddd"} <= {each.name for each in dtype.fields}


def _struct(run: pl.DataType) -> pl.Struct:
    cross = pl.List(pl.Struct({"run": run, **dict.fromkeys(_CROSS, pl.Float64)}))
    return pl.Struct(
        {
            **dict.fromkeys((*PAIR.fields, *_FACTS), pl.Float64),
            **dict.fromkeys(_COUNTS, pl.Int64),
            "lower_is_better": pl.Boolean(),
            "cross": cross,
        }
    )


@framed_table
def moments(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    baseline: Any = None,
    run: str | None = "run",
    query: Names = "query",
    by: Names | None = None,
    weight: str | None = None,
    cluster: Names | None = None,
) -> pl.LazyFrame:
    """Compute moments of per-query values, which can be merged over days, files and machines.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> days = [pl.DataFrame({"query": [1, 2], "rr": [1.0, 0.5]}),
    ...         pl.DataFrame({"query": [3, 4], "rr": [0.0, 1.0]})]
    >>> month = pr.merge([pr.moments(day) for day in days])
    >>> pr.summarize(month).select("metric", "mean", "queries")
    shape: (1, 3)
    ┌────────┬───────┬─────────┐
    │ metric ┆ mean  ┆ queries │
    │ ---    ┆ ---   ┆ ---     │
    │ str    ┆ f64   ┆ i64     │
    ╞════════╪═══════╪═════════╡
    │ rr     ┆ 0.625 ┆ 4       │
    └────────┴───────┴─────────┘

    Parameters
    ----------
    values
        Per-query values, as `per_query` returns them: one row per ranking, one column per metric.
        Also a Spark DataFrame.
    metrics
        Names of columns, or metrics such as `pr.ndcg(10)`. Default: all columns of floats.
    baseline
        The run that the others will be compared with. Default: any pair of runs can be compared
        later.
    run
        Column of runs. A table without the column "run" has one run.
    query
        Columns that identify a query. All runs of a query must be in the same part.
    by
        Columns that split the table into groups, such as days, whose moments can be merged later.
    weight
        Column of query weights, such as traffic: 0 or more.
    cluster
        Columns that identify the sampling unit if it is not the query, such as user, session or
        day. All rows of a unit must be in the same part. If groups such as days differ more than
        their queries explain, pass them as `by` and as `cluster`: a group is then a unit.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group and run, and one per pair of runs, with the columns
        of `by`, the column of the run, and

        - `baseline`: the other run of a pair; null in the rows of single runs;
        - `queries`, `empty`: number of rankings, or of queries in both runs, and number of rankings
          without a retrieved document;
        - `parts`: fingerprints of the queries, by which `merge` finds a part that is merged twice;
        - `weighted_by`, `clustered_by`: with `weight` and `cluster`, the names of their columns;
        - for each metric, a struct of its moments.

        It can be written with `write_parquet` and read with `scan_parquet`.

    Raises
    ------
    DataError
        A query occurs twice in a run. Raised when the result is collected.
    MissingExtraError
        NumPy is not installed (extra "stats").

    Notes
    -----
    The size does not depend on the number of queries. `summarize`, `compare`, `leaderboard` and
    `power` accept moments instead of per-query values.

    References
    ----------
    Chan, Golub & LeVeque, Updating formulae and a pairwise algorithm for computing sample
    variances, 1979.
    """
    schema = schema_of(values)
    if is_moments(schema):
        raise SchemaError("the table already has moments; merge moments with pr.merge(...)")
    has_query = query != "query" or "query" in schema
    source = Values.of(
        values, metrics, run=run, query=query, by=by, weight=weight, cluster=cluster,
        needs_query=baseline is not None, needs_run=baseline is not None,
    )  # fmt: skip
    if baseline is not None:
        check_run("baseline", baseline, str(source.run), schema[str(source.run)])
    run_type = pl.String() if source.run is None else schema[source.run]
    free([*source.by, *([] if source.run is None else [source.run])], COLUMNS)
    names = [each.name for each in source.metrics]
    types: dict[str, pl.DataType] = {name: schema[name] for name in source.by}
    if source.run is not None:
        types |= {source.run: run_type, "baseline": run_type}
    types |= {"queries": pl.Int64(), "empty": pl.Int64(), "parts": pl.List(pl.Int64)}
    texts = dict(zip(_UNITS, (weight, ", ".join(source.cluster) or None), strict=True))
    types |= {name: pl.String() for name, text in texts.items() if text is not None}
    types |= {name: _struct(run_type) for name in names}

    def result() -> pl.DataFrame:
        groups = source.facts_and_groups()[1]
        rows = [row for group in groups for row in _own_rows(group)]
        several = source.run is not None and has_query
        if several and (baseline is not None or any(len(group.rows) > 1 for group in groups)):
            pairs = rows_of_pairs(source, baseline, every=baseline is None, groups=groups)
            rows += _pair_table(pairs, source)
        columns = {name: [row.get(name, texts.get(name)) for row in rows] for name in types}
        table = pl.DataFrame([pl.Series(n, columns[n], dtype) for n, dtype in types.items()])
        return _sorted(table, source.by, source.run)

    return deferred(result, types)


def _sorted(table: pl.DataFrame, by: Sequence[str], run: str | None) -> pl.DataFrame:
    keys = [*by, *([] if run is None else ["baseline", run])]
    return table.sort(keys, nulls_last=False) if keys else table


def _own_rows(group: Group) -> list[dict[str, Any]]:
    """Return the row of each run of a group."""
    np, source = numpy(), group.source
    if source.query:
        group.check_unique()
    head = dict(zip(source.by, group.key, strict=True))
    number = group.n_units if group.units is not None or source.query else 0
    letters: dict[tuple[str, Any], tuple[Array, Array]] = {}
    rows = []
    for run, of_run in group.rows.items():
        row = {**head, "queries": len(of_run), "empty": group.empty(of_run), "parts": []}
        if source.run is not None:
            row |= {source.run: run, "baseline": None}
        if source.query:
            key = query_key(source.query, [group.frame.schema[name] for name in source.query])
            hashes = group.frame.select(mixed(key)).to_series().to_numpy()[of_run]
            row["parts"] = [int(hashes.sum(dtype=np.uint64).astype(np.int64))]
        for variable in source.metrics:
            sums, of_units = moments_of_run(group, variable.name, of_run)
            values = group.column(variable.name)[of_run]
            known = values[~np.isnan(values)]
            undefined = group.undefined(variable.name)
            facts = (None, None, 0.0)
            if len(known):
                facts = (known.min(), known.max(), np.abs(known * (1 - known)).sum())
            row[variable.name] = {
                **sums, **dict(zip(_FACTS, facts, strict=True)), **dict.fromkeys(_COUNTS, 0),
                "undefined": 0 if undefined is None else int(undefined[of_run].sum()),
                "lower_is_better": variable.lower_is_better, "cross": [],
            }  # fmt: skip
            if source.run is not None and source.query:
                letters[variable.name, run] = _dense(group, variable.name, of_run, of_units, number)
        rows.append(row)
    for variable in source.metrics:
        if source.run is not None and source.query:
            _add_cross(rows, variable.name, source.run, letters)
    return rows


def _dense(
    group: Group, metric: str, rows: Array, letters: Mapping[str, Array], number: int
) -> tuple[Array, Array]:
    """Return the deviations and weights of all units of a group, 0 where a run has no value."""
    np = numpy()
    (counted,) = group.counted(metric, rows)
    units = group.queries[counted] if group.units is None else group.units[counted]
    present = units if group.units is None else np.unique(units)
    dense = np.zeros(number), np.zeros(number)
    dense[0][present], dense[1][present] = letters["d"], letters["w"]
    return dense


def _add_cross(
    rows: Sequence[dict[str, Any]], metric: str, run: str, letters: Mapping[tuple[str, Any], Any]
) -> None:
    """Add the products with other runs to the struct of a metric."""
    for row in rows:
        y, w = letters[metric, row[run]]
        row[metric]["cross"] = [
            {"run": other[run], "yy": float(y @ v), "yw": float(y @ u), "wy": float(w @ v),
             "ww": float(w @ u)}
            for other in rows
            for v, u in [letters[metric, other[run]]]
        ]  # fmt: skip


def _pair_table(pairs: Rows, source: Values) -> list[dict[str, Any]]:
    """Return one row per group and pair of runs."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for key, sums, counts in zip(pairs.keys, pairs.sums, pairs.counts, strict=True):
        row = rows.setdefault(
            (key.group, key.run, key.baseline),
            {
                **dict(zip(source.by, key.group, strict=True)), str(source.run): key.run,
                "baseline": key.baseline, "queries": counts["queries"], "empty": None, "parts": [],
            },
        )  # fmt: skip
        row[key.metric] = {
            **sums, **dict.fromkeys(_FACTS), **{name: counts[name] for name in _COUNTS},
            "lower_is_better": source.lower_is_better[key.metric], "cross": [],
        }  # fmt: skip
    return [*rows.values()]


@overload
def merge(tables: pl.LazyFrame | Iterable[pl.LazyFrame]) -> pl.LazyFrame: ...
@overload
def merge(tables: Spark | Iterable[Spark]) -> Spark: ...
@overload
def merge(tables: Table | Iterable[Table]) -> pl.DataFrame: ...
@overload
def merge(tables: Iterable[pl.LazyFrame | Table]) -> pl.LazyFrame | pl.DataFrame: ...
@public
def merge(tables: Any) -> Any:
    """Merge moments of parts into the moments of the whole.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> monday = pl.DataFrame({"query": [1, 2], "rr": [1.0, 0.5]})
    >>> tuesday = pl.DataFrame({"query": [3], "rr": [0.0]})
    >>> week = pr.merge([pr.moments(monday), pr.moments(tuesday)])
    >>> pr.summarize(week).get_column("mean").item()
    0.5

    Parameters
    ----------
    tables
        Results of `moments` or `merge`, one for each part. Or one table with the rows of several
        results.

    Returns
    -------
    LazyFrame or DataFrame
        The columns of `moments`. A LazyFrame if any of the tables is one.

    Raises
    ------
    DataError
        A part is merged twice, or parts have other metrics, weights or clusters. Raised when the
        result is collected.
    """
    given = [tables] if is_table(tables) or is_spark(tables) else tables
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise ArgumentError(f"`tables` must be a table or a list of tables; found {short(tables)}")
    parts = [*given]
    if not parts:
        raise ArgumentError("`tables` is empty; pass at least one result of `moments`")
    if any(map(is_spark, parts)):
        return run_on_spark(merge, parts)
    frames = [lazy(each, "tables") for each in parts]
    result = merged(frames)
    return result if any(isinstance(each, pl.LazyFrame) for each in parts) else collected(result)


def merged(frames: Sequence[pl.LazyFrame]) -> pl.LazyFrame:
    """Return the moments of the whole, given the moments of parts."""
    schemas = [schema_of(each) for each in frames]
    for schema in schemas:
        if not is_moments(schema):
            raise SchemaError("the tables (`tables`) must be results of `moments` or `merge`")
        if schema != schemas[0]:
            differ = sorted({*schema.items()} ^ {*schemas[0].items()}, key=str)
            raise DataError(
                "the tables (`tables`) have moments of other groups, metrics, weights or clusters: "
                f"{', '.join(dict.fromkeys(repr(name) for name, _ in differ)) or 'another order'}; "
                "compute all with the same parameters"
            )
    shape = Shape.of(schemas[0])

    def result() -> pl.DataFrame:
        tables = [collected(each) for each in frames]
        return shape.added(pl.concat(tables), shape.by, pooled=False)

    return deferred(result, schemas[0])


def sum_of_parts(parts: pl.DataFrame) -> pl.DataFrame:
    """Return the moments of one table from those of its parts, whose fingerprints are added."""
    np = numpy()
    shape = Shape.of(parts.schema)
    table = shape.added(parts, shape.by, pooled=False)
    sums = [
        [int(np.array(each, dtype=np.int64).sum())] if len(each) else []
        for each in table.get_column("parts")
    ]
    return table.with_columns(pl.Series("parts", sums, table.schema["parts"]))


@dataclass(frozen=True)
class Shape:
    """The columns of a table of moments."""

    schema: pl.Schema
    by: tuple[str, ...]
    run: str | None
    metrics: tuple[str, ...]

    @classmethod
    def of(cls, schema: pl.Schema) -> Shape:
        """Return the columns of a table by its schema."""
        names = [*schema]
        metrics = tuple(name for name in names if _is_struct(schema[name]))
        keys = names[: names.index("queries")]
        run = None
        if "baseline" in keys:
            place = keys.index("baseline")
            run, keys = keys[place - 1], keys[: place - 1]
        return cls(schema, tuple(keys), run, metrics)

    @property
    def is_weighted(self) -> bool:
        """Whether there are weights or clusters."""
        return any(name in self.schema for name in _UNITS)

    def added(self, table: pl.DataFrame, by: Sequence[str], *, pooled: bool) -> pl.DataFrame:
        """Return the moments of the groups of `by`; warn if pooled groups cannot be pooled."""
        np = numpy()
        runs = [] if self.run is None else [self.run, "baseline"]
        texts = [name for name in _UNITS if name in self.schema]
        for name in texts:
            if table.get_column(name).n_unique() > 1:
                found = table.get_column(name).unique().sort().to_list()
                raise DataError(f"moments with different {name!r} cannot be merged; found {found}")
        keys = [*by, *runs]
        if keys:
            codes, groups = coded(table, keys)
        else:
            codes, groups = np.zeros(table.height, dtype=int), [()] * min(table.height, 1)
        self._check_parts(table, codes, groups, by, pooled=pooled)
        size = len(groups)
        columns: dict[str, Any] = (
            dict(zip(keys, zip(*groups, strict=True), strict=True))
            if groups
            else {n: [] for n in keys}
        )
        for name in ("queries", "empty"):
            numbers = table.get_column(name)
            total = np.bincount(codes, numbers.fill_null(0).to_numpy(), minlength=size)
            known = np.bincount(codes, numbers.is_not_null().to_numpy(), minlength=size) > 0
            columns[name] = [int(n) if k else None for n, k in zip(total, known, strict=True)]
        lists: list[list[int]] = [[] for _ in range(size)]
        for code, each in zip(codes, table.get_column("parts"), strict=True):
            lists[code] += [] if each is None else each.to_list()
        columns["parts"] = lists
        for name in texts:
            columns[name] = [table.get_column(name)[0]] * size
        for name in self.metrics:
            columns[name] = self._added_metric(table, name, codes, size, by, pooled=pooled)
        kept = [n for n in self.schema if n in columns]
        result = pl.DataFrame([pl.Series(n, [*columns[n]], self.schema[n]) for n in kept])
        return _sorted(result, by, self.run)

    def _check_parts(
        self, table: pl.DataFrame, codes: Array, groups: Any, by: Sequence[str], *, pooled: bool
    ) -> None:
        """Raise for a part that is there twice; warn of pooled groups with the same queries."""
        seen: dict[tuple[int, int], int] = {}
        for row, (code, parts) in enumerate(zip(codes, table.get_column("parts"), strict=True)):
            for part in [] if parts is None else parts:
                if (code, part) not in seen:
                    seen[code, part] = row
                    continue
                key = dict(zip([*by, str(self.run), "baseline"], groups[code], strict=False))
                key = {n: value for n, value in key.items() if n != "baseline"}
                where = f" of {key}" if key else ""
                if not pooled:
                    raise DataError(
                        f"the same part{where} is merged twice (rows {seen[code, part]} and "
                        f"{row}): its queries would count twice; merge each part once, or if the "
                        "same queries recur, add the day to `by` of `moments`"
                    )
                warn(
                    f"the same queries occur in several of the groups{where} that are pooled (by "
                    f"{', '.join(map(repr, [n for n in self.by if n not in by]))}); they count as "
                    "new queries, and intervals are too narrow: average the values of each query "
                    'first, or pass per-query values with cluster="query"'
                )
                return

    def _added_metric(
        self, table: pl.DataFrame, name: str, codes: Array, size: int, by: Sequence[str], *,
        pooled: bool,
    ) -> list[dict[str, Any]]:  # fmt: skip
        np = numpy()
        fields = table.get_column(name).struct
        parts = {f: fields.field(f).fill_null(float("nan")).to_numpy() for f in PAIR.fields}
        sums = PAIR.merged(parts, codes, size)
        if pooled:
            self._warn_of_varying(name, parts, codes, size, by)
        counts = {}
        for field in (*_COUNTS, "between"):
            numbers = fields.field(field).fill_null(0).to_numpy()
            counts[field] = np.bincount(codes, numbers, minlength=size)
        extremes = table.select(
            pl.Series(OWN + "code", codes),
            pl.col(name).struct.field("low", "high", "lower_is_better"),
        ).group_by(OWN + "code").agg(
            pl.col("low").min(), pl.col("high").max(), pl.col("lower_is_better").first()
        ).sort(OWN + "code")  # fmt: skip
        crosses = self._added_cross(table, name, codes, size, parts, sums)
        rows = []
        for place, (low, high, lower) in enumerate(extremes.drop(OWN + "code").iter_rows()):
            row: dict[str, Any] = {field: float(each[place]) for field, each in sums.items()}
            row |= {field: int(counts[field][place]) for field in _COUNTS}
            row |= {"low": low, "high": high, "between": float(counts["between"][place])}
            row |= {"lower_is_better": lower, "cross": crosses[place]}
            rows.append(row)
        return rows

    def _added_cross(
        self, table: pl.DataFrame, name: str, codes: Array, size: int,
        parts: Mapping[str, Array], sums: Mapping[str, Array],
    ) -> list[list[dict[str, Any]]]:  # fmt: skip
        """Return the products with other runs; a deviation y becomes y + shift · w."""
        np = numpy()
        found: list[dict[Any, Any]] = [{} for _ in range(size)]
        if self.run is None:
            return [[] for _ in range(size)]
        shifts = np.where(parts["Ww"] > 0, parts["md"] - sums["md"][codes], 0.0)
        group = coded(table, self.by)[0] if self.by else np.zeros(table.height, dtype=int)
        own = table.get_column("baseline").is_null().to_numpy()
        runs = table.get_column(self.run).to_list()
        # Rows of one part are those before a run of the same group occurs again.
        part, places, shift_of = 0, set[Any](), {}
        part_of = []
        for row, (each, run) in enumerate(zip(group, runs, strict=True)):
            if own[row]:
                if (each, run) in places:
                    part, places = part + 1, set()
                places.add((each, run))
                shift_of[part, each, run] = shifts[row]
            part_of.append(part)
        cross = table.get_column(name).struct.field("cross")
        for row in np.flatnonzero(own):
            of_group = found[codes[row]]
            for other in cross[int(row)]:
                s, t = shifts[row], shift_of.get((part_of[row], group[row], other["run"]), 0.0)
                total = of_group.setdefault(other["run"], np.zeros(4))
                yy, yw, wy, ww = (other[field] for field in _CROSS)
                total += (yy + s * wy + t * yw + s * t * ww, yw + s * ww, wy + t * ww, ww)
        return [
            [
                {"run": run, **dict(zip(_CROSS, map(float, total), strict=True))}
                for run, total in each.items()
            ]
            for each in found
        ]

    def _warn_of_varying(
        self, name: str, parts: Mapping[str, Array], codes: Array, size: int, by: Sequence[str],
    ) -> None:  # fmt: skip
        """Warn if pooled groups differ by more than the errors of their means allow."""
        np = numpy()
        with np.errstate(all="ignore"):
            errors = Moments(parts).error
            means = parts["md"]
            known = errors > 0
            precision = np.where(known, 1 / errors**2, 0.0)
            total = np.bincount(codes, precision, minlength=size)
            centers = (
                np.bincount(codes, precision * np.where(known, means, 0.0), minlength=size) / total
            )
            distance = precision * np.where(known, means - centers[codes], 0.0) ** 2
            statistic = np.bincount(codes, distance, minlength=size)
            number = np.bincount(codes, known, minlength=size)
            varies = (number >= _GROUPS) & (special().chdtrc(number - 1, statistic) < 0.01)
        if varies.any():
            apart = ", ".join(map(repr, (n for n in self.by if n not in by)))
            warn(
                f"the groups that are pooled (by {apart}) vary more than the errors of {name!r} in "
                "each of them allow, so that intervals are too narrow; compute `moments` with "
                f"by=[{apart}] and cluster=[{apart}]: a group is then the sampling unit"
            )


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
        _check_fields(table, self.metrics)
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
                    values.lazy(), [Variable(name, None, self.lower_is_better[name])], (), self.run,
                    (OWN + "task",),
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
            struct |= {each: fields.field(each).sum() for each in _COUNTS}
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
        self.weighted, self.queries, self.missing = weighted, queries, missing
        self.tasks, self.has_ranks = tasks, has_ranks


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
    low, high, between = (fields.field(each) for each in _FACTS)
    return Facts.of(low.min(), high.max(), between.sum())  # type: ignore[arg-type]


def _check_fields(table: pl.DataFrame, metrics: Sequence[str]) -> None:
    for name in metrics:
        fields = {each.name: each.dtype for each in table.schema[name].fields}  # type: ignore[attr-defined]
        missing = [
            each for each in (*PAIR.fields, *_FACTS, *_COUNTS, "cross") if each not in fields
        ]
        if missing:
            raise SchemaError(
                f"column {name!r} has no moments: the field {missing[0]!r} is missing; pass the "
                "result of `moments` or `merge`"
            )


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
    columns = find_columns(schema, {"by": by, "run": shape.run})
    groups = with_judge(schema, columns, metrics)
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
