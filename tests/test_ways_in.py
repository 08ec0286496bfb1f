"""Three ways in, from files to a decision: recommendations, judgments and a run, a golden file."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from commands import run

FILES = Path(__file__).parents[1] / "examples" / "files"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def means(*arguments: str) -> dict[str, float]:
    """Return the means of a command, by metric."""
    code, output, errors = run(*arguments, "--format", "json")
    assert code == 0, errors
    (row,) = json.loads(output)
    return row


def test_recommendations_in_a_table() -> None:
    columns = "--query", "user", "--doc", "item", "--label", "clicked"
    found = means("evaluate", "recommendations.csv", "-m", "ndcg@2 hit_rate@2", *columns)
    ann, bob, cem = 1 / (1 + 1 / math.log2(3)), 1 / math.log2(3), 0
    assert found["ndcg@2"] == pytest.approx((ann + bob + cem) / 3)
    assert found["hit_rate@2"] == pytest.approx(2 / 3)


def test_judgments_and_a_run_of_a_search_engine() -> None:
    command = "evaluate", "bm25.run", "--judgments", "qrels.txt", "-m", "ndcg@3 map recall@3"
    found = means(*command)
    # q3 is judged and not in the run: it counts as 0.
    of_q1 = (2 / math.log2(3) + 1 / 2) / (2 + 1 / math.log2(3))
    assert found["ndcg@3"] == pytest.approx((of_q1 + 1 + 0) / 3)
    assert found["map"] == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1 + 0) / 3)
    assert found["recall@3"] == pytest.approx((1 + 1 + 0) / 3)


def test_a_golden_file_and_the_results_of_a_retriever(folder: Path) -> None:
    code, output, errors = run("gate", "golden.jsonl", "results.jsonl", "--json", "gate.json")
    assert code == 0, errors
    of_plans = (1 + 1 / 2) / (1 + 1 / math.log2(3))
    assert f"{(1 + of_plans) / 2:.3f}" in output  # the query without an answer does not count
    assert run("gate", "golden.jsonl", "results.jsonl", "--update-baseline")[0] == 0
    floors = '[gate.floors]\n"recall@5" = 0.9\n'
    Path("polars-rank.toml").write_text(floors, encoding="utf-8")
    assert run("gate", "golden.jsonl", "results.jsonl")[0] == 0
    text = Path("results.jsonl").read_text(encoding="utf-8")
    Path("results.jsonl").write_text(text.replace('"account.md"', '"other.md"'), encoding="utf-8")
    code, output, _ = run("gate", "golden.jsonl", "results.jsonl")
    assert code == 1
    assert "recall@5 >= 0.9" in output and "how do I reset my password" in output
