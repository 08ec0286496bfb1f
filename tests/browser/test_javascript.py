"""The referee tests a program in JavaScript."""

from __future__ import annotations

from pathlib import Path

import needs
import polars_rank as pr

EXAMPLE = Path(__file__).parents[2] / "examples" / "metrics.js"


def test_a_program_in_javascript(tmp_path: Path) -> None:
    node = needs.program("node", package="nodejs")
    result = pr.referee(command=[node, str(EXAMPLE)], metric="ndcg")
    assert result.findings.is_empty() and result.presets[0] == "trec_eval 10"
    text = EXAMPLE.read_text(encoding="utf-8")
    wrong = text.replace("Math.log2(index + 2)", "Math.log2(index + 3)").replace(
        "ideal ? ", "true ? "
    )
    assert wrong.count("index + 3") == 1 and "true ?" in wrong
    (tmp_path / "wrong.js").write_text(wrong, encoding="utf-8")
    result = pr.referee(command=[node, str(tmp_path / "wrong.js")], metric="ndcg")
    assert result.definition["discount"] == "1 / log2(rank + 2)"
    # JSON has no NaN: JavaScript writes null, which is no value.
    texts = " ".join(result.findings["text"])
    assert "undefined values: excluded from the mean" in texts
