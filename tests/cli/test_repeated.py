"""Commands that break ties by input order give the same output each time."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from commands import invoke

DOCS = [f"d{number}" for number in range(40)]
QUERIES = range(30)
_WORDS = {"LOG": ["bm25.run", "other.run", "--judgments", "qrels"], "TIES": ["ranx"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs of many tied documents, and judgments in another order."""
    folder = tmp_path_factory.mktemp("runs")
    for run, step in (("bm25", 7), ("other", 11)):
        ranked = [(query, DOCS[place * step % 40], place // 13) for query in QUERIES
                  for place in range(30 + query % 3)]  # fmt: skip
        lines = (f"{query} Q0 {doc} 0 {9 - level} {run}\n" for query, doc, level in ranked)
        (folder / f"{run}.run").write_text("".join(lines), "utf-8")
    judged = ((query, DOCS[place * 3 % 40]) for place in range(34) for query in reversed(QUERIES))
    labels = (f"{query} 0 {doc} {(query * int(doc[1:])) % 4}\n" for query, doc in judged)
    (folder / "qrels").write_text("".join(labels), "utf-8")
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "evaluate LOG -m ndcg@10,ap",
        "per-query LOG -m ndcg@10",
        "explain ndcg@10 LOG --versus TIES",
        "summarize LOG -m ndcg@10",
        "compare LOG -m ndcg@10 --baseline bm25",
        "leaderboard LOG -m ndcg@10",
        "movers LOG -m ndcg@10 --baseline bm25 --k 5",
        "report LOG -m ndcg@10 --baseline bm25 -o OUT.html",
        "convert LOG -o OUT.parquet",
    ],
)
def test_output_is_repeated(folder: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    words = [word for each in command.split() for word in _WORDS.get(each, [each])]
    if not command.startswith(("convert", "explain")):
        words += ["--conventions", "ranx"]
    if "-o" not in words:
        words += ["--format", "json"]
    output = Path(words[words.index("-o") + 1]) if "-o" in words else None

    def result() -> object:
        found = invoke(*words)
        assert found.exit_code == 0, found.stderr
        if output is None:
            return _rounded(found.stdout) if command.startswith("compare") else found.stdout
        content = output.read_bytes()
        output.unlink()
        if output.suffix == ".parquet":
            return pl.read_parquet(content).rows()
        return _rounded(content.decode()) if output.suffix == ".html" else content

    first = result()
    # A report is slow, and has the tables of the other commands.
    for _ in range(2 if command.startswith("report") else 5):
        assert result() == first


def _rounded(text: str) -> str:
    """Return text with 10 digits of numbers: comparisons add up values in any order.

    The time of a report, names of styles and tables in links are removed.
    """
    volatile = r"\d{4}-\d\d-\d\d.\d\d:\d\d[^<\"]*|gradient_\d+|base64,[\w+/=]+"
    return re.sub(
        r"\d\.\d{6,}(e-?\d+)?",
        lambda number: f"{float(number[0]):.10g}",
        re.sub(volatile, "", text),
    )
