"""Terms of tied documents in reverse order, in a plan that sorts them in the other order.

In the best order of tied documents, those with the highest label come first; the worst order is its
reverse. A plan that sorts documents in the worst order thus has the labels of the best order, too.
"""

from __future__ import annotations

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import renamed
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.plan_terms import TIE_BEGIN, TIE_END, TIE_REVERSE, PlanTerms
from polars_rank.metrics.terms import RETRIEVED, SCORE, Value

#: Columns that are the same in both orders, because tied documents have the same score.
_SAME = {each.meta.root_names()[0] for each in (RETRIEVED, SCORE)}


class NotReverseError(Exception):
    """A term reads other columns than scores, labels and ranks."""


class ReverseTerms(PlanTerms):
    """Terms whose values are those of the reverse order of tied documents.

    They share the columns of an evaluation. Each row keeps its rank, and has the label of another
    document.
    """

    def __init__(self, shared: PlanTerms) -> None:
        vars(self).update(vars(shared))
        self.cutoffs.append(None)  # documents below a cutoff may be tied with one above

    def hits_column(self, rel: float | None) -> pl.Expr:
        """Return the running count of hits."""
        hits = super().hits_column(rel).cast(pl.Int64)
        above = hits - self.relevant(rel).cast(pl.Int64)
        here_or_above = hits.gather(TIE_END) - above.gather(TIE_REVERSE)
        return self.blocks.add(above.gather(TIE_BEGIN) + here_or_above)

    def own(self, _: pl.Expr) -> Value:
        """Raise `NotReverseError`: a user's expression may read any column."""
        raise NotReverseError

    def _column(self, term: pl.Expr) -> pl.Expr:
        """Return the term with the labels of the documents in reverse order."""
        names = {}
        for name in term.meta.root_names():
            if name not in _SAME and not name.startswith(OWN):
                if name not in ("label", "relevant"):
                    raise NotReverseError
                names[name] = self.blocks.add(pl.col(name).gather(TIE_REVERSE)).meta.output_name()
        return super()._column(renamed(term, names) if names else term)


def has_reverse(metric: pl.Expr) -> bool:
    """Return whether a metric has terms of the reverse order."""
    try:
        if isinstance(metric, Metric):
            metric.value(ReverseTerms(PlanTerms(whole_labels=False)))
            return True
    except NotReverseError:
        pass
    return False
