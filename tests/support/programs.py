"""Programs that tests run to their end."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run_program(
    words: Sequence[str | Path], check: bool = False, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program, and keep what it writes as text."""
    return subprocess.run(words, capture_output=True, text=True, check=check, **more)
