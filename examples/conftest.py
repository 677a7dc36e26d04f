"""Examples of training are read only where what they import is installed."""

from importlib.util import find_spec

NEEDS = {"digits.py": "sklearn", "train_jax.py": "optax", "train_torch.py": "torch"}
collect_ignore = [file for file, package in NEEDS.items() if find_spec(package) is None]
