"""Tests of the running service and its page, in the environment of ``make test-live``."""

#: Loaded by schemathesis, not by pytest: its library is not in .venv.
collect_ignore = ["fuzz_hooks.py"]
