"""Materialise partitions of the recipe, in Dagster's environment; print how each ended."""

import sys
from datetime import date, timedelta
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any


def main(file: str, name: str, *days: str) -> None:
    """Materialise the asset ``name`` of a file for the partitions that end with these days."""
    d: Any = import_module("dagster")
    found = spec_from_file_location("nightly", file)
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    assert module.definitions.get_job_def("nights")
    for day in days:
        partition = (date.fromisoformat(day) - timedelta(days=1)).isoformat()
        done = d.materialize(
            [getattr(module, name)],
            partition_key=partition,
            instance=d.DagsterInstance.get(),
            raise_on_error=False,
        )
        print("done" if done.success else "failed", day, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
