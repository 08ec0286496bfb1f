"""Retriever spans of traces: OpenInference, OpenTelemetry's conventions for GenAI, and MLflow."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from polars_rank.errors import DataError, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KINDS = ("openinference.span.kind", "span_kind", "mlflow.spanType", "span_type")
_INPUTS = ("input.value", "gen_ai.retrieval.query.text", "mlflow.spanInputs", "inputs")
_OUTPUTS = (
    *("retrieval.documents", "gen_ai.retrieval.documents", "mlflow.spanOutputs", "outputs"),
    "output.value",
)
#: Fields of a document with its id, and fields of its metadata.
_IDS = ("document.id", "id", "metadata.chunk_id", "metadata.doc_id", "metadata.doc_uri")
_SCORES = ("document.score", "score", "metadata.score", "metadata.relevance_score")
_NUMBERED = re.compile(r"retrieval\.documents\.(\d+)\.(.+)")


def is_spans(value: Mapping[str, Any]) -> bool:
    """Return whether a record is a span, or a trace with spans."""
    return (
        "spans" in value
        or (isinstance(value.get("data"), dict) and "spans" in value["data"])
        or "attributes.retrieval.documents" in value
        or ("attributes" in value and bool({"span_id", "context", "span_kind"} & {*value}))
        or "span_type" in value
    )


def retrievals(value: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """Yield a record for each retriever span of a trace, or of a span."""
    data = value.get("data")
    spans = _json(data["spans"] if isinstance(data, dict) else value.get("spans"))
    if isinstance(spans, list):
        for index, each in enumerate(spans):
            yield from retrievals(each, f"{where}.spans[{index}]")
        return
    span = {name.removeprefix("attributes."): each for name, each in value.items()}
    if isinstance(attributes := _json(span.pop("attributes", None)), dict):
        span |= attributes
    span = flat(span, whole=_INPUTS + _OUTPUTS)
    if "RETRIEVER" not in (str(_json(span.get(name))).upper() for name in _KINDS):
        return
    texts = [text for name in _INPUTS if (text := _text(span.get(name)))]
    if not texts:
        raise DataError(f"{where}: the retriever span has no input with the text of the query")
    status = str(_first(span, "status_code", "status.code"))
    is_failed = status.upper().endswith("ERROR")
    outputs = _outputs(span, where, is_failed=is_failed)
    record = {
        "query": texts[0],
        "results": [_document(each, where) for each in outputs],
        "trace": _first(span, "trace_id", "context.trace_id"),
        "latency": _seconds(span),
    }
    if is_failed:
        record["error"] = _first(span, "status_message", "status.message") or status
    yield record


def flat(value: Mapping[str, Any], prefix: str = "", whole: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the fields of nested objects with names such as "metadata.source".

    Fields with a name of `whole` keep their objects.
    """
    if not prefix and dict not in map(type, value.values()):
        return dict(value)
    found: dict[str, Any] = {}
    for name, each in value.items():
        is_nested = isinstance(each, dict) and prefix + name not in whole
        found |= flat(each, f"{prefix}{name}.", whole) if is_nested else {prefix + name: each}
    return found


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    """Return the first value that is not null."""
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _outputs(span: Mapping[str, Any], where: str, *, is_failed: bool) -> list[Any]:
    numbered: dict[int, dict[str, Any]] = {}
    for name, value in span.items():
        if match := _NUMBERED.fullmatch(name):
            numbered.setdefault(int(match[1]), {})[match[2]] = value
    if numbered:
        return [numbered[index] for index in sorted(numbered)]
    outputs = [_json(span[name]) for name in _OUTPUTS if span.get(name) is not None]
    found = next((each for each in outputs if isinstance(each, list)), None)
    if outputs and found is None and not is_failed:
        raise DataError(f"{where}: the span has no list of documents; found {short(outputs[0])}")
    return found or []


def _document(value: Any, where: str) -> dict[str, Any]:
    fields = flat(value) if isinstance(value, dict) else {"id": value}
    metadata = _json(_first(fields, "document.metadata", "metadata"))
    if isinstance(metadata, dict):
        fields |= flat(metadata, prefix="metadata.")
    fields = {name.replace("document.metadata.", "metadata."): x for name, x in fields.items()}
    if (doc := _first(fields, *_IDS)) is None:
        raise DataError(f"{where}: a retrieved document has no id; found {short(value)}")
    return {"id": doc, "score": _first(fields, *_SCORES)}


def _json(value: Any) -> Any:
    """Return the value of a text in JSON; other values and texts are unchanged."""
    if isinstance(value, str):
        with suppress(ValueError):
            return json.loads(value)
    return value


def _text(value: Any) -> str | None:
    """Return the text of the query in the input of a span."""
    found = _json(value) if isinstance(value, str) and value[:1] in '{["' else value
    if isinstance(found, dict):
        texts = [each for each in found.values() if isinstance(each, str)]
        found = next((found[name] for name in ("query", "question", "input") if name in found),
                     texts[0] if texts else None)  # fmt: skip
    return found if isinstance(found, str) and found else None


def _seconds(span: Mapping[str, Any]) -> float | None:
    """Return the duration of a span in seconds; times are text, datetimes or nanoseconds."""
    names = [(f"{each}_time", f"{each}_time_unix_nano") for each in ("start", "end")]
    start, end = (_first(span, *each) for each in names)
    if isinstance(start, int) and isinstance(end, int):
        return (end - start) / 1e9
    with suppress(TypeError, ValueError):
        duration = datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))
        return duration.total_seconds()
    return None
