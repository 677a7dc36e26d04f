"""Run a DAG of the recipe for some days, in Airflow's environment; print how each ended."""

import sys
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location


def main(file: str, name: str, *days: str) -> None:
    """Run the DAG ``name`` of a file, with each day as its logical date; "now": without a date."""
    found = spec_from_file_location("nightly", file)
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    dag = getattr(module, name)
    for day in days:
        date = None if day == "now" else datetime.fromisoformat(day).replace(tzinfo=UTC)
        run = dag.test(logical_date=date)
        print("done" if run.state == "success" else "failed", day, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
