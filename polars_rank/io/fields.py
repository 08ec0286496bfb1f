"""The fields of files of judgments and results: which field has which role.

A role is named by the user (`fields`), or known by the table of names. A field with an unknown name
that could have a role which is still free is an error that lists the fields, never a guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeAlias

import polars as pl

from polars_rank.columns import RUNS
from polars_rank.errors import ArgumentError, SchemaError, hint, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Kind: TypeAlias = Literal["judgments", "run"]
#: Fields by role, as the user names them; None if there is no such field.
FieldNames: TypeAlias = "Mapping[str, str | None]"

NO_FIELDS: FieldNames = {}
#: The column of labels or scores, and the role of the list of documents, by kind of file.
VALUE: dict[Kind, str] = {"judgments": "label", "run": "score"}
LISTS: dict[Kind, str] = {"judgments": "relevant", "run": "results"}
#: What stands before a role in `fields` if it is meant for one of two files.
_PREFIX: dict[Kind, str] = {"judgments": "judgments.", "run": "results."}
#: The value of a field that a record does not have.
MISSING = ...
#: Fields of an element of a list that hold the document.
WRAPPERS = ("hit", "document", "doc", "node")

#: Types of values. A "column" of text may have numbers, which reading it shows.
_ID = frozenset({"text", "numeric", "whole", "huge", "column"})
_NUMBER = frozenset({"whole", "huge", "number", "numeric", "flag", "column"})
_LIST = frozenset({"list", "object"})
_NEEDS = {
    _ID: "but ids are text or whole numbers",
    _NUMBER: "which must be a number",
    _LIST: "which must be a list of ids, such as ['d1', 'd2']",
}


class FieldRole(NamedTuple):
    """The meaning of a field, the types of its values, and patterns of its names.

    The names that match the first pattern which a field matches count. Two are an error.
    """

    meaning: str
    types: frozenset[str]
    patterns: tuple[str, ...]


_FILE: dict[str, dict[str, list[str]]] = json.loads(
    Path(__file__).with_name("fields.json").read_text("utf-8").replace("{runs}", "|".join(RUNS))
)
_KINDS_OF_VALUES = {"id": _ID, "number": _NUMBER, "list": _LIST, "flag": frozenset({"flag"})}
_KINDS_OF_VALUES["any"] = _ID | _NUMBER | _LIST


def _role(meaning: str, values: str, *patterns: str) -> FieldRole:
    # Of two lists, such as "relevant_texts" and "relevant_ids", that of ids counts.
    first = [f"(?=.*ids$)({each})" for each in patterns if values == "list"]
    return FieldRole(meaning, _KINDS_OF_VALUES[values], (*first, *patterns))


ROLES: dict[Kind, dict[str, FieldRole]] = {
    kind: {role: _role(*row) for role, row in {**_FILE["shared"], **_FILE[kind]}.items()}
    for kind in VALUE
}
#: The patterns of fields of documents in a list, where they differ: "id" is of the document, next
#: to which others describe it, and pairs and mappings have "id" and "value".
_INSIDE = _FILE["inside"]
#: Roles that `fields` cannot name.
_UNNAMED_ROLES = ("text", "answerable")
#: Names of numbers that are neither labels nor scores, and of users, who are queries in logs.
_NEUTRAL = "forbidden|page(number)?|chunkindex|index|timestamp|(created|updated)at|latency(ms)?"
_USER = "user(id)?|session(id)?"
#: Fields with a meaning in one of the two kinds of files, which are no columns of the other.
_VALUES = (*_FILE["judgments"]["label"][2:], *_FILE["run"]["score"][2:], *_FILE["run"]["rank"][2:])
_KNOWN = "|".join(("query|id|doc|text", *_VALUES))


@lru_cache(4096)
def plain(name: str) -> str:
    """Return a name in lower case without separators: "query-id" and "queryId" are one name."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@lru_cache(4096)
def place(name: str, role: str, kind: Kind, *, inside: bool = False) -> int | None:
    """Return the number of the pattern of a role that a name matches, or None."""
    about = ROLES[kind].get(role)
    patterns = (inside and _INSIDE.get(role)) or (() if about is None else about.patterns)
    found = (n for n, pattern in enumerate(patterns) if re.fullmatch(pattern, plain(name)))
    return next(found, None)


def is_list(name: str, kind: Kind, given: FieldNames) -> bool:
    """Return whether a field may be the list of documents: it is named or known so."""
    return name == given.get(LISTS[kind]) or place(name, LISTS[kind], kind) is not None


def is_query(name: str, given: FieldNames) -> bool:
    """Return whether a field may be the query or its text. An "id" may be of something else."""
    return name == given.get("query") or _names_query(name)


@lru_cache(4096)
def _names_query(name: str) -> bool:
    return any(place(name, role, "run") is not None for role in ("query", "text"))


def is_known(name: str, kind: Kind, given: FieldNames) -> bool:
    """Return whether a field has a role that the user named or that its name tells."""
    is_named = name in given.values() or re.fullmatch(f"id|{_USER}", plain(name))
    return bool(is_named) or any(place(name, role, kind) is not None for role in ROLES[kind])


def is_text(name: str, kind: Kind, given: FieldNames) -> bool:
    """Return whether a column of a text file has ids, texts or lists of them, and no numbers."""
    roles = ("query", "text", "doc", "run", LISTS[kind])
    return (
        name in {given.get(role) for role in roles}
        or bool(re.fullmatch(f"id|{_USER}", plain(name)))
        or (plain(name) != "relevant" and any(place(name, r, kind) is not None for r in roles))
    )


def is_number(text: str) -> bool:
    """Return whether a text is a finite number."""
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def listed(names: Iterable[Any], most: int | None = None) -> str:
    """Return names in quotes for messages: at most `most`, and the number of the others."""
    texts = [*map(repr, names)]
    more = len(texts) - (len(texts) if most is None else most)
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "") or "none"


def checked_fields(given: Any, *kinds: Kind) -> dict[str, str | None]:
    """Return `fields` for these kinds of files; raise `ArgumentError` if it is invalid."""
    if not isinstance(given, (Mapping, type(None))):
        raise ArgumentError(
            "must be a mapping from roles to fields, e.g. {'label': 'relevancy'}; "
            f"found {short(given)}",
            "fields",
        )
    pairs = [(kind, role) for kind in kinds for role in ROLES[kind] if role not in _UNNAMED_ROLES]
    roles = [*dict.fromkeys(role for _, role in pairs)]
    known = {*roles, *(_PREFIX[kind] + role for kind, role in pairs if len(kinds) > 1)}
    for role, name in (given or {}).items():
        if role not in known:
            raise ArgumentError(
                f"has the unknown role {short(role)}.{hint(str(role), roles)} "
                f"Roles: {', '.join(roles)}",
                "fields",
            )
        if name is not None and (not isinstance(name, str) or not name):
            raise ArgumentError(
                f"must map {role!r} to the name of a field, or to None if there is none; "
                f"found {short(name)}",
                "fields",
            )
    return dict(given or {})


def fields_of(given: FieldNames, kind: Kind) -> dict[str, str | None]:
    """Return the fields of one kind of file from those of both."""
    own = {role.removeprefix(_PREFIX[kind]): name for role, name in given.items()
           if role.startswith(_PREFIX[kind])}  # fmt: skip
    return {role: name for role, name in given.items() if role in ROLES[kind]} | own


def check_found(
    given: FieldNames, found: Mapping[Kind, Iterable[str]], names: Iterable[str]
) -> None:
    """Raise `SchemaError` if no file has a field that the user named.

    `found` has the roles whose fields files of each kind have; `names` are all fields of the files.
    """
    roles = {part + role for kind, each in found.items() for role in each
             for part in ("", _PREFIX[kind])}  # fmt: skip
    for role, name in given.items():
        if name is not None and role not in roles:
            known = [*dict.fromkeys(names)]
            raise SchemaError(
                f"no file has the field {name!r}, which `fields` names as {role!r}."
                f"{hint(name, known)} Fields: {listed(known)}"
            )


class FieldValues(NamedTuple):
    """The types of values, and the values with their places; of a column, only its type."""

    types: frozenset[str]
    values: Sequence[Any]
    places: Sequence[str]
    #: The list with the documents that have the field; empty for fields of records.
    list: str = ""

    @classmethod
    def of(cls, values: Sequence[Any], places: Sequence[str], list_: str = "") -> FieldValues:
        """Return the values of a field of records, or of the documents in a list."""
        return cls(_types(values), values, places, list_)

    @classmethod
    def of_column(cls, dtype: pl.DataType) -> FieldValues:
        """Return a column of a table as a field."""
        types = {
            "whole": dtype.is_integer(),
            "number": dtype.is_float() or dtype.is_decimal(),
            "flag": dtype == pl.Boolean,
            "column": dtype in (pl.String, pl.Categorical, pl.Enum),
            "list": dtype.is_nested() and dtype != pl.Struct,
            "object": dtype == pl.Struct,
        }
        known = {name for name, fits in types.items() if fits} or {str(dtype)}
        return cls(frozenset(known if dtype != pl.Null else ()), [dtype], [""])


def _types(values: Sequence[Any]) -> frozenset[str]:
    """Return the types of values; null and empty text are no values."""
    kinds = {*map(type, values)} - {type(None), type(MISSING)}
    types = {_TYPES.get(kind, kind.__name__) for kind in kinds - {int, str}}
    if int in kinds:
        types |= {
            "whole" if -(2**63) <= each < 2**63 else "huge" for each in values if type(each) is int
        }
    if str in kinds and (texts := [each for each in values if type(each) is str and each]):
        types.add("numeric" if all(map(is_number, texts)) else "text")
    return frozenset(types)


def _are_numbers(lists: Sequence[Any], documents: Sequence[Any]) -> bool:
    """Return whether lists have a number for each document in the lists of documents."""
    pairs = [(each, of) for each, of in zip(lists, documents, strict=True) if of]
    return bool(pairs) and all(
        isinstance(each, list) and len(each) == len(of) and _types(each) <= {"whole", "number"}
        for each, of in pairs
    )


_TYPES: dict[type, str] = {bool: "flag", float: "number", dict: "object", list: "list"}


class Fields:
    """The fields of a file, and the roles that were found for them.

    Fields of documents in the list of a query have its name as prefix, as in "relevant.id".
    `SchemaError` if a role has no field, or may have several.
    """

    def __init__(self, kind: Kind, fields: Mapping[str, FieldValues], given: FieldNames) -> None:
        self.kind: Kind = kind
        self.fields: Mapping[str, FieldValues] = fields
        #: The fields that the user names and that the file has.
        self.given: FieldNames = {
            role: name for role, name in given.items()
            if name is None or any(each == name or each.endswith(f".{name}") for each in fields)
        }  # fmt: skip
        self.absent: list[str] = [
            repr(name) for role, name in given.items() if role not in self.given
        ]
        self.roles: dict[str, str] = {}
        #: The list of documents if there is one, and the prefix of their fields.
        self.documents: str | None = None
        self.inside: str = ""
        self._find(LISTS[kind])
        if is_listed := LISTS[kind] in self.roles:
            self.documents = self.roles[LISTS[kind]]
            self.inside = f"{self.documents}."
        self._find_query()
        for role in ROLES[kind]:
            if role not in ("query", "text", LISTS[kind]):
                of_document = role in ("doc", "label", "score", "rank", "start", "end")
                self._find(role, inside=is_listed and of_document)
        if is_listed:
            self._check_beside()
        if "query" not in self.roles:
            self._fail_missing("query")
        if "doc" not in self.roles and not is_listed and "error" not in self.roles:
            self._fail_missing(LISTS[kind], "doc")
        if "doc" not in self.roles and self.names(inside=True):
            self._fail_missing("doc", inside=True)
        if "doc" in self.roles and not {VALUE[kind], "rank"} & self.roles.keys():
            self._refuse_unknown()
            if kind == "run" and not is_listed:
                self._fail_missing("score")

    def names(self, *, inside: bool = False) -> list[str]:
        """Return the fields of records, or those of documents in a list."""
        holder = self.documents or "\0" if inside else ""
        return [name for name, field in self.fields.items() if field.list == holder]

    def columns(self) -> dict[str, str]:
        """Return the fields of records that are further columns, by the name of the column."""
        names, used = self.names(), {*self.roles.values()}
        by_role = ["run", "start", "end", "category", "forbidden", "latency", "error", "answerable"]
        found = {role: self.roles[role] for role in by_role if self.roles.get(role) in names}
        for name in names:
            if name in used or re.fullmatch(_KNOWN, plain(name)):
                continue
            if name in found:
                self.fail(f"{found[name]!r} and {name!r} would both be the column {name!r}")
            found[name] = name
        return found

    def _find(self, role: str, *, inside: bool = False) -> None:
        """Find the field of a role: the one that the user names, or that the table knows."""
        names = self.names(inside=inside)
        if role in self.given:
            wanted = self.given[role]
            fits = [n for n in names if wanted in (n, n.removeprefix(self.inside))]
            fits = fits or [n for n in names if wanted == n.rpartition(".")[2]]
        else:
            types = ROLES[self.kind][role].types
            taken = {*self.roles.values(), *self.given.values()}
            places = {
                name: known for name in names
                if name not in taken and (not self.fields[name].types
                                          or self.fields[name].types & types)
                and (known := self._place(name, role, inside=inside)) is not None
            }  # fmt: skip
            fits = [name for name in places if places[name] == min(places.values())]
        self._take(role, fits)

    def _take(self, role: str, fits: list[str]) -> None:
        """Give the only field that fits a role."""
        if len(fits) > 1:
            self.fail(
                f"{fits[0]!r} and {fits[1]!r} can both be {ROLES[self.kind][role].meaning}; write "
                f"{self.line(role, self.last(fits[0]))}"
            )
        for name in fits:
            self._require(name, role)
            self.roles[role] = name

    def _find_query(self) -> None:
        """Find the query: its id, otherwise its text.

        Next to a text, "id" is of the query. Otherwise it may be of the query if nothing else is.
        """
        self._find("query")
        self._find("text")
        if "query" in self.roles or "query" in self.given:
            return
        pattern = "id" if "text" in self.roles else f"id|{_USER}"
        fits = [
            name for name in self.names()
            if name not in self.given.values() and re.fullmatch(pattern, plain(name))
        ]  # fmt: skip
        if not fits and "text" in self.roles:
            fits = [self.roles.pop("text")]
        self._take("query", fits)

    def _check_beside(self) -> None:
        """Refuse labels or scores in a list of their own, and a document beside a list."""
        role, documents = VALUE[self.kind], str(self.documents)
        self._require_known(self.names(), "forbidden", inside=False)
        others = (documents, self.roles.get("forbidden"))
        is_open = role not in self.roles and self.given.get(role, "") is not None
        for name in self.names():
            values, is_known = self.fields[name], self._place(name.removesuffix("s"), role) == 0
            is_known = name == self.given[role] if role in self.given else is_known
            if is_open and values.types == {"list"} and name not in others:
                if is_known or _are_numbers(values.values, self.fields[documents].values):
                    self.fail(
                        f"{name!r} has numbers for the documents in {documents!r}; write each "
                        f"{role} beside its document, as in ['d1', 2]; if there is no {role}, "
                        f"write {self.line(role, None)}"
                    )
            elif is_open and values.types == {"list"} and is_known and self.names(inside=True):
                self.fail(
                    f"the documents in {name!r} have no {role}; if they need none, write "
                    f"{self.line(role, None)}"
                )
            if self._place(name, "doc") == 0 and not {LISTS[self.kind], "doc"} & self.given.keys():
                self._take(LISTS[self.kind], [documents, name])

    def _require(self, name: str, role: str) -> None:
        """Raise an error for the first value of a field that cannot have a role."""
        about, field = ROLES[self.kind][role], self.fields[name]
        if field.types <= about.types:
            return
        for where, value in zip(field.places, field.values, strict=True):
            if not _types([value]) <= about.types:
                problem = _NEEDS.get(about.types, f"which cannot be {about.meaning}")
                found = f"{where} has {short(value)} in {name!r}"
                self.fail(f"{found if where else f'{name!r} has the type {value}'}, {problem}")

    def _require_known(self, names: Iterable[str], role: str, *, inside: bool) -> None:
        """Raise an error for a field whose name is of a role, and whose values cannot have it."""
        for name in names:
            is_known = self._place(name, role, inside=inside) is not None
            if is_known and name not in self.roles.values():
                self._require(name, role)

    def _refuse_unknown(self) -> None:
        """Raise an error for a field of numbers that may be the label or the score."""
        role, inside = VALUE[self.kind], self.documents is not None
        if role in self.given:
            return
        names = self.names(inside=inside)
        self._require_known(names, role, inside=inside)
        used = {*self.roles.values(), *self.given.values()}
        for name in (each for each in names if each not in used):
            is_number = self.fields[name].types & (_NUMBER - {"column"})
            if is_number and not re.fullmatch(_NEUTRAL, plain(self.last(name))):
                last, about = self.last(name), ROLES[self.kind][role].meaning
                self.fail(
                    f"the field {last!r} is not known; if it is {about}, write "
                    f"{self.line(role, last)}; if there is no {role}, write {self.line(role, None)}"
                )

    def _fail_missing(self, *roles: str, inside: bool = False) -> NoReturn:
        """Raise the error for a role without a field, or for two of which one is needed."""
        names = [n for n in self.names(inside=inside) if n not in self.roles.values()]
        if "text" in self.roles and "doc" in roles:  # an "id" may be of the document
            names += [self.roles["query"]] if plain(self.roles["query"]) == "id" else []
        example = self.line(roles[-1], "...")
        for role in reversed(roles):
            self._require_known(names, role, inside=inside)
            types = ROLES[self.kind][role].types
            for name in names:
                if self.fields[name].types & types:
                    example = self.line(role, self.last(name))
        meanings = " or ".join(ROLES[self.kind][role].meaning for role in roles)
        self.fail(f"no field is known as {meanings}; name it, as in {example}")

    def shown(self, role: str) -> str:
        """Return the name of a field in messages: the role for the second part of a pair."""
        name = self.last(self.roles[role])
        return role if name == "value" else name

    def line(self, role: str, name: str | None) -> str:
        """Return the parameter that names the field of a role."""
        return f"fields={{{role!r}: {name!r}}}"

    def fail(self, problem: str) -> NoReturn:
        """Raise an error with all fields, their roles, and those that hold lists."""
        roles = {name: role for role, name in self.roles.items()}
        lists = [name for name, field in self.fields.items() if field.types & _LIST]
        hidden = {f"{name}.{key}" for name in lists for key in ("id", "value")}
        texts = []
        for name, field in self.fields.items():
            role = roles.get(name, "a list" if "list" in field.types else "")
            texts += [repr(name) + f" ({role})" * bool(role)] if name not in hidden else []
        if self.absent:
            problem += f", and there is no field {self.absent[0]} (`fields`)"
        raise SchemaError(f"{problem}. Fields: {', '.join(texts) or 'none'}")

    def _place(self, name: str, role: str, *, inside: bool = False) -> int | None:
        return place(self.last(name), role, self.kind, inside=inside)

    def last(self, name: str) -> str:
        """Return the name of a field without its list, and without a wrapper such as "hit"."""
        name = name.removeprefix(self.inside)
        holder, _, last = name.rpartition(".")
        return last if holder in WRAPPERS else name
