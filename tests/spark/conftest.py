"""One local Spark for all tests; skipped by name where PySpark or Java is not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from spark_here import SETTINGS
from witnesses import one_key

__all__ = ["one_key"]  # a fixture


def reason_to_skip() -> str | None:
    """Why there is no Spark here; None where there is."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed: make test-spark"
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "java is not installed, which Spark needs"
    return None


@pytest.fixture(scope="session")
def events_logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes what it did, as its history server reads it."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, events_logged: Path) -> Iterator[Any]:
    why = reason_to_skip()
    if why is not None:
        pytest.skip(why)
    os.environ.update(SETTINGS)
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("counton tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "Asia/Tokyo")  # which must decide nothing
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.memory", "1g")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", events_logged.as_uri())
        .config("spark.eventLog.rolling.enabled", "false")
        .config("spark.eventLog.compress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
