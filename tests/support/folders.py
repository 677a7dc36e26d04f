"""Folders of jobs that tests make outside of pytest's own folders."""

import os
from tempfile import TemporaryDirectory


def job_folder() -> TemporaryDirectory[str]:
    """Return a folder that goes away, in memory where `make test` keeps all folders of tests.

    A state is synced dozens of times in a run, and a disk makes each of these wait.
    """
    return TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
