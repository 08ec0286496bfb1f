"""Krippendorff's alpha of ordinal labels, compared with the package `krippendorff`."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import polars as pl
import polars_rank as pr
import pytest

CASES = json.loads((Path(__file__).parents[1] / "fixtures" / "irrcac.json").read_text("utf-8"))[:3]


@pytest.mark.filterwarnings("ignore:intervals of agreement are too narrow")
def test_alpha_of_ordinal_labels() -> None:
    peer = needs.package("krippendorff", "conformance")
    for case in CASES:
        raters = len(case["ratings"][0])
        ratings = [*case["ratings"], [1, *[None] * (raters - 1)]]
        labels = [
            (place // 3, place, f"judge {rater}", label)
            for place, row in enumerate(ratings)
            for rater, label in enumerate(row)
        ]
        schema = {"query": pl.Int64, "doc": pl.Int64, "judge": pl.String, "label": pl.Float64}
        log = pl.DataFrame(labels, schema, orient="row")
        found = pr.judges.agreement(log, n_resamples=1).filter(statistic="alpha_ordinal")
        ours = found if raters == 2 else found.filter(judge="all")
        matrix = pl.DataFrame(ratings, orient="row").to_numpy().astype(float).T
        expected = peer.alpha(matrix, level_of_measurement="ordinal")
        assert ours["value"].item() == pytest.approx(expected, abs=1e-9)
