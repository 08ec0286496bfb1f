"""Sessions of Spark for the tests; they need Java, and the extra `spark`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest

#: Programs that tests run in separate processes.
collect_ignore = ["elsewhere.py", "own_metric.py"]

MISSING = needs.without_spark()

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
#: Folders from which workers import this checkout and modules of the tests.
PATH = os.pathsep.join(str(Path(__file__).parents[level]) for level in (2, 1))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PATH, os.environ.get("PYTHONPATH")]))
#: Java that starts and compiles fast is faster here than Java that makes fast code; pyspark's own
#: options, such as those for Java 17, are beside these.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=200m -XX:+UseSerialGC -XX:-UsePerfData",
)

OPTIONS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore warnings of pyspark about new versions of pandas and about unclosed sockets."""
    here = Path(__file__).parent
    for item in (item for item in items if here in item.path.parents):
        if MISSING:
            item.add_marker(pytest.mark.skip(MISSING))
        for ignored in (
            "ignore:PySpark does not yet fully support pandas:FutureWarning",
            "ignore::ResourceWarning",
            "ignore::pytest.PytestUnraisableExceptionWarning",
            "ignore::DeprecationWarning:pyspark",
        ):
            item.add_marker(pytest.mark.filterwarnings(ignored))


def built(**options: str) -> Any:
    import warnings

    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in {**OPTIONS, **options}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session in local mode with two parallel tasks."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = built(**{"spark.master": "local[2]", "spark.sql.warehouse.dir": str(warehouse)})
    yield session
    session.stop()
