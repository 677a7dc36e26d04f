"""Examples of training are read only where what they import is installed."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

NEEDS = {"digits.py": "sklearn", "train_jax.py": "optax", "train_torch.py": "torch"}
collect_ignore = [file for file, package in NEEDS.items() if find_spec(package) is None]


@pytest.fixture(scope="session", autouse=True)
def witnesses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No witness of a state is in the home of whoever runs the examples."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("homes")))
        yield
