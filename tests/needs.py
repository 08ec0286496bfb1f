"""Programs and packages that tests need; without them, tests skip and say what to install."""

from __future__ import annotations

import os
import shutil
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


def package(module: str, extra: str) -> Any:
    """Return a module; without it, skip the test, or the whole file that is being imported."""
    __tracebackhide__ = True
    return pytest.importorskip(module, reason=_without(module, extra))


def program(*names: str, package: str) -> str:
    """Return the path of a program, under one of its names; without it, skip the test."""
    __tracebackhide__ = True
    for name in names:
        if path := shutil.which(name):
            return path
    pytest.skip(f"needs {names[0]}: apt-get install {package}")


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


def _without(module: str, extra: str) -> str:
    return f"needs {module.partition('.')[0]}: pip install 'polars_rank[{extra}]'"
