"""Labels of several judges: from tables to the labels of each document, checked and coded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, free, is_number, names
from polars_rank.checks import FAILED, Check, failed, raise_failed
from polars_rank.columns import Columns, check_single
from polars_rank.errors import ArgumentError, DataError, hint, number_of, short
from polars_rank.frames.tables import collected, schema_of
from polars_rank.judges.bootstrap import clusters
from polars_rank.stats._arrays import Array, np, require_scipy
from polars_rank.stats.query_hash import query_key
from polars_rank.stats.result_columns import deferred

if TYPE_CHECKING:
    from polars_rank._params import Names
    from polars_rank.columns import Label

_JUDGE, _GRADE, _KEY, _ROWS = (OWN + name for name in ("judge", "grade", "key", "rows"))
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
class JudgeTable:
    """The parameters that say which labels judges gave."""

    judge: str
    reference: Any
    query: Names
    doc: str
    label: Label
    categories: Sequence[float] | None
    by: Names | None

    def table(
        self,
        judgments: pl.LazyFrame,
        schema: Mapping[str, pl.DataType],
        rows: Callable[[Labels], Sequence[tuple[Any, ...]]],
    ) -> pl.LazyFrame:
        """Return the table of the rows of all groups, with the columns `by` and `schema`."""
        require_scipy()
        by = names("by", self.by)
        free(by, schema)
        plan = self._documents(judgments)
        given = plan.collect_schema()
        types = {**{name: given[name] for name in by}, **schema}

        def result() -> pl.DataFrame:
            documents = collected(plan)
            judges = documents.get_column(_JUDGE).explode().unique().cast(pl.String).sort()
            self._check_judges(judges.to_list(), judgments)
            tables = [pl.DataFrame(schema=types)]
            if documents.height:
                values = self._values(documents)
                for group in documents.partition_by(by) if by else [documents]:
                    labels = self._coded(group, values, judges.to_list())
                    table = pl.DataFrame(rows(labels), schema=schema, orient="row")
                    keys = (group.get_column(name).new_from_index(0, table.height) for name in by)
                    tables.append(pl.DataFrame([*keys, *table.get_columns()]))
            return pl.concat(tables).sort(by, maintain_order=True)

        return deferred(result, types)

    def _check_judges(self, judges: list[str], judgments: pl.LazyFrame) -> None:
        """Raise `DataError` for a judge without labels, or if there are no two judges."""
        name = pl.col(self.judge).cast(pl.String).alias(_JUDGE)
        rows = dict(collected(judgments.group_by(name).agg(pl.len().alias(_ROWS))).iter_rows())
        if not rows:
            return
        if not judges:
            raise DataError(
                f"column {self.label!r} has no labels ({number_of(sum(rows.values()), 'row')}); "
                "check that the labels were joined by the right keys"
            )
        if lacking := sorted({*rows} - {None, *judges}):
            raise DataError(
                f"the judge {lacking[0]!r} (column {self.judge!r}) has no labels "
                f"({number_of(rows[lacking[0]], 'row')}); check that the labels were joined by the "
                "right keys, or drop these rows"
            )
        check_judges(self.judge, judges, None if self.reference is None else str(self.reference))

    @cached_property
    def values(self) -> list[float] | None:
        """The grades of `categories`, in ascending order."""
        if self.categories is None:
            return None
        values = [*self.categories]
        if not values or not all(map(is_number, values)) or len({*values}) < len(values):
            raise ArgumentError(
                f"must be different numbers; found {short(self.categories)}", "categories"
            )
        _check_number(len(values))
        return sorted(map(float, values))

    def _documents(self, judgments: pl.LazyFrame) -> pl.LazyFrame:
        """Return a row for each labeled document, with lists of judges and grades."""
        schema = schema_of(judgments)
        check_single(schema, "label", self.label, judge_parameter="judge")
        roles = {name: getattr(self, name) for name in ("by", "query", "doc", "judge", "label")}
        query = Columns.find(schema, roles).query
        keys = [*names("by", self.by), *query, self.doc]
        judge = pl.col(self.judge).cast(pl.String).alias(_JUDGE)
        grade = pl.col(self.label).cast(pl.Float64).alias(_GRADE)
        rows = judgments.select(*keys, self.judge, self.label, judge, grade).drop_nulls(_GRADE)
        checks = [*self._checks(query)]
        flag = failed(checks, "row")
        documents = rows.select(*keys, pl.col(_JUDGE).cast(pl.Categorical), self._code, flag)
        documents = documents.group_by(keys).agg(_JUDGE, _GRADE, pl.col(FAILED).max())
        key = query_key(query, schema).alias(_KEY)
        return raise_failed(documents, checks, log=rows).with_columns(key)

    def _checks(self, query: Sequence[str]) -> Iterator[Check]:
        """Yield the checks of ids and labels."""
        nulls = [(f"{n!r} (`query`)", pl.col(n), "an id") for n in query]
        nulls.append((f"{self.doc!r} (`doc`)", pl.col(self.doc), "an id"))
        nulls.append((f"{self.judge!r} (`judge`)", pl.col(_JUDGE), "a name"))
        for name, column, missing in nulls:
            message = f"column {name} has nulls; drop these rows, or fill in {missing}"
            yield Check("row", column.is_null(), message)
        grade = pl.col(_GRADE)
        message = f"labels of {self.label!r} (`label`) are NaN or infinite; use null"
        yield Check("row", ~grade.is_finite(), message)
        if self.values is None:
            problem = "whole numbers that fit in Int32; list the grades in `categories`"
        else:
            problem = "in `categories`; add them, or drop the rows"
        message = f"labels of {self.label!r} (`label`) are not {problem}"
        yield Check("row", self._code.is_null(), message)

    @property
    def _code(self) -> pl.Expr:
        """The place of a grade in `categories`, or the grade itself; null if it is not valid."""
        grade = pl.col(_GRADE)
        if self.values is None:
            return pl.when(grade == grade.floor()).then(grade.cast(pl.Int32, strict=False))
        places = [*range(len(self.values))]
        return grade.replace_strict(self.values, places, default=None, return_dtype=pl.Int32)

    def _values(self, documents: pl.DataFrame) -> Array:
        """Return the grades of all judges and groups, in ascending order."""
        if self.values is not None:
            return np.array(self.values)
        values = documents.get_column(_GRADE).explode().unique().sort()
        _check_number(len(values))
        return values.cast(pl.Float64).to_numpy()

    def _pairs(self, judges: Sequence[str]) -> list[tuple[int, int]]:
        """Return the pairs of judges: each with the reference, or all."""
        if self.reference is None:
            return [*combinations(range(len(judges)), 2)]
        reference = judges.index(str(self.reference))
        return [(reference, number) for number in range(len(judges)) if number != reference]

    def _coded(self, documents: pl.DataFrame, values: Array, judges: Sequence[str]) -> Labels:
        """Return the labels of a group; raise if a judge gave a document two different ones."""
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


def check_judges(column: str, judges: Sequence[Any], reference: Any) -> None:
    """Raise `DataError` if the reference is not among the judges, or if there are no two."""
    if reference is not None and reference not in judges:
        raise DataError(
            f"no rows of the judge {reference!r} (`reference`); judges: {short(judges)}."
            f"{hint(str(reference), [*map(str, judges)])}"
        )
    if len(judges) < 2:
        raise DataError(
            f"column {column!r} (`judge`) has only the judge {judges[0]!r}; agreement needs two"
        )


def _check_number(grades: int) -> None:
    if grades > MOST_GRADES:
        raise ArgumentError(
            f"labels must have at most {MOST_GRADES} different grades; found {grades:,}; round them"
        )
