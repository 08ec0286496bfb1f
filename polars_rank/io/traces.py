"""Retriever spans of traces: OpenInference, OpenTelemetry's conventions for GenAI, and MLflow."""

from __future__ import annotations

import json
import re
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
    data = value.get("data")
    return (
        "spans" in value
        or (isinstance(data, dict) and "spans" in data)
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
    span = _flat(value)
    kinds = [str(_json(span[name])).upper() for name in _KINDS if span.get(name)]
    if "RETRIEVER" not in kinds:
        return
    texts = [text for name in _INPUTS if (text := _text(span.get(name)))]
    if not texts:
        raise DataError(f"{where}: the retriever span has no input with the text of the query")
    record = {
        "query": texts[0],
        "results": [_document(each, where) for each in _outputs(span)],
        "trace": span.get("trace_id") or span.get("context.trace_id"),
        "latency": _seconds(span),
    }
    status = span.get("status_code") or span.get("status.code") or ""
    if str(status).upper().endswith("ERROR"):
        message = span.get("status_message") or span.get("status.message")
        record["error"] = message or str(status)
    yield record


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested fields with dots in their names, without the prefix of attributes."""
    found: dict[str, Any] = {}
    for name, each in value.items():
        key = f"{prefix}{name}".removeprefix("attributes.")
        if key == "attributes":
            each = _json(each)  # noqa: PLW2901
        if isinstance(each, dict) and key not in (*_INPUTS, *_OUTPUTS):
            found |= _flat(each, f"{key}." if key != "attributes" else "")
        elif each is not None:
            found[key] = each
    return found


def _outputs(span: Mapping[str, Any]) -> list[Any]:
    numbered: dict[int, dict[str, Any]] = {}
    for name, value in span.items():
        if match := _NUMBERED.fullmatch(name):
            numbered.setdefault(int(match[1]), {})[match[2]] = value
    if numbered:
        return [numbered[index] for index in sorted(numbered)]
    for name in _OUTPUTS:
        value = _json(span.get(name))
        if isinstance(value, list):
            return value
    return []


def _document(value: Any, where: str) -> dict[str, Any]:
    fields = _flat(value) if isinstance(value, dict) else {"id": value}
    metadata = _json(fields.get("document.metadata", fields.get("metadata")))
    if isinstance(metadata, dict):
        fields |= _flat({"metadata": metadata})
    fields = {name.replace("document.metadata.", "metadata."): x for name, x in fields.items()}
    found = next((fields[name] for name in _IDS if fields.get(name) is not None), None)
    if found is None:
        raise DataError(f"{where}: a retrieved document has no id; found {short(value)}")
    score = next((fields[name] for name in _SCORES if fields.get(name) is not None), None)
    return {"id": found, "score": score}


def _json(value: Any) -> Any:
    """Return the value of a text in JSON; other values and texts are unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
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
    """Return the duration of a span in seconds."""
    names = ("start_time", "start_time_unix_nano"), ("end_time", "end_time_unix_nano")
    start, end = (next((span[name] for name in pair if name in span), None) for pair in names)
    if isinstance(start, str) and isinstance(end, str):
        try:
            start, end = datetime.fromisoformat(start), datetime.fromisoformat(end)
        except ValueError:
            return None
    if isinstance(start, datetime) and isinstance(end, datetime):
        return (end - start).total_seconds()
    if isinstance(start, int) and isinstance(end, int):
        return (end - start) / 1e9
    return None
