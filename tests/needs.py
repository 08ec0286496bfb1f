"""Programs and packages that tests need; without them, tests skip and say what to install."""

from __future__ import annotations

import os
import shutil
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest


#: The extras of the package; what else has packages is a group of dependencies.
_EXTRAS = ("cli", "plot", "report", "spark", "stats")
#: Packages that need gigabytes of others, or a compiler, and are in no group.
_ALONE = ("hnswlib", "mlflow", "mteb", "sentence_transformers")


def package(module: str, owner: str) -> Any:
    """Return a module of an extra or group; without it, skip the test or the file."""
    __tracebackhide__ = True
    return pytest.importorskip(module, reason=_without(module, owner))


def program(*names: str, package: str) -> str:
    """Return the path of a program, under one of its names; without it, skip the test."""
    __tracebackhide__ = True
    for name in names:
        if path := shutil.which(name):
            return path
    pytest.skip(f"needs {names[0]}: apt-get install {package}")


def polars_2_1(problem: str) -> None:
    """Skip the test if Polars is older and has a problem that the library cannot avoid."""
    if tuple(map(int, pl.__version__.split(".")[:2])) < (2, 1):
        pytest.skip(f"needs Polars 2.1: {problem}")


def full_device(folder: Path) -> Path:
    """Return a full device in a folder; if it cannot be created, skip the test."""
    device = folder / "full"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        device.open("wb").close()
    except (OSError, AttributeError):
        pytest.skip("needs to create a device: run as root on Linux")
    return device


def without_spark() -> str:
    """Return why tests of Spark cannot run, or None."""
    if not find_spec("pyspark"):
        return _without("pyspark", "spark")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        return "needs Java: apt-get install default-jre-headless"
    return ""


def new_jvm() -> None:
    """End the JVM of an earlier test, which resolves relative paths in the folder of that test."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    if SparkContext._gateway is not None:
        SparkContext._gateway.shutdown()
        SparkContext._gateway.proc.stdin.close()
        SparkContext._gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None


def _without(module: str, owner: str) -> str:
    what = f"'polars_rank[{owner}]'" if owner in _EXTRAS else f"--group {owner}"
    name = module.partition(".")[0]
    return f"needs {name}: pip install {name if name in _ALONE else what}"
