"""Spark Connect: tables have the bits of one machine, and streaming frames are refused."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from programs import run_program
from spark_here import SETTINGS

pytestmark = pytest.mark.slow
pytest.importorskip("pyspark", reason="pyspark is not installed: make test-spark")

CLIENT = Path(__file__).with_name("connect_client.py")
SUPPORT = Path(__file__).parents[1]


@pytest.mark.skipif(find_spec("grpc") is None, reason="grpcio is not installed: make test-spark")
def test_tables_of_spark_connect_have_the_bits_of_one_machine(tmp_path: Path) -> None:
    """In a process of its own: one process has one kind of session."""
    path = os.pathsep.join([str(SUPPORT / "support"), os.environ.get("PYTHONPATH", "")])
    done = run_program(
        [sys.executable, str(CLIENT), str(tmp_path)],
        env={
            **os.environ,
            **SETTINGS,
            "PYTHONPATH": path,
        },
        cwd=tmp_path,
    )
    assert done.stdout.splitlines()[-1:] == ["ended"], done.stderr[-3000:]
