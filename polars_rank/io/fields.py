"""Names of the fields of judgments and results in files, and the roles that they have."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from polars_rank.columns import IDS, POSITIONS, RUNS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

Kind: TypeAlias = Literal["judgments", "run"]

#: The column of labels or scores that a kind of file has.
VALUE: dict[Kind, str] = {"judgments": "label", "run": "score"}


@lru_cache(4096)
def plain(name: str) -> str:
    """Return a name in lower case without separators: "query-id" and "queryId" are one name."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


_QUERY_ID = ("queryid", "qid", "topicid")
_TEXT = ("query", "question", "querytext", "searchtext", "userinput", "input")
_ID = ("id",)
_DOC = (
    *("doc", "docid", "corpusid", "chunkid", "nodeid"),
    *(name for name in sorted(map(plain, IDS)) if name != "docid"),
)
_RUN = (*(name for name in sorted(map(plain, RUNS))), "searchconfigurationid")
_RANK = (*POSITIONS, "docposition")
_VALUE: dict[Kind, tuple[str, ...]] = {
    "judgments": (
        *("label", "relevance", "rating", "grade", "rel", "judgment", "judgement", "gain"),
        *("relevant", "score"),  # the label in the files of BEIR
    ),
    "run": ("score", "similarity", "relevancescore"),
}
#: Lists of documents of a query.
_PART = r"(doc|document|chunk|passage|source)?s?(id)?s?"
_LIST: dict[Kind, re.Pattern[str]] = {
    "judgments": re.compile(
        rf"(relevant|expected|gold|golden|positive){_PART}|(reference|relevant)contextids"
        "|groundtruth(doc|document|chunk)?ids|ratings|qrels|grades|judgments"
    ),
    "run": re.compile(
        rf"(retrieved|predicted|returned|ranked){_PART}|(retrieved)?contextids|documents?(ids)?"
        "|docs?(ids)?|(result|hit|prediction)s?(ids)?|ranking|matches"
    ),
}


class Roles:
    """The fields of a record or the columns of a table, by role; None if there is none."""

    def __init__(self, names: Iterable[str], kind: Kind) -> None:
        known: dict[str, str] = {}
        for name in names:
            known.setdefault(plain(name), name)

        def first(candidates: Iterable[str]) -> str | None:
            return next((known[each] for each in candidates if each in known), None)

        self.query_id: str | None = first(_QUERY_ID)
        self.text: str | None = first(_TEXT)
        self.id: str | None = first(_ID)
        self.run: str | None = first(_RUN)
        self.rank: str | None = first(_RANK)
        self.doc: str | None = first(_DOC)
        self.value: str | None = first(_VALUE[kind])
        self.lists: list[str] = [known[each] for each in known if _LIST[kind].fullmatch(each)]
        self.lists.sort(key=lambda name: not plain(name).endswith("ids"))
        #: Fields that are not kept: they have a role, also in files of the other kind.
        values = {*_VALUE["judgments"], *_VALUE["run"], *_RANK, "query", "doc", "text"}
        self.known: set[str | None] = {
            *(self.query_id, self.text, self.id),
            *([self.run] if kind == "run" else []),
            *(known[each] for each in values & known.keys()),
        }


@lru_cache(64)
def _roles(names: tuple[str, ...], kind: Kind) -> Roles:
    return Roles(names, kind)


def roles_of(record: Mapping[str, Any], kind: Kind) -> Roles:
    """Return the roles of the fields of a record; records mostly have the same fields."""
    return _roles(tuple(record), kind)


def is_id(name: str, kind: Kind) -> bool:
    """Return whether a column has ids, texts of queries, or lists of ids, which are all text."""
    key = plain(name)
    return key in {*_QUERY_ID, *_TEXT, *_ID, *_DOC, *_RUN} or bool(_LIST[kind].fullmatch(key))


def expected(kind: Kind) -> str:
    """Return what a record needs, for messages."""
    lists = "relevant" if kind == "judgments" else "results"
    return (
        "a record needs a query (query_id, id, query or question) and documents: a list or "
        f"mapping such as {lists!r}, or one document (doc_id)"
    )


def listed(names: Collection[str]) -> str:
    """Return names for messages."""
    return ", ".join(map(repr, names)) or "none"
