"""Records of JSON documents and JSON lines, in the forms in which tools write them."""

from __future__ import annotations

import json
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from polars_rank.errors import DataError, SourceError, short
from polars_rank.io.copies import origin
from polars_rank.io.fields import Kind, expected, listed, plain, roles_of
from polars_rank.io.lines import numbered_lines
from polars_rank.io.traces import is_spans, retrievals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from polars_rank.io.records import Records

#: Names of lists of records that may be empty.
_CONTAINERS = ("queries", "data", "records", "items", "results", "judgments", "requests", "spans")


def json_records(file: str, kind: Kind) -> Records:
    """Return the records of a JSON document, or of JSON lines."""
    lines = (line for _, line in numbered_lines(file) if line.strip())
    first, second = next(lines, None), next(lines, None)
    if first is None:
        return lambda: iter(())
    if second is not None and _is_json(first):
        return partial(_in_lines, file, kind)
    text = "\n".join(line for _, line in numbered_lines(file))
    document = _parsed(text, file, 1, origin(file))
    return lambda: _unpacked(document, "", kind)


def _in_lines(file: str, kind: Kind) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in numbered_lines(file):
        if not line.strip() or line.lstrip().startswith(("#", "//")):
            continue
        where = f"line {number}"
        yield from _unpacked(_parsed(line, file, number, where), where, kind, is_record=True)


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return line.lstrip().startswith(("#", "//"))
    return True


def _parsed(text: str, file: str, line: int, where: str) -> Any:
    """Return the value of JSON; `line` is its first line in the file."""
    problem = "is nested too deeply"
    try:
        found = json.loads(text, object_pairs_hook=_unique)
        if "\\ud" in text.lower():  # maybe half of a character
            problem = "has half of a surrogate pair"
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise SourceError(
            f"line {line + error.lineno - 1} of {origin(file)} is not valid JSON: {error.msg} "
            f"(column {error.colno}); check that the file is complete"
        ) from error
    except (RecursionError, UnicodeEncodeError) as error:
        raise SourceError(f"{where} {problem}; check how the file was written") from error
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise DataError(f"the key {repeated!r} is repeated in one object; keep one of them")
    return found


def _unpacked(
    value: Any, where: str, kind: Kind, *, is_record: bool = False
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the records of a JSON value: a list, a record, or a mapping of one of several forms."""
    if isinstance(value, list) and not is_record:
        for index, each in enumerate(value):
            yield from _unpacked(each, f"{where}[{index}]", kind, is_record=True)
    elif not isinstance(value, dict):
        raise DataError(f"{where or 'the file'}: {expected(kind)}; found {short(value)}")
    elif kind == "run" and is_spans(value):
        yield from ((where, each) for each in retrievals(value, where))
    elif _is_record(value, kind):
        yield where or "line 1", value
    elif isinstance(value.get("_source"), dict):  # a document of a search engine
        yield from _unpacked(value["_source"], f"{where}._source", kind)
    elif is_record:
        raise DataError(f"{where}: {expected(kind)}; found the fields {listed(value)}")
    else:
        yield from _in_mapping(value, where, kind)


def _is_record(value: Mapping[str, Any], kind: Kind) -> bool:
    roles = roles_of(value, kind)
    names = (roles.query_id, roles.text, roles.id)
    has_id = any(isinstance(value[name], (str, int)) for name in names[:2] if name)
    documents = [name for name in roles.lists if not isinstance(value[name], (bool, int, float))]
    return has_id or (roles.id is not None and (bool(documents) or "error" in value))


def _in_mapping(
    value: Mapping[str, Any], where: str, kind: Kind
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the records of a mapping that is not a record itself."""
    at = f"{where}." if where else ""
    if (records := _known_form(value, at, kind)) is not None:
        yield from records
    elif containers := [name for name, each in value.items() if _has_records(name, each, kind)]:
        for name in containers:
            yield from _unpacked(value[name], f"{at}{name}", kind)
    elif wrapped := [name for name, each in value.items() if _is_wrapped(name, each)]:
        yield from _in_mapping(value[wrapped[0]], f"{at}{wrapped[0]}", kind)
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
            yield from _in_mapping(nested[deep[0]], f"{at}{deep[0]}", kind)
        else:
            yield from _by_query(nested, where, kind)


def _known_form(
    value: Mapping[str, Any], at: str, kind: Kind
) -> Iterator[tuple[str, Mapping[str, Any]]] | None:
    """Return the records of a mapping whose parts belong together, or None."""
    lists = [name for name in roles_of(value, kind).lists if isinstance(value[name], dict)]
    queries, hits, details = (value.get(name) for name in ("queries", "hits", "details"))
    if isinstance(queries, dict) and lists:  # texts and documents by query
        documents = value[lists[0]]
        return (
            (f"{at}{lists[0]}[{key!r}]",
             {"query_id": key, "query": text, lists[0]: documents.get(key)})
            for key, text in queries.items()
        )  # fmt: skip
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):  # a search response
        return chain.from_iterable(
            _unpacked(hit, f"{at}hits.hits[{index}]", kind)
            for index, hit in enumerate(hits["hits"])
        )
    if isinstance(details, dict):  # a response of _rank_eval
        failures = (
            (f"{at}failures[{key!r}]", {"query_id": key, "error": json.dumps(error)})
            for key, error in (value.get("failures") or {}).items()
        )
        return chain(_by_query(details, f"{at}details", kind), failures)
    return None


def _has_records(name: str, value: Any, kind: Kind) -> bool:
    if not isinstance(value, list) or not value:
        return value == [] and plain(name) in _CONTAINERS
    return isinstance(value[0], dict) and (
        _is_record(value[0], kind) or (kind == "run" and is_spans(value[0]))
    )


def _is_wrapped(name: str, value: Any) -> bool:
    """Return whether a value, which may be beside others, is a mapping of queries."""
    values = value.values() if isinstance(value, dict) else ()
    is_container = plain(name) in _CONTAINERS and bool(values)
    return is_container and all(isinstance(each, (dict, list)) for each in values)


def _is_nested(value: Any) -> bool:
    """Return whether a value is a mapping of queries to mappings of documents."""
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(each, dict) and _has_values(each) for each in value.values())
        and any(value.values())
    )


def _has_values(value: Mapping[str, Any]) -> bool:
    """Return whether a mapping has documents with numbers, or queries with such mappings."""
    return all(isinstance(each, (int, float, dict)) for each in value.values())


def _by_query(
    value: Mapping[str, Any], where: str, kind: Kind
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the records of a mapping from queries to lists, mappings or records of documents."""
    name = "relevant" if kind == "judgments" else "results"
    for key, each in value.items():
        place = f"{where}[{key!r}]"
        if isinstance(each, dict) and roles_of(each, kind).lists:
            yield place, {"query_id": key, **each}
        elif each is None or isinstance(each, (str, list, dict)):
            yield place, {"query_id": key, name: each}
        else:
            raise DataError(
                f"{place} must be a list of ids, or a mapping of ids to numbers; found "
                f"{short(each)}"
            )
