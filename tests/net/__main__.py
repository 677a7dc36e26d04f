"""``python -m tests.net`` adds to the files of released numbers and addresses the cases that they
lack, and changes none.
"""

import json
import os
import secrets
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FILE = Path(__file__).with_name("released.json")
ADDRESSES = Path(__file__).with_name("addresses.json")


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
    from counton.state import keys, rollback_guard
    from tests.net import addresses, nights, streams

    for module in (keys, rollback_guard):  # no guards, as in the tests
        vars(module)["default_folder"] = lambda: "none"
    vars(secrets).update(token_bytes=nights.known_bytes, token_hex=nights.known_hex)
    known: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    found: dict[str, Any] = {}
    for name, job in nights.cases():
        if name in known:
            continue
        with TemporaryDirectory() as folder:
            os.chdir(folder)
            found[name] = {"spec": job.spec, "released": nights.released(job, Path(folder))}
    for name, spec, values in (*streams.counters(), *streams.training()):
        case = {"spec": spec, "released": values}
        if known.get(name, case) != case:
            raise SystemExit(f"{name} releases other numbers than it did: none is written")
        found[name] = case
    known |= found
    lines = (f"{json.dumps(name)}: {json.dumps(case)}" for name, case in known.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(
        f"{len(known):,} cases with {sum(len(one['released']) for one in known.values()):,} lines"
    )
    known = json.loads(ADDRESSES.read_text()) if ADDRESSES.exists() else {}
    for name, job in addresses.cases():
        if name not in known:
            with TemporaryDirectory() as folder:
                os.chdir(folder)
                known[name] = addresses.addresses(job, Path(folder))
    ADDRESSES.write_text(json.dumps(known, indent=1) + "\n")
    print(f"{len(known):,} jobs with {sum(map(len, known.values())):,} addresses")


if __name__ == "__main__":
    main()
