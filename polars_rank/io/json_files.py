"""Records of JSON documents and JSON lines, in the forms in which tools write them."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank.errors import DataError, SourceError, short
from polars_rank.io.fields import LISTS, Kind, is_known, is_list, is_query, listed, plain
from polars_rank.io.files import origin
from polars_rank.io.text_files import numbered_lines, reading
from polars_rank.io.traces import is_spans, retrievals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polars_rank.io.fields import FieldNames
    from polars_rank.io.records import Records

#: Names of lists of records that may be empty.
_CONTAINERS = ("queries", "data", "records", "items", "results", "judgments", "requests", "spans")
#: Fields of queries, which are no ids of documents.
_OF_QUERY = {"answerable", "isanswerable", "error"}
#: Texts that describe a document.
_OF_DOCUMENT = {"text", "title", "content", "body", "snippet", "pagecontent", "index", "type"}

#: Patterns of the values that Polars reads as this module does, and their types, by the Python
#: type of the first value.
_TEXT = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-cefA-CEF][0-9a-fA-F]{3})+"'
_WHOLE = "-?(?:0|[1-9][0-9]{0,17})"
_NUMBER = _WHOLE + r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?"
_VALUES: Mapping[type, Sequence[tuple[str, pl.DataType]]] = {
    str: [(_TEXT, pl.String())],
    int: [(_WHOLE, pl.Int64()), (_NUMBER, pl.Float64())],
    float: [(_NUMBER, pl.Float64())],
}


def uniform_rows(file: str, is_wanted: Callable[[pl.Schema], bool]) -> pl.DataFrame | None:
    """Return the rows of JSON lines that all have the same fields with plain values, or None.

    Such lines have only one meaning, and Polars reads them in a tenth of the time.
    """
    record = _record(next((line for _, line in numbered_lines(file)), ""))
    with suppress(pl.exceptions.PolarsError):
        lines = pl.scan_lines(file, name="line", glob=False).select("line")
        for number in range(2 if record else 0):  # whole numbers as such, then as other numbers
            kinds = [_VALUES[type(each)][: number + 1][-1] for each in record.values()]
            schema = pl.Schema(zip(record, (dtype for _, dtype in kinds), strict=True))
            values = zip(map(re.escape, record), (pattern for pattern, _ in kinds), strict=True)
            fields = ",".join(rf'\s*"{name}"\s*:\s*{pattern}\s*' for name, pattern in values)
            matches = pl.col("line").str.contains(rf"^\s*\{{{fields}\}}\s*$").all()
            if is_wanted(schema) and lines.select(matches).collect(engine="streaming").item():
                with reading(file) as stream:  # not a path, which may be a pattern
                    return pl.read_ndjson(stream.read(), schema=schema)
    return None


def _record(line: str) -> dict[str, Any]:
    """Return a line of JSON that is an object with plain values; otherwise nothing."""
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict) and all(
            type(each) in _VALUES and re.fullmatch("[A-Za-z0-9_.-]+", name)
            for name, each in found.items()
        ):
            return found
    return {}


def json_records(file: str, kind: Kind, given: FieldNames) -> Records:
    """Yield the records of a JSON document, or of JSON lines."""
    form = _Form(kind, given)
    lines = (line for _, line in numbered_lines(file) if line.strip())
    first, second = next(lines, None), next(lines, None)
    if second is not None and _is_complete(str(first)):
        for number, line in numbered_lines(file):
            if line.strip():
                where = f"line {number}"
                yield from form.records(_parsed(line, file, number, where), where, is_record=True)
    elif first is not None:
        text = "\n".join(line for _, line in numbered_lines(file))
        yield from form.records(_parsed(text, file, 1, "the document"), "")


def _is_complete(line: str) -> bool:
    """Return whether a line is JSON of its own."""
    with suppress(ValueError, RecursionError):
        return json.loads(line) is not ...
    return False


def _parsed(text: str, file: str, line: int, where: str) -> Any:
    """Return the value of JSON; `line` is its first line in the file."""
    problem = "is nested too deeply"
    try:
        found = _DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:  # maybe half of a character
            problem = "has half of a surrogate pair"
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise SourceError(
            f"line {line + error.lineno - 1} of {origin(file)} is not valid JSON: {error.msg} "
            f"(column {error.colno}); check that the file is complete"
        ) from error
    except (RecursionError, UnicodeEncodeError) as error:
        raise SourceError(f"{origin(file)}: {where} {problem}; check how it was written") from error
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    except ValueError as error:  # an integer of thousands of digits
        problem = f"{origin(file)}: {where} has a number that is too long: {error}"
        raise SourceError(problem) from None
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise DataError(f"the key {repeated!r} is repeated in one object; keep one of them")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


class _Form(NamedTuple):
    """Finds the records in a JSON value, given the kind of file and the fields that users name."""

    kind: Kind
    given: FieldNames

    def records(self, value: Any, where: str, *, is_record: bool = False) -> Records:
        """Yield the records of a list, a record, or a mapping of one of several forms."""
        if isinstance(value, list) and not is_record:
            for index, each in enumerate(value):
                yield from self.records(each, f"{where}[{index}]", is_record=True)
        elif not isinstance(value, dict):
            raise DataError(
                f"{where or 'the file'} must be an object with a query and its documents; found "
                f"{short(value)}"
            )
        elif self.kind == "run" and is_spans(value):
            yield from ((where, each) for each in retrievals(value, where))
        elif self._is_record(value):
            yield where or "line 1", value
        elif isinstance(value.get("_source"), dict):  # a document of a search engine
            yield from self.records(value["_source"], f"{where}._source")
        elif is_record:  # without a known query, which is an error that lists the fields
            yield where, value
        else:
            yield from self._in_mapping(value, where)

    def _is_record(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object has a query, or an id and documents."""
        has_id = any(plain(name) == "id" for name in value)
        return (has_id and ("error" in value or self._has_documents(value))) or any(
            is_query(name, self.given) and isinstance(each, (str, int))
            for name, each in value.items()
        )

    def _has_documents(self, value: Mapping[str, Any]) -> bool:
        return any(
            is_list(name, self.kind, self.given) and isinstance(each, (str, list, dict))
            for name, each in value.items()
        )

    def _in_mapping(self, value: Mapping[str, Any], where: str) -> Records:
        """Yield the records of a mapping that is not a record itself."""
        at = f"{where}." if where else ""
        queries, hits, details = (value.get(name) for name in ("queries", "hits", "details"))
        lists = [
            name for name, each in value.items()
            if isinstance(each, dict) and is_list(name, self.kind, self.given)
        ]  # fmt: skip
        if self.kind == "judgments" and {"index", "id_field"} <= value.keys():
            yield from _ratings(value, at, value.get("query_placeholder", "$query"))
        elif isinstance(queries, dict) and lists:  # texts and documents by query
            for key, text in queries.items():
                record = {"query_id": key, "query": text, lists[0]: value[lists[0]].get(key, [])}
                yield f"{at}{lists[0]}[{key!r}]", record
        elif isinstance(hits, dict) and isinstance(hits.get("hits"), list):  # a search response
            for index, hit in enumerate(hits["hits"]):
                yield from self.records(hit, f"{at}hits.hits[{index}]")
        elif isinstance(details, dict):  # a response of _rank_eval
            yield from self._by_query(details, f"{at}details")
            for key, error in (value.get("failures") or {}).items():
                yield f"{at}failures[{key!r}]", {"query_id": key, "error": json.dumps(error)}
        else:
            yield from self._in_other_mapping(value, where, at)

    def _in_other_mapping(self, value: Mapping[str, Any], where: str, at: str) -> Records:
        """Yield the records of lists under keys, or of a mapping from queries."""
        alone = len(value) == 1
        containers = [name for name in value if self._is_container(name, value[name], alone=alone)]
        if containers:
            for name in containers:
                yield from self.records(value[name], f"{at}{name}")
        elif wrapped := [name for name, each in value.items() if _is_wrapped(name, each)]:
            yield from self._in_mapping(value[wrapped[0]], f"{at}{wrapped[0]}")
        elif any(isinstance(each, (str, int, float)) for each in value.values()):
            yield where or "line 1", value  # without a known query, which is an error
        else:
            # The name of the model is in a prediction file of MTEB.
            nested = {name: each for name, each in value.items() if name != "mteb_model_meta"}
            deep = [name for name, each in nested.items() if _is_nested(each)]
            if deep and len(nested) > 1:
                raise DataError(
                    f"{where or 'the file'} has several subsets or splits: {listed(nested)}; write "
                    "each to a file of its own"
                )
            if deep:
                yield from self._in_mapping(nested[deep[0]], f"{at}{deep[0]}")
            else:
                yield from self._by_query(nested, where)

    def _is_container(self, name: str, value: Any, *, alone: bool) -> bool:
        """Return whether a value is a list of records; `alone` if there is no other value."""
        is_known = plain(name) in _CONTAINERS
        if not isinstance(value, list) or not value:
            return value == [] and is_known
        first = value[0]
        return isinstance(first, dict) and (
            (is_known and alone)
            or self._is_record(first)
            or self._has_documents(first)
            or (self.kind == "run" and is_spans(first))
        )

    def _by_query(self, value: Mapping[str, Any], where: str) -> Records:
        """Yield the records of a mapping from queries to lists, mappings or records."""
        name = LISTS[self.kind]
        self._refuse_records(value)
        for key, each in value.items():
            place = f"{where}[{key!r}]"
            if isinstance(each, dict) and self._is_of_query(each):
                yield place, {"query_id": key, **each}
            elif each is None or isinstance(each, (list, dict)):
                yield place, {"query_id": key, name: each}
            else:
                raise DataError(
                    f"{place} must be a list of ids, or a mapping of ids to numbers; found "
                    f"{short(each)}"
                )

    def _refuse_records(self, value: Mapping[str, Any]) -> None:
        """Raise `DataError` for one list of objects that may be records, not documents."""
        key, lists = next(iter(value.items()), ("", None))
        first = lists[0] if isinstance(lists, list) and lists else None
        unknown = [
            name for name, each in (first.items() if isinstance(first, dict) else ())
            if isinstance(each, str) and not is_known(name, self.kind, self.given)
            and plain(name) not in _OF_DOCUMENT
        ]  # fmt: skip
        if unknown and len(value) == 1:
            raise DataError(
                f"[{key!r}] may be a list of records whose query is not known by name, or the "
                f"documents of the query {key!r}. For records, name the query, as in "
                f"fields={{'query': {unknown[0]!r}}}; otherwise write JSON lines. Fields: "
                f"{listed(first or ())}"
            )

    def _is_of_query(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object has the fields of a query, and does not map ids to numbers."""
        return self._has_documents(value) or ("hits" not in value and any(
            isinstance(each, list) or is_query(name, self.given) or plain(name) in _OF_QUERY
            for name, each in value.items()
        ))  # fmt: skip


def _ratings(
    value: Mapping[str, Any], at: str, placeholder: str, shared: Mapping[str, Any] = {}
) -> Records:
    """Yield the queries of a file of RRE, whose groups share documents, each with its gain."""
    lists = ("topics", "query_groups", "queries")
    parts = {**dict.fromkeys(lists, list), "relevant_documents": dict, "placeholders": dict}
    for name, kind in parts.items():
        found = value.get(name) if isinstance(value, dict) else value
        if not isinstance(value, dict) or not isinstance(found or kind(), kind):
            raise DataError(f"{at}{name} must be of type {kind.__name__}; found {short(found)}")
    shared, seen = value.get("relevant_documents") or shared, dict[str, Any]()
    for name in lists:
        for index, each in enumerate(value.get(name) or ()):
            for where, record in _ratings(each, f"{at}{name}[{index}].", placeholder, shared):
                # Queries of one group may differ in their template only.
                if name != "queries" or seen.get(str(record["query_id"])) != record:
                    yield where, record
                seen[str(record["query_id"])] = record
    if "placeholders" in value:
        documents: dict[str, Any] = {}
        for key, each in shared.items():  # objects by document, or documents by gain
            gain = {"gain": int(key) if key.isdecimal() else key}
            is_gain = isinstance(each, list)
            documents |= dict.fromkeys(map(str, each), gain) if is_gain else {key: each}
        query = (value["placeholders"] or {}).get(placeholder)
        yield at.rstrip("."), {"query_id": query, "relevant": documents}


def _is_wrapped(name: str, value: Any) -> bool:
    """Return whether a value, which may be beside others, is a mapping of queries."""
    values = value.values() if isinstance(value, dict) else ()
    is_container = plain(name) in _CONTAINERS and bool(values)
    return is_container and all(isinstance(each, (dict, list)) for each in values)


def _is_nested(value: Any) -> bool:
    """Return whether a value maps queries to mappings of numbers, or to further mappings."""
    mappings = value.values() if isinstance(value, dict) else ()
    return any(mappings) and all(
        isinstance(each, dict)
        and all(x is None or isinstance(x, (int, float, dict)) for x in each.values())
        for each in mappings
    )
