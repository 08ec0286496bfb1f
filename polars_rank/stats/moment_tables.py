"""Tables of moments: their columns, and how parts and groups are added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from polars_rank._formats import FORMAT_VERSION, MOMENTS, check_version
from polars_rank._params import OWN
from polars_rank.errors import DataError, SchemaError, warn
from polars_rank.stats._arrays import Array, numpy, special
from polars_rank.stats.groups import coded
from polars_rank.stats.kernel import PAIR, Moments

#: Counts in the struct of a metric, besides its moments.
COUNTS = ("undefined", "wins", "losses", "ties")

#: The lowest and highest value, and the sum of |x (1 - x)|, of a run.
FACTS = ("low", "high", "between")

#: Sums of products with the deviations y and weights w of another run, beside which is its mean.
CROSS = ("yy", "yw", "wy", "ww")

#: Other columns of moments.
UNITS = ("weighted_by", "clustered_by")

COLUMNS = ("baseline", "queries", "empty", "parts", *UNITS)

#: At least this number of groups shows whether they vary more than their errors allow.
_GROUPS = 10


def is_moments(schema: pl.Schema) -> bool:
    """Return whether a table is the result of `moments` or `merge`."""
    return any(_is_struct(dtype) for dtype in schema.values())


def _is_struct(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Struct) and {"Ww", "dddd"} <= {each.name for each in dtype.fields}


def struct_type(run: pl.DataType) -> pl.Struct:
    """Return the type of the moments of a metric."""
    cross = pl.List(pl.Struct({"run": run, **dict.fromkeys((*CROSS, "mean"), pl.Float64)}))
    return pl.Struct(
        {
            **dict.fromkeys((*PAIR.fields, *FACTS), pl.Float64),
            **dict.fromkeys(COUNTS, pl.Int64),
            FORMAT_VERSION: pl.Int64(),
            "lower_is_better": pl.Boolean(),
            "cross": cross,
        }
    )


def in_order(table: pl.DataFrame, by: Sequence[str], run: str | None) -> pl.DataFrame:
    """Return a table in the order of groups, baselines and runs."""
    keys = [*by, *([] if run is None else ["baseline", run])]
    return table.sort(keys, nulls_last=False) if keys else table


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
        return any(name in self.schema for name in UNITS)

    def added(self, table: pl.DataFrame, by: Sequence[str], *, pooled: bool) -> pl.DataFrame:
        """Return the moments of the groups of `by`; warn if pooled groups cannot be pooled."""
        np = numpy()
        self._check_fields(table)
        runs = [] if self.run is None else [self.run, "baseline"]
        texts = [name for name in UNITS if name in self.schema]
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
            columns[name] = table.get_column(name).head(1).to_list() * size
        for name in self.metrics:
            columns[name] = self._added_metric(table, name, codes, groups, by, pooled=pooled)
        kept = [n for n in self.schema if n in columns]
        result = pl.DataFrame([pl.Series(n, [*columns[n]], self.schema[n]) for n in kept])
        return in_order(result, by, self.run)

    def _check_fields(self, table: pl.DataFrame) -> None:
        """Raise an error if the moments of a metric have a later version, or lack a field."""
        fields = (FORMAT_VERSION, *PAIR.fields, *FACTS, *COUNTS, "cross")
        for name in self.metrics:
            moments = table.get_column(name)
            found = {each.name for each in self.schema[name].fields}  # type: ignore[attr-defined]
            if FORMAT_VERSION in found:
                for version in moments.struct.field(FORMAT_VERSION).drop_nulls().unique().sort():
                    check_version(
                        version, MOMENTS, f"the table of moments (column {name!r})",
                        "compute the moments again with `moments`",
                    )  # fmt: skip
            missing = [each for each in fields if each not in found]
            if missing:
                raise SchemaError(
                    f"column {name!r} has no moments: the field {missing[0]!r} is missing; pass "
                    "the result of `moments` or `merge`"
                )

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
        self, table: pl.DataFrame, name: str, codes: Array, groups: Any, by: Sequence[str], *,
        pooled: bool,
    ) -> list[dict[str, Any]]:  # fmt: skip
        np, size = numpy(), len(groups)
        fields = table.get_column(name).struct
        parts = {f: fields.field(f).fill_null(float("nan")).to_numpy() for f in PAIR.fields}
        sums = PAIR.merged(parts, codes, size)
        if pooled:
            self._warn_of_varying(name, parts, codes, size, by)
        counts = {}
        for field in (*COUNTS, "between"):
            numbers = fields.field(field).fill_null(0).to_numpy()
            counts[field] = np.bincount(codes, numbers, minlength=size)
        extremes = table.select(
            pl.Series(OWN + "code", codes),
            pl.col(name).struct.field("low", "high", "lower_is_better"),
        ).group_by(OWN + "code").agg(
            pl.col("low").min(), pl.col("high").max(), pl.col("lower_is_better").first()
        ).sort(OWN + "code")  # fmt: skip
        crosses = self._added_cross(table, name, codes, groups, parts, sums)
        rows = []
        for place, (low, high, lower) in enumerate(extremes.drop(OWN + "code").iter_rows()):
            row: dict[str, Any] = {field: float(each[place]) for field, each in sums.items()}
            row |= {field: int(counts[field][place]) for field in COUNTS}
            row |= {"low": low, "high": high, "between": float(counts["between"][place])}
            row |= {FORMAT_VERSION: MOMENTS, "lower_is_better": lower, "cross": crosses[place]}
            rows.append(row)
        return rows

    def _added_cross(
        self, table: pl.DataFrame, name: str, codes: Array, groups: Any,
        parts: Mapping[str, Array], sums: Mapping[str, Array],
    ) -> list[list[dict[str, Any]]]:  # fmt: skip
        """Return the products with other runs; a deviation y becomes y + shift · w."""
        np = numpy()
        if self.run is None:
            return [[] for _ in groups]
        # The other run may be in another part, if the rows of a table are in several parts.
        means = dict(zip(groups, map(float, sums["md"]), strict=True))
        found: list[dict[Any, Any]] = [{} for _ in groups]
        shifts = np.where(parts["Ww"] > 0, parts["md"] - sums["md"][codes], 0.0)
        for code, s, cross in zip(
            codes, shifts, table.get_column(name).struct.field("cross"), strict=True
        ):
            for other in [] if cross is None else cross:
                key = (*groups[code][:-2], other["run"], None)
                t = other["mean"] - means.setdefault(key, other["mean"])
                t = 0.0 if np.isnan(t) else t
                total = found[code].setdefault(other["run"], np.zeros(4))
                yy, yw, wy, ww = (other[field] for field in CROSS)
                total += (yy + s * wy + t * yw + s * t * ww, yw + s * ww, wy + t * ww, ww)
        return [
            [
                {"run": run, **dict(zip(CROSS, map(float, total), strict=True)),
                 "mean": means[*key[:-2], run, None]}
                for run, total in of_group.items()
            ]
            for key, of_group in zip(groups, found, strict=True)
        ]  # fmt: skip

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
