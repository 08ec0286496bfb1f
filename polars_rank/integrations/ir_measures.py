"""A provider of ir_measures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Unpack

from polars_rank._params import public
from polars_rank.conventions import IR_MEASURES, ConventionsLike, Definitions
from polars_rank.errors import RankError, recorded_warnings
from polars_rank.evaluation.evaluate import per_query
from polars_rank.integrations.packages import SMALL, imported
from polars_rank.io.lists import from_dicts

__all__ = ["provider"]


@public
def provider(conventions: ConventionsLike = IR_MEASURES, **definitions: Unpack[Definitions]) -> Any:
    """Return a provider of ir_measures that computes its measures with polars_rank.

    It supports the measures whose names `metric` reads, except those of subtopics and those with
    `judged_only`. With the default conventions, its values are those of the other providers.

    Examples
    --------
    >>> import ir_measures
    >>> from ir_measures import RR, nDCG
    >>> ours = pr.integrations.ir_measures.provider()
    >>> qrels = {"q1": {"a": 1, "b": 2}, "q2": {"c": 1}}
    >>> run = {"q1": {"b": 0.9, "a": 0.8}, "q2": {"a": 0.7, "c": 0.6}}
    >>> ours.calc_aggregate([nDCG@10, RR], qrels, run)
    {nDCG@10: 0.815..., RR: 0.75}

    Functions such as `ir_measures.calc_aggregate` use the first provider in a list that supports a
    measure. To use this one first:

    >>> ir_measures.DefaultPipeline.providers.insert(0, ours)
    >>> ir_measures.calc_aggregate([RR], qrels, run)
    {RR: 0.75}
    >>> ir_measures.DefaultPipeline.providers.remove(ours)

    Parameters
    ----------
    conventions
        Metric definitions to use. A preset, a `Conventions`, or a dictionary of its fields.
    **definitions
        Fields of `Conventions`, as keywords.

    Returns
    -------
    ir_measures.Provider
        Its methods are `calc_aggregate`, `iter_calc`, `calc` and `evaluator`. A judged query that
        the run lacks has the default value of the measure, which is 0, as with all providers. The
        value of an undefined measure that does not count is NaN.

    Raises
    ------
    MissingExtraError
        If ir_measures is not installed.
    ArgumentError
        For invalid conventions.
    """
    peer: Any = imported("ir_measures")
    options: Any = {"conventions": conventions, **definitions}

    class Evaluator(peer.Evaluator):  # type: ignore[misc]
        def _iter_calc(self, run: Any) -> Iterator[Any]:
            rankings = peer.util.RunConverter(run).as_dict_of_dict()
            measures = {str(each): each for each in self.measures}
            values = per_query(from_dicts(rankings, self.qrel_qids), measures, **options)
            for row in values.iter_rows(named=True):
                for name, measure in measures.items() if row["query"] in rankings else ():
                    value = math.nan if row[name] is None else row[name]
                    yield peer.Metric(row["query"], measure, value)

    class Provider(peer.Provider):  # type: ignore[misc]
        NAME = "polars_rank"

        def supports(self, measure: Any) -> bool:
            measure.validate_params()
            try:
                with recorded_warnings():
                    per_query(SMALL, str(measure), **options)
            except RankError:
                return False
            return measure.NAME in peer.measures.registry  # and not defined by the user

        def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Evaluator:
            judgments = peer.util.QrelsConverter(qrels).as_dict_of_dict()
            # The evaluator keeps them as `qrel_qids`, of which ir_measures reads the keys only.
            return Evaluator([*dict.fromkeys(measures)], judgments)

    per_query(SMALL, "rr", **options)  # raises ArgumentError for invalid conventions
    return Provider()


def __dir__() -> list[str]:
    return __all__
