"""Labels of several judges: from tables to the labels of each document, checked and coded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, free, is_number, names, some_names
from polars_rank.checks import FAILED, Check, failed, raise_failed
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, hint, number_of, short
from polars_rank.frames.tables import collected, schema_of
from polars_rank.judges.bootstrap import clusters
from polars_rank.stats._arrays import Array, numpy
from polars_rank.stats.query_hash import query_key
from polars_rank.stats.values import deferred

if TYPE_CHECKING:
    from polars_rank._params import Names

_JUDGE, _GRADE, _FRACTION, _KEY = (OWN + name for name in ("judge", "grade", "fraction", "key"))
#: Maximum number of different grades. Tables of counts have a cell for each pair of grades.
MOST_GRADES = 128


class Labels(NamedTuple):
    """The labels of one group; documents are numbered in the order of their clusters."""

    #: The names of the judges.
    judges: Sequence[str]
    #: The pairs of judges to compare, as indices of the reference and the other judge.
    pairs: Sequence[tuple[int, int]]
    #: The documents that each judge labeled, and their grades, as indices of `values`.
    documents: Sequence[Array]
    grades: Sequence[Array]
    #: The values of the grades, in ascending order.
    values: Array
    #: The cluster of each document, and the hash of each cluster.
    cluster: Array
    keys: Array

    def pair_counts(self, first: int, second: int) -> Array:
        """Return the numbers of documents by cluster, and grade of the first and second judge."""
        np = numpy()
        number = len(self.values)
        grade = np.full(len(self.cluster), -1, dtype=np.int16)
        grade[self.documents[first]] = self.grades[first]
        documents = self.documents[second]
        both = grade[documents] >= 0
        documents = documents[both]
        cells = (self.cluster[documents] * number + grade[documents]) * number
        clusters = len(self.keys)
        cells += self.grades[second][both]
        return np.bincount(cells, minlength=clusters * number**2).reshape(clusters, number, number)

    def unit_sums(self) -> tuple[Array, int, int]:
        """Return sums over the documents that several judges labeled, by cluster.

        There are two sums of tables of pairs of labels: in the first, the sum of the table of a
        document is 1; in the second, it is the number of its labels (Krippendorff's coincidences).
        Return also the number of these documents, and of those with one label.
        """
        np = numpy()
        number = len(self.values)
        cells = np.concatenate(self.documents).astype(np.int64)
        cells *= number
        cells += np.concatenate(self.grades)
        cells.sort()
        bounds = np.searchsorted(self.cluster, np.arange(len(self.keys) + 1))
        ends = np.searchsorted(cells, bounds * number)
        sums = np.zeros((len(self.keys), 2, number, number))
        paired = 0
        for cluster, (low, high) in enumerate(pairwise(ends)):
            first, last = bounds[cluster], bounds[cluster + 1]
            size = (last - first) * number
            counts = np.bincount(cells[low:high] - first * number, minlength=size)
            counts = counts.reshape(-1, number)
            counts = counts[counts.sum(axis=1) > 1].astype(float)
            raters = counts.sum(axis=1, keepdims=True)
            for place, weight in enumerate((1 / (raters * (raters - 1)), 1 / (raters - 1))):
                weighted = counts * weight
                sums[cluster, place] = weighted.T @ counts - np.diag(weighted.sum(axis=0))
            paired += len(counts)
        return sums, paired, len(self.cluster) - paired


@dataclass(frozen=True, kw_only=True)
class Judgments:
    """The parameters that say which labels judges gave."""

    judge: str
    reference: Any
    query: Names
    doc: str
    label: Names
    categories: Sequence[float] | None
    by: Names | None

    def table(
        self,
        judgments: pl.LazyFrame,
        schema: Mapping[str, pl.DataType],
        rows: Callable[[Labels], Sequence[tuple[Any, ...]]],
    ) -> pl.LazyFrame:
        """Return the table of the rows of all groups, with the columns `by` and `schema`."""
        numpy()
        by = names("by", self.by)
        free(by, schema)
        plan = self._documents(judgments)
        given = plan.collect_schema()
        types = {**{name: given[name] for name in by}, **schema}

        def result() -> pl.DataFrame:
            documents = collected(plan)
            judges = documents.get_column(_JUDGE).explode().drop_nulls().unique().cast(pl.String)
            self._check_labeled(judges.to_list(), judgments)
            tables = [pl.DataFrame(schema=types)]
            if documents.height:
                values, found = self._values(documents), self._names(judges.sort().to_list())
                for group in documents.partition_by(by) if by else [documents]:
                    labels = self._coded(group, values, found)
                    table = pl.DataFrame(rows(labels), schema=schema, orient="row")
                    keys = (group.get_column(name).new_from_index(0, table.height) for name in by)
                    tables.append(pl.DataFrame([*keys, *table.get_columns()]))
            return pl.concat(tables).sort(by, maintain_order=True) if by else pl.concat(tables)

        return deferred(result, types)

    def _check_labeled(self, judges: Sequence[str], judgments: pl.LazyFrame) -> None:
        """Raise `DataError` if a column of a table with rows has no labels."""
        columns = self._label_columns() or (() if judges else (self.label,))
        lacking = [name for name in columns if name not in judges]
        if lacking and (rows := collected(judgments.select(pl.len())).item()):
            raise DataError(
                f"column {lacking[0]!r} has no labels ({number_of(rows, 'row')}); check that the "
                "labels were joined by the right keys"
            )

    @property
    def has_whole_grades(self) -> bool:
        """Whether all grades are whole numbers."""
        return self.values is None or all(value.is_integer() for value in self.values)

    @cached_property
    def values(self) -> list[float] | None:
        """The grades of `categories`, in ascending order."""
        if self.categories is None:
            return None
        values = [*self.categories]
        if not values or not all(map(is_number, values)) or len({*values}) < len(values):
            raise ArgumentError(
                f"`categories` must be different numbers; found {short(self.categories)}"
            )
        _check_number(len(values))
        return sorted(map(float, values))

    def _documents(self, judgments: pl.LazyFrame) -> pl.LazyFrame:
        """Return a row for each labeled document, with lists of judges and grades."""
        schema = schema_of(judgments)
        roles: dict[str, Any] = {"by": self.by, "query": self.query, "doc": self.doc}
        labels = self._label_columns()
        if labels:
            roles["label"] = labels
            source = f"{[*labels]} (`label`)"
            judge: pl.Expr = pl.lit([*labels], dtype=pl.List(pl.String))
            grade = pl.concat_list(pl.col(name).cast(pl.Float64) for name in labels)
        else:
            roles |= {"judge": self.judge, "label": self.label}
            source = f"{self.label!r} (`label`)"
            grade = pl.col(str(self.label)).cast(pl.Float64)
            judge = pl.col(self.judge).cast(pl.String)
        query = Columns.find(schema, roles).query
        keys = [*names("by", self.by), *query, self.doc]
        rows = judgments.select(*keys, judge.alias(_JUDGE), grade.alias(_GRADE))
        if labels:
            rows = rows.explode(_JUDGE, _GRADE)
        rows = rows.filter(pl.col(_GRADE).is_not_null())
        checks = [*self._checks(query, source)]
        code, fraction = self._codes()
        documents = (
            rows.select(
                *keys,
                pl.col(_JUDGE).cast(pl.Categorical),
                code.alias(_GRADE),
                fraction.alias(_FRACTION),
                failed(checks, "row"),
            )
            .group_by(keys)
            .agg(_JUDGE, _GRADE, pl.col(_FRACTION).max(), pl.col(FAILED).max())
        )
        documents = raise_failed(documents, checks, log=rows)
        return documents.with_columns(
            query_key(query, [schema[name] for name in query]).alias(_KEY)
        )

    def _label_columns(self) -> tuple[str, ...]:
        """Return the columns of `label` if there are several, which replace `judge`."""
        if isinstance(self.label, str):
            return ()
        columns = some_names("label", self.label)
        if self.judge != "judge":
            raise ArgumentError(
                f"several columns of labels (`label`) replace `judge`; omit it; found "
                f"{self.judge!r}"
            )
        if len(columns) < 2:
            raise ArgumentError(f"`label` must name one column or at least two; found {columns}")
        if self.reference is not None and self.reference not in columns:
            raise ArgumentError(
                f"`reference` must be one of the columns of `label`, {[*columns]}; found "
                f"{short(self.reference)}"
            )
        return columns

    def _checks(self, query: Sequence[str], source: str) -> Iterator[Check]:
        """Yield the checks of ids and labels."""
        nulls = [(f"{n!r} (`query`)", pl.col(n), "an id") for n in query]
        nulls.append((f"{self.doc!r} (`doc`)", pl.col(self.doc), "an id"))
        nulls.append((f"{self.judge!r} (`judge`)", pl.col(_JUDGE), "a name"))
        for name, column, missing in nulls:
            message = f"column {name} has nulls; drop these rows, or fill in {missing}"
            yield Check("row", column.is_null(), message)
        grade = pl.col(_GRADE)
        message = f"labels of {source} are NaN or infinite; use null"
        yield Check("row", ~grade.is_finite(), message)
        if self.values is not None:
            message = f"labels of {source} are not in `categories`; add them, or drop the rows"
            yield Check("row", ~grade.is_in(self.values), message)

    def _codes(self) -> tuple[pl.Expr, pl.Expr]:
        """Return the code of a grade, and the label if it has none because it is not whole.

        The code is the place of the grade in `categories`, or the grade itself.
        """
        grade = pl.col(_GRADE)
        if self.values is None:
            whole = (grade == grade.floor()) & (grade.abs() < 2**31)
            return grade.cast(pl.Int32, strict=False), pl.when(~whole).then(grade)
        codes = [*range(len(self.values))]
        places = grade.replace_strict(self.values, codes, default=None, return_dtype=pl.Int32)
        return places, pl.lit(None, dtype=pl.Float64)

    def _values(self, documents: pl.DataFrame) -> Array:
        """Return the grades of all judges and groups; raise if they are not whole numbers."""
        np = numpy()
        if self.values is not None:
            return np.array(self.values)
        if (fraction := documents.get_column(_FRACTION).max()) is not None:
            raise ArgumentError(
                "`categories` must list the grades if they are not whole numbers; found "
                f"{fraction!r}"
            )
        values = documents.get_column(_GRADE).explode().unique().sort()
        _check_number(len(values))
        return values.cast(pl.Float64).to_numpy()

    def _names(self, judges: list[str]) -> list[str]:
        """Return the judges of all groups: in the order of `label`, or sorted."""
        if labels := self._label_columns():
            return [*labels]
        if self.reference is not None and str(self.reference) not in judges:
            raise DataError(
                f"no labels of the judge {str(self.reference)!r} (`reference`); judges: "
                f"{short(judges)}.{hint(str(self.reference), judges)}"
            )
        if len(judges) < 2:
            raise DataError(
                f"column {self.judge!r} (`judge`) has only one judge, {judges[0]!r}; agreement "
                "needs two"
            )
        return judges

    def _pairs(self, judges: Sequence[str]) -> list[tuple[int, int]]:
        """Return the pairs of judges: each with the reference, or all."""
        numbers = range(len(judges))
        if self.reference is None:
            return [(first, second) for first in numbers for second in numbers[first + 1 :]]
        reference = judges.index(str(self.reference))
        return [(reference, number) for number in numbers if number != reference]

    def _coded(self, documents: pl.DataFrame, values: Array, judges: Sequence[str]) -> Labels:
        """Return the labels of a group; raise if a judge gave a document two different ones."""
        np = numpy()
        pairs = self._pairs(judges)
        cells = len(pairs) * len(values) ** 2
        hashes, cluster = clusters(documents.get_column(_KEY).to_numpy(), cells)
        order = np.argsort(cluster, kind="stable")
        documents = documents[order]
        lengths = documents.get_column(_JUDGE).list.len().to_numpy()
        document = np.repeat(np.arange(documents.height, dtype=np.int32), lengths)
        names_ = documents.get_column(_JUDGE).explode().cast(pl.Enum(judges))
        judge = names_.to_physical().to_numpy()
        grade = documents.get_column(_GRADE).explode().to_numpy()
        if self.values is None:
            grade = np.searchsorted(values, grade)
        grade = grade.astype(np.int16)
        by_judge = np.argsort(judge, kind="stable")
        bounds = np.searchsorted(judge[by_judge], np.arange(len(judges) + 1))
        of_documents, of_grades = [], []
        for number, name in enumerate(judges):
            rows = by_judge[bounds[number] : bounds[number + 1]]
            repeated = np.flatnonzero(np.diff(document[rows]) == 0)
            differing = repeated[grade[rows[repeated]] != grade[rows[repeated + 1]]]
            if len(differing):
                keys = [*names("by", self.by), *names("query", self.query), self.doc]
                place = int(document[rows[differing[0]]])
                raise DataError(
                    f"the judge {name!r} gave {number_of(len(differing), 'document')} different "
                    f"labels, e.g. {documents.select(keys).row(place, named=True)}; keep one "
                    "label, or name all columns that identify a document with `query`"
                )
            kept = np.delete(rows, repeated)
            of_documents.append(document[kept])
            of_grades.append(grade[kept])
        return Labels(judges, pairs, of_documents, of_grades, values, cluster[order], hashes)


def _check_number(grades: int) -> None:
    if grades > MOST_GRADES:
        raise ArgumentError(
            f"labels must have at most {MOST_GRADES} different grades; found {grades:,}; round them"
        )
