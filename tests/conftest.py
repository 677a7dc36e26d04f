"""What every test shares."""

import functools
import gc
import hashlib
import itertools
import os
import sqlite3
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from forked_commands import begin, forked_commands
from hypothesis import HealthCheck, settings
from postgresql_server import postgres, postgres_server
from some_cases import quick_place, some_places

__all__ = ["forked_commands", "postgres", "postgres_server"]  # fixtures for all tests

# No deadline: how long an example takes depends on the machine, and no test here is about time.
# The same examples every time, so that a test which passed passes again; other ones are looked for
# with --hypothesis-profile=search.
for _name, _same in (("counton", True), ("search", False)):
    settings.register_profile(
        _name, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True,
        derandomize=_same,
    )  # fmt: skip
settings.load_profile("counton")


def _same_keys(name: str, patched: pytest.MonkeyPatch) -> None:
    number = itertools.count()

    def token_bytes(size: int) -> bytes:
        return hashlib.shake_256(f"{name} {next(number)}".encode()).digest(size)

    patched.setattr("counton.noise.key.secrets.token_bytes", token_bytes)


@pytest.fixture(autouse=True)
def same_keys_every_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh keys of a test are its own, and the same in every run.

    Noise is integers: of some dozen draws two are alike by chance now and then, and a test that
    says they differ would fail once in a hundred runs.
    """
    _same_keys(request.node.nodeid, monkeypatch)


class _SharedKeys:
    """So are those of a fixture that several tests share; it is made before any of them.

    A plugin, for hooks of this file are not called for fixtures of the whole session.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        place = getattr(request, "param_index", 0)
        if fixturedef.scope == "function":
            return (yield)
        with pytest.MonkeyPatch.context() as patched:
            _same_keys(f"{fixturedef.baseid} {fixturedef.argname} {place}", patched)
            return (yield)


class _Turned:
    """Each process begins with another folder: what one has compiled, others read."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_directory(self, path: Path, parent: Any) -> Generator[None, Any, Any]:
        found = yield
        if found and path == Path(__file__).parent:
            worker = parent.config.workerinput
            inside = list(found.collect())
            first = int(worker["workerid"][2:]) * len(inside) // worker["workercount"]
            found.collect = lambda: inside[first:] + inside[:first]
        return found


@pytest.fixture(scope="session", autouse=True)
def witnesses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[str]]:
    """No witness is in the home of whoever runs the tests: names of folders to be made."""
    homes = tmp_path_factory.mktemp("homes")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(homes / "shared"))
        yield (str(homes / f"{number}") for number in itertools.count())


@pytest.fixture(autouse=True)
def witnesses_of_its_own(witnesses: Iterator[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A test knows nothing of what others released."""
    monkeypatch.setenv("XDG_STATE_HOME", next(witnesses))


class _Told(sqlite3.Connection):
    """A connection that says it was never closed, as those of Python 3.13 do by themselves."""

    closed = True  # until it is open

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.closed = False

    def close(self) -> None:
        super().close()
        self.closed = True

    def __del__(self) -> None:
        if not self.closed:
            self.close()
            warnings.warn(f"unclosed database in {self}", ResourceWarning, stacklevel=1)


@pytest.fixture(scope="session", autouse=True)
def connections_are_closed() -> Iterator[None]:
    """A connection to SQLite that is left open fails a test with each Python."""
    with pytest.MonkeyPatch.context() as patched:
        if sys.version_info < (3, 13):
            patched.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=_Told))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Files without examples are not looked through for them: of tests nearly all are."""
    found = yield
    if found and ">>> " not in file_path.read_text("utf-8"):
        return [one for one in found if not isinstance(one, DoctestModule)]
    return found


def pytest_configure(config: pytest.Config) -> None:
    """Processes that run all tests share the one which forks commands."""
    config.pluginmanager.register(_SharedKeys())
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_Turned())
    several = config.getoption("numprocesses", 0) and not hasattr(config, "workerinput")
    if several and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        begin()


#: A slow test takes as long as so many others.
_SLOW = 20


#: So many cases of each test at most; 0 for all. `make test` and `make test-long` together take
#: two, `make test-python` one.
_CASES = int(os.environ.get("COUNTON_CASES", "0"))

#: Which of these cases run: "quick" for one of each test, as in `make test`; "long" for the others
#: and for all of long tests, as in `make test-long`; nothing for all of them.
_TIER = os.environ.get("COUNTON_TIER", "")

#: Whether the cases run which that number leaves out, as in `make test-cases`.
_OTHERS = bool(os.environ.get("COUNTON_OTHER_CASES"))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """What needs a server is slow; of several processes none ends long after the others.

    Files that take long begin first.
    """
    for item in items:
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
    found = yield  # those that are not asked for have left
    if _CASES or _TIER:
        _leave_some_cases(config, items)
    if hasattr(config, "workerinput"):
        weights = Counter[Path]()
        for item in items:
            weights[item.path] += 1 if item.get_closest_marker("slow") is None else _SLOW
        items.sort(key=lambda item: (-weights[item.path], str(item.path)))
    return found


def _leave_some_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Long cases are chosen among themselves: they may be asked for alone.
    by_test = defaultdict[tuple[str, bool], list[pytest.Item]](list)
    for item in items:
        name = item.nodeid.partition("[")[0]
        by_test[name, item.get_closest_marker("long") is not None].append(item)
    left = set[pytest.Item]()
    for (name, is_long), cases in by_test.items():
        if any(case.get_closest_marker("every_case") for case in cases):
            quick = cases
            others = []
        else:
            in_order = sorted(cases, key=_place_of)
            places = some_places(name, len(cases), _CASES or len(cases))
            others = [in_order[place] for place in places]
            quick = [others.pop(quick_place(name, len(others)))]
        if _TIER != "quick" or is_long:
            left.update(others)
        if _TIER != "long" or is_long:
            left.update(quick)
    run = [item for item in items if (item in left) != _OTHERS]
    ran = set(run)
    config.hook.pytest_deselected(items=[item for item in items if item not in ran])
    items[:] = run


def _place_of(item: pytest.Item) -> tuple[int, ...]:
    """Where a case stands among those of its test."""
    return tuple(item.callspec.indices.values()) if hasattr(item, "callspec") else ()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of one file, if not of one group, run in one process and share what it computes."""
    from xdist.scheduler import LoadGroupScheduling

    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # by the number of tests, whatever they take
    scheduler: Any = LoadGroupScheduling(config, log)
    group_of = scheduler._split_scope
    scheduler._split_scope = lambda nodeid: group_of(nodeid).partition("::")[0]
    return scheduler


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Keep what was run and what was skipped, for `tools.not_run`, where it is asked for."""
    kept = os.environ.get("COUNTON_RUN")
    if not kept:
        return
    with open(kept, "a", encoding="utf-8") as file:
        for report in terminalreporter.stats.get("skipped", ()):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            file.write(f"skipped\t{report.nodeid}\t{reason.removeprefix('Skipped: ')}\n")
        for outcome in ("passed", "failed"):
            for report in terminalreporter.stats.get(outcome, ()):
                file.write(f"ran\t{report.nodeid}\t\n")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and modules stay to the end: looking through them for garbage finds none."""
    gc.disable()
    found = yield
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    return found
