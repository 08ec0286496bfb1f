"""Fairness of exposure for groups of documents: `group_exposure` and `awrf`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from polars_rank._params import (
    OWN,
    Names,
    check_column,
    find_columns,
    free,
    one_of,
    some_names,
)
from polars_rank.catalog.top_k import Rankings
from polars_rank.columns import RUN, Score, is_relevant
from polars_rank.conventions import Ties, lowest_relevant
from polars_rank.discounts import Discount
from polars_rank.evaluation.checks import Check, failed, raise_failed, weight_check
from polars_rank.evaluation.means import ratio
from polars_rank.evaluation.per_ranking import DOC
from polars_rank.frames.engines import Mergeable
from polars_rank.frames.ids import key_types
from polars_rank.frames.tables import framed, framed_by_query, is_table, lazy, schema_of

_MEMBER, _EXPOSURE, _TARGET, _TARGET_TOTAL = (
    OWN + name for name in ("membership", "exposure", "target", "target total")
)

#: The optional column of `doc_groups` with the membership of a document in a group.
MEMBERSHIP = "membership"


@dataclass(frozen=True)
class Groups:
    """Groups of documents, and the target distribution of exposure over them."""

    #: One row per document and group, with the columns `DOC`, `_MEMBER` and those of the group.
    members: pl.LazyFrame
    names: tuple[str, ...]
    target: Any

    @classmethod
    def of(
        cls, doc_groups: Any, group: Names, target: Any, log: Mapping[str, pl.DataType], doc: str
    ) -> Groups:
        """Check the tables; raise `SchemaError` or `ArgumentError` for an invalid one.

        `log` is the schema of the log.
        """
        table = lazy(doc_groups, "doc_groups")
        schema = schema_of(table)
        columns = find_columns(
            schema,
            {"doc": doc, "group": some_names("group", group)},
            ids=("doc", "group"),
            table="`doc_groups`",
        )
        if not is_table(target):
            one_of("target", target, ("items", "relevant"))
        tables = "the rankings", "`doc_groups`"
        types = key_types(log, schema, [doc], tables)
        member = pl.lit(1.0)
        if MEMBERSHIP in schema:
            check_column("doc_groups", MEMBERSHIP, schema, "number")
            member = pl.col(MEMBERSHIP).cast(pl.Float64)
        rows = table.select(
            pl.col(doc).cast(types[doc]).alias(DOC), *columns["group"], member.alias(_MEMBER)
        )
        checks = [
            weight_check(f"{MEMBERSHIP!r} of `doc_groups`", pl.col(_MEMBER)),
            Check(
                "row",
                pl.any_horizontal(pl.col(DOC, *columns["group"]).is_null()),
                "documents and groups of `doc_groups` must not be null; drop these rows",
            ),
        ]
        members = raise_failed(rows.with_columns(failed(checks, "row")), checks)
        return cls(members, columns["group"], target)

    def joined(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Join documents with their groups. The group of an unknown document is null."""
        return rows.cast({DOC: schema_of(self.members)[DOC]}).join(self.members, on=DOC, how="left")

    @property
    def is_known(self) -> pl.Expr:
        """Whether a row has a group."""
        return pl.col(self.names[0]).is_not_null()

    def overall(self) -> pl.LazyFrame:
        """Return the target of each group, in `_TARGET`, if it is the same for all rankings."""
        if not is_table(self.target):
            return self.members.group_by(self.names).agg(pl.col(_MEMBER).sum().alias(_TARGET))
        table = lazy(self.target, "target")
        schema = schema_of(table)
        find_columns(
            schema, {"group": self.names, "target": "target"}, numbers=("target",), table="`target`"
        )
        types = schema_of(self.members)
        key_types(types, schema, self.names, ("`doc_groups`", "`target`"))
        value = pl.col("target").cast(pl.Float64)
        check = weight_check("'target' of `target`", value)
        rows = table.select(
            *(pl.col(name).cast(types[name]) for name in self.names),
            value.alias(_TARGET),
            failed([check], "row"),
        )
        return raise_failed(rows, [check]).group_by(self.names).agg(pl.col(_TARGET).sum())

    def of_relevant(self, rankings: Rankings, rel: float, keys: Sequence[str]) -> pl.LazyFrame:
        """Return the sum of memberships of relevant documents, in `_TARGET`, by keys and group."""
        columns = rankings.columns
        relevant = rankings.log.filter(is_relevant(columns.number(columns.label), rel))
        rows = self.joined(relevant.select(*keys, pl.col(str(columns.doc)).alias(DOC)))
        return (
            rows.filter(self.is_known)
            .group_by(*keys, *self.names)
            .agg(pl.col(_MEMBER).sum().alias(_TARGET))
        )

    def exposures(
        self, documents: pl.LazyFrame, exposure: pl.Expr, keys: Sequence[str]
    ) -> pl.LazyFrame:
        """Return the exposure of groups, in `_EXPOSURE`, by keys.

        The exposure of unknown documents is in rows with a null group. A ranking without documents
        has such a row, too.
        """
        member = pl.col(_MEMBER).fill_null(1)
        return (
            self.joined(documents.select(*keys, DOC, exposure.alias(_EXPOSURE)))
            .group_by(*keys, *self.names)
            .agg((pl.col(_EXPOSURE) * member).sum())
        )

    @property
    def is_by_relevance(self) -> bool:
        """Whether the target is in proportion to the numbers of relevant documents."""
        return isinstance(self.target, str) and self.target == "relevant"

    def sums(
        self, rankings: Rankings, rel: float, keys: Sequence[str], discount: Discount | None
    ) -> pl.LazyFrame:
        """Return sums by keys and group: exposures, and in `_TARGET` relevant documents."""
        rows, own = rankings.documents()
        documents = rows.with_columns(pl.col(own.names[key]).alias(key) for key in keys)
        exposures = self.exposures(documents, rankings.exposure(discount), keys)
        parts = [exposures.with_columns(pl.lit(0.0).alias(_TARGET))]
        if self.is_by_relevance:
            relevant = self.of_relevant(rankings, rel, keys)
            parts.append(relevant.with_columns(pl.lit(0.0).alias(_EXPOSURE)))
        return self.merged(pl.concat(parts, how="diagonal_relaxed"), keys)

    def merged(self, sums: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Return the sums over several parts, by keys and group."""
        return sums.group_by(*keys, *self.names).agg(pl.col(_EXPOSURE, _TARGET).sum())

    def shares(self, exposures: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Return the shares of exposure and of the target of each group, by keys."""
        free([*keys, *self.names], ["exposure", "share", "target", "ratio"])
        exposures = exposures.cache()
        groups = self.members.select(self.names)
        if not self.is_by_relevance:
            target = self.overall()
            groups = pl.concat([groups, target.select(self.names)])
        groups = groups.unique()
        if keys:
            groups = exposures.select(keys).unique().join(groups, how="cross")
        rows = groups.join(exposures, on=[*keys, *self.names], how="left", nulls_equal=True)
        if not self.is_by_relevance:
            rows = rows.drop(_TARGET, strict=False)
            rows = rows.join(target, on=[*self.names], how="left", nulls_equal=True)
        totals = [pl.col(name).sum() for name in (_EXPOSURE, _TARGET)]
        total_exposure, total_target = (total.over(keys) if keys else total for total in totals)
        return (
            rows.with_columns(pl.col(_EXPOSURE, _TARGET).fill_null(0.0))
            .with_columns(
                share=ratio(pl.col(_EXPOSURE), total_exposure),
                target=ratio(pl.col(_TARGET), total_target),
            )
            .sort(*keys, *self.names)
            .select(
                *keys,
                *self.names,
                pl.col(_EXPOSURE).alias("exposure"),
                "share",
                "target",
                ratio(pl.col("share"), pl.col("target")).alias("ratio"),
            )
        )


@framed
def group_exposure(
    frame: pl.LazyFrame,
    k: int | None = 10,
    *,
    doc_groups: Any,
    group: Names = "group",
    target: Any = "items",
    discount: Discount | None = "log2",
    query: Names = "query",
    doc: str = "doc",
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    weight: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    ties: Ties | None = None,
    rel: float | None = None,
) -> Mergeable:
    r"""Exposure of each group of documents, and its share against a target.

    $$\mathrm{exposure}(g) = \sum_q \sum_{d \,:\, \mathrm{rank}_q(d) \le k}
    m(d, g) \cdot w_q \cdot \mathrm{discount}(\mathrm{rank}_q(d))$$

    where $m(d, g)$ is the membership of document d in group g.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "doc": ["a", "b", "c"], "score": [3.0, 2.0, 1.0],
    ... })
    >>> groups = pl.DataFrame({
    ...     "doc": ["a", "b", "c"], "group": ["north", "south", "south"],
    ... })
    >>> pr.catalog.group_exposure(
    ...     log, 2, doc_groups=groups, discount="reciprocal"
    ... )
    shape: (2, 5)
    ┌───────┬──────────┬──────────┬──────────┬───────┐
    │ group ┆ exposure ┆ share    ┆ target   ┆ ratio │
    │ ---   ┆ ---      ┆ ---      ┆ ---      ┆ ---   │
    │ str   ┆ f64      ┆ f64      ┆ f64      ┆ f64   │
    ╞═══════╪══════════╪══════════╪══════════╪═══════╡
    │ north ┆ 1.0      ┆ 0.666667 ┆ 0.333333 ┆ 2.0   │
    │ south ┆ 0.5      ┆ 0.333333 ┆ 0.666667 ┆ 0.5   │
    └───────┴──────────┴──────────┴──────────┴───────┘

    Parameters
    ----------
    frame
        Long table with one row per document of a ranking. A document without a score was not
        retrieved.
    k
        Cutoff, at least 1; None for whole rankings.
    doc_groups
        Table of the groups of documents: the columns `doc` and `group`, and optionally
        `membership`, a number of 0 or more, by default 1. A document may be in several groups, or
        partly in each; its memberships in a group add up.
    group
        Column of the group in `doc_groups`, or several columns: each combination of their values
        is a group.
    target
        Share of exposure that each group should have: in proportion to its documents in
        `doc_groups` ("items"); in proportion to its relevant documents, counted once per query
        ("relevant"); or a table with the columns of `group` and a column `target` of numbers in any
        unit.
    discount
        Exposure of a document at a rank, by name ("log2", "reciprocal", ...) or as a function;
        see `pr.discounts`. None: 1 at each of the first k ranks.
    query
        Column of the query or the user, or several columns that identify it.
    doc
        Column of the document id, in both tables.
    score
        Column of the score, higher is better; "-distance" if lower is better; or an expression.
    label
        Column of the relevance label, which the target "relevant" reads.
    position
        Column of the position at which a document was shown, 1 first; replaces `score`.
    weight
        Column of the weight of a ranking, such as its traffic: finite numbers of 0 or more.
    run
        Column of the run. Default: "run" if the table has it. None: there is no such column.
    by
        Columns that split the table, such as the language.
    ties
        Order of documents with equal scores: "doc" (id descending; default), "doc_ascending" or
        "input".
    rel
        Lowest relevant label. Default: 1.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`, in the order of its keys: one row for each group of `doc_groups` and of the
        target, for each value of `by`, with the `by`, `run` and `group` columns and

        - `exposure`: the sum over rankings and documents;
        - `share`: the share of the exposure of all groups;
        - `target`: the share that the group should have, 0 if it is not in the target;
        - `ratio`: share / target; below 1 if the group has too little exposure; null if the target
          is 0.

        Documents that are not in `doc_groups` keep their ranks but count for no group.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        For null queries, NaN or infinite scores, duplicate documents in a ranking, and null groups
        or invalid numbers in the tables. A lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter.

    Notes
    -----
    To combine several attributes with partial memberships in one table, join their tables on the
    document and multiply the memberships.

    References
    ----------
    Singh & Joachims, Fairness of exposure in rankings, 2018.
    """
    lowest = lowest_relevant(rel)
    rankings = partial(
        _rankings, k=k, target=target, query=query, doc=doc, score=score, label=label,
        position=position, run=run, by=by, ties=ties,
    )  # fmt: skip
    columns = rankings(frame).with_weight(weight).columns
    columns.check_other("group", some_names("group", group))
    groups, own_by = Groups.of(doc_groups, group, target, columns.schema, doc), columns.by

    def add_up(log: pl.LazyFrame) -> pl.LazyFrame:
        return groups.sums(rankings(log).with_weight(weight), lowest, own_by, discount)

    merge, finish = partial(groups.merged, keys=own_by), partial(groups.shares, keys=own_by)
    return Mergeable(columns.query, add_up, merge, finish)


@framed_by_query
def awrf(
    frame: pl.LazyFrame,
    k: int | None = 10,
    *,
    doc_groups: Any,
    group: Names = "group",
    target: Any = "items",
    discount: Discount | None = "jarvelin",
    query: Names = "query",
    doc: str = "doc",
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    ties: Ties | None = None,
    rel: float | None = None,
) -> pl.LazyFrame:
    r"""Attention-weighted rank fairness (AWRF) of each ranking, as in TREC Fair Ranking 2022.

    $$\mathrm{AWRF} = 1 - \frac12 \sum_g \left(p_g \ln \frac{2 p_g}{p_g + t_g} +
    t_g \ln \frac{2 t_g}{p_g + t_g}\right)$$

    where $p_g$ is the share of group g in the exposure of a ranking, and $t_g$ the share that it
    should have. AWRF is 1 minus the Jensen-Shannon divergence of the two distributions.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "doc": ["a", "b", "c"], "score": [3.0, 2.0, 1.0],
    ... })
    >>> groups = pl.DataFrame({
    ...     "doc": ["a", "b", "c"], "group": ["north", "north", "south"],
    ... })
    >>> pr.catalog.awrf(log, doc_groups=groups)
    shape: (1, 2)
    ┌───────┬──────────┐
    │ query ┆ awrf     │
    │ ---   ┆ ---      │
    │ i32   ┆ f64      │
    ╞═══════╪══════════╡
    │ 1     ┆ 0.994634 │
    └───────┴──────────┘

    Parameters
    ----------
    frame
        Long table with one row per document of a ranking. A document without a score was not
        retrieved.
    k
        Cutoff, at least 1; None for whole rankings.
    doc_groups
        Table of the groups of documents: the columns `doc` and `group`, and optionally
        `membership`, a number of 0 or more, by default 1. A document may be in several groups, or
        partly in each; its memberships in a group add up.
    group
        Column of the group in `doc_groups`, or several columns: each combination of their values
        is a group.
    target
        Share of exposure that each group should have: in proportion to its documents in
        `doc_groups` ("items"); in proportion to its documents that are relevant to the query
        ("relevant"); or a table with the columns of `group` and a column `target` of numbers in
        any unit.
    discount
        Exposure of a document at a rank, by name or as a function; see `pr.discounts`. Default:
        "jarvelin", 1 / log2(max(rank, 2)), as in TREC Fair Ranking. None: 1 at each rank.
    query
        Column of the query, or several columns that identify it.
    doc
        Column of the document id, in both tables.
    score
        Column of the score, higher is better; "-distance" if lower is better; or an expression.
    label
        Column of the relevance label, which the target "relevant" reads.
    position
        Column of the position at which a document was shown, 1 first; replaces `score`.
    run
        Column of the run. Default: "run" if the table has it. None: there is no such column.
    by
        Columns that split the table, such as the language.
    ties
        Order of documents with equal scores: "doc" (id descending; default), "doc_ascending" or
        "input".
    rel
        Lowest relevant label. Default: 1.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`, in the order of its keys: one row per ranking, with the `by`, `run` and
        `query` columns and `awrf` in [1 - ln 2, 1]; null if no retrieved document has a group, or
        the target is empty. `summarize` and `compare` take this table.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        For null queries, NaN or infinite scores, duplicate documents in a ranking, and null groups
        or invalid numbers in the tables. A lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter.

    Notes
    -----
    Documents that are not in `doc_groups` keep their ranks but count for no group. To combine
    several attributes with partial memberships in one table, join their tables on the document and
    multiply the memberships.

    The code of TREC Fair Ranking 2022 computes discounts in 32 bits. Other tools use the name AWRF
    for 1 minus other distances between the two distributions, such as the absolute difference of
    shares.

    References
    ----------
    Sapiezynski et al., Quantifying the impact of user attention on fair group representation in
    ranked lists, 2019. Ekstrand et al., Overview of the TREC 2022 Fair Ranking Track, 2023.
    """
    lowest = lowest_relevant(rel)
    rankings = _rankings(frame, k, target, query, doc, score, label, position, run, by, ties)
    rankings.columns.check_other("group", some_names("group", group))
    groups = Groups.of(doc_groups, group, target, rankings.columns.schema, doc)
    keys = rankings.columns.keys
    free([*keys, *groups.names], ["awrf"])
    shares = groups.sums(rankings, lowest, keys, discount)
    if groups.is_by_relevance:
        shares = shares.with_columns(pl.lit(None, pl.Float64).alias(_TARGET_TOTAL))
    else:
        distribution = groups.overall()
        # A cross join, because a ranking may have no group of the target.
        total = distribution.select(pl.col(_TARGET).sum().alias(_TARGET_TOTAL))
        shares = shares.drop(_TARGET).join(distribution, on=groups.names, how="left")
        shares = shares.join(total, how="cross")
        shares = shares.with_columns(pl.col(_TARGET).fill_null(0.0))
    value = _one_minus_divergence(groups.is_known)
    return shares.group_by(keys).agg(value.alias("awrf")).sort(keys)


def _one_minus_divergence(known: pl.Expr) -> pl.Expr:
    """Return 1 minus the Jensen-Shannon divergence, as an aggregation of the groups of a ranking.

    `_TARGET_TOTAL` is the sum of the target over all groups; null if all of them have rows.
    """
    exposure, target = (pl.col(name).filter(known) for name in (_EXPOSURE, _TARGET))
    p = exposure / exposure.sum()
    total = pl.col(_TARGET_TOTAL).max().fill_null(target.sum())
    t = target / total
    mean = (p + t) / 2
    terms = [pl.when(x > 0).then(x * (x / mean).log()).otherwise(0.0).sum() for x in (p, t)]
    # A group of the target without a row has no exposure.
    absent = (1 - t.sum()) * math.log(2)
    divergence = (terms[0] + terms[1] + absent) / 2
    defined = (exposure.sum() > 0) & (total > 0)
    return pl.when(defined).then((1 - divergence).clip(1 - math.log(2), 1))


def _rankings(
    frame: pl.LazyFrame,
    k: int | None,
    target: Any,
    query: Names,
    doc: str,
    score: Score,
    label: str,
    position: str | None,
    run: str | None,
    by: Names | None,
    ties: Ties | None,
) -> Rankings:
    """Return the rankings, with labels if the target needs them."""
    read = label if isinstance(target, str) and target == "relevant" else None
    return Rankings.of(
        frame, k,
        query=query, doc=doc, score=score, position=position, run=run, by=by, ties=ties, label=read,
    )  # fmt: skip
