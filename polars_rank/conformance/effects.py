"""What choices have an effect on a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from polars_rank.conformance.changes import ALTERNATIVES
from polars_rank.gains import GAINS, LARGEST_EXP2_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

#: The treatments of copies of a document.
TREATMENTS = tuple(each for each in ALTERNATIVES["duplicates"] if each != "error")
#: More distinct labels than this are not grades, each of which could be the lowest relevant label.
_GRADES = 10


class Effects(NamedTuple):
    """Facts of a log that decide which choices have an effect."""

    #: Whether documents are tied, by whether scores are compared with 32 bits.
    tied: Mapping[bool, bool]
    #: Whether more documents are tied with 32 bits.
    narrowed: bool
    #: Whether there are unjudged documents, judged ones that were not retrieved, and copies.
    unjudged: bool
    unretrieved: bool
    copies: bool
    #: The distinct labels in ascending order.
    labels: Sequence[float]

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Effects:
        """Return the effects on a log with these rows of `batch.documents`."""
        retrieved, judged = (rows.filter(name) for name in ("retrieved", "judged"))
        scores = [retrieved.get_column(name).n_unique() for name in ("score", "score32")]
        labels = sorted(rows.get_column("label").drop_nulls().unique())
        pairs = rows.select("pair").drop_nulls() if "pair" in rows else rows.select("row")
        return cls(
            tied={narrow: scores[narrow] < retrieved.height for narrow in (False, True)},
            narrowed=scores[0] > scores[1],
            unjudged=not retrieved.get_column("judged").all(),
            unretrieved=not judged.get_column("retrieved").all(),
            copies=pairs.n_unique() < pairs.height,
            labels=[int(each) if each.is_integer() else each for each in labels],
        )

    @property
    def grades(self) -> Sequence[float]:
        """The labels that may be the lowest relevant one."""
        return self.labels[1:] if len(self.labels) <= _GRADES else ALTERNATIVES["rel"]

    def allow(self, choices: Mapping[str, Any]) -> bool:
        """Return whether the gains of choices accept the labels of the log."""
        highest = self.labels[-1] if self.labels else 0
        exponential = choices.get("gain") == "exp2" and highest > LARGEST_EXP2_LABEL
        full = choices.get("ideal") == "full" and choices["gain"] != "binary" and highest > 1
        return not exponential and not full

    def plain(self, choices: Mapping[str, Any]) -> dict[str, Any]:
        """Return choices without those that have no effect."""
        plain = {**choices}
        plain["float32_scores"] &= self.narrowed
        if not self.tied[plain["float32_scores"]]:
            plain["ties"] = "input"
        if plain["ties"] not in ("doc", "doc_ascending"):
            plain["text_ids"] = False
        if not self.unjudged:
            plain["unjudged"] = "nonrelevant"
        if not self.copies:
            plain["duplicates"] = "error"
            if not self.unretrieved and plain.get("ideal") == "retrieved":
                plain["ideal"] = "judged"
        if plain.get("gain") in GAINS and {*self.labels} <= {0, 1}:
            plain["gain"] = "linear"
        lowest = plain.get("gain_from")
        if lowest is not None and not any(0 != each < lowest for each in self.labels):
            plain["gain_from"] = None
        if plain.get("rel") is not None:
            plain["rel"] = next((each for each in self.labels if each >= plain["rel"]), None)
        return plain
