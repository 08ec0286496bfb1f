"""A module of a user, which is sent to workers by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import polars as pl


def squared(label: pl.Expr) -> pl.Expr:
    return label.cast(pl.Float64).pow(2)


def dying(once: str) -> pl.Expr:
    """Return an expression whose first evaluation kills the worker that evaluates it."""

    def kill(rows: pl.Series) -> float:
        try:
            Path(once).touch(exist_ok=False)
        except FileExistsError:
            return float(rows.len())
        os.kill(os.getpid(), signal.SIGKILL)
        return 0.0

    return pl.col("rank").map_batches(kill, returns_scalar=True, return_dtype=pl.Float64).alias("n")


def slow(seconds: float, at_work: str) -> pl.Expr:
    """Return a slow expression that creates a file when it starts."""

    def wait(_: pl.Series) -> float:
        Path(at_work).touch()
        time.sleep(seconds)
        return 1.0

    return pl.col("rank").map_batches(wait, returns_scalar=True, return_dtype=pl.Float64).alias("n")
