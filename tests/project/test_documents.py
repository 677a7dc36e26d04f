"""Every example in README.md and docs/ runs and prints what the page says.

A page is read from top to bottom in a folder of its own. Of its fenced blocks

- ``pycon`` and ``python`` share one namespace; the first is compared with its printed output,
- ``console`` runs each ``$ command``, programs in Python by a process that forks; output which the
  page shows is compared,
- ``sh`` runs as one script, unless `ELSEWHERE` names what runs it,
- a block with ``title="NAME"`` is written to that file first,
- ``text`` has lines that a command of the page has printed, or a table that is in a file; what
  `SHOWN_ONLY` names is only shown,
- ``toml`` has lines of a job file, which `test_job_lines.py` plans,
- other kinds have a title,
- ``py`` is Python for libraries that are not in the lock: `BESIDE` names the test that runs it
  where they are installed.

A page that calls ``psql`` finds a server of its own, and one that names ``deploy/`` that folder.
The folder has copies of what a clone has in ``examples``.

``...`` in shown output stands for anything. Keys are known in advance (`numbered_keys`), so noisy
numbers of a page are those that its commands print.
"""

import csv
import doctest
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from numbered_keys import VARIABLE, number_keys
from postgresql_server import server_programs

from counton.noise import Key

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
#: Numbers of the papers, or beside what others have published; and pages whose commands take long.
#: `make test` runs those of a first publication, of every night, of people and of late rows.
LONG = (
    "concepts/choosing-epsilon",
    "concepts/state-and-keys",
    "getting-started/from-python",
    "guarantees/verification",
    "guides/bad-rows",
    "guides/dashboard",
    "guides/fill-in-a-job-file",
    "guides/keys-and-backups",
    "guides/operate",
    "guides/plan",
    "guides/rolling-sums",
    "guides/training",
    "papers/constants",
    *(
        f"reference/commands/{command}"
        for command in (
            *("annotate", "backup", "close", "erase-user", "export", "inspect", "ledger"),
            *("methods", "publish", "verify"),
        )
    ),
    "reference/papers",
    "reference/strategies",
    "research/extend",
    "statistics/averages",
    "statistics/contingency-tables",
    "statistics/distinct-users",
    "statistics/hierarchies",
    "statistics/index",
    "statistics/moments",
    "statistics/quantiles",
    "statistics/questions",
    "statistics/ranges",
    "statistics/reports",
    "statistics/top-k",
    "statistics/words-and-graphs",
)
MARKS = {f"docs/{page}.md": [pytest.mark.long] for page in LONG}
MARKS["docs/research/comparison.md"] = [pytest.mark.evidence]
#: What runs scripts of pages that install programs, start servers or take long, by the page and the
#: first word or words of the script: files of tests, or targets of make that continuous integration
#: or a release runs.
ELSEWHERE: dict[tuple[str, str], tuple[str, ...]] = {
    ("README.md", "make demo"): ("tests/examples/test_demonstrations.py", "make test-package"),
    ("CONTRIBUTING.md", "make setup "): ("make setup", "make test", "make test-long", "make lint"),
    ("docs/getting-started/installation.md", "make demo"): (
        "tests/examples/test_demonstrations.py",
        "make test-package",
    ),
    ("docs/getting-started/installation.md", "python3 -m venv"): ("make test-package",),
    ("docs/guides/spark.md", "pip install"): ("make test-spark",),
    ("docs/statistics/words-and-graphs.md", "python recipes/graph_cuts.py"): (
        "tests/recipes/test_graph_cuts.py",
    ),
    ("docs/guides/service.md", "cat > visits.toml"): ("tests/serve/test_documentation.py",),
    ("docs/guides/service.md", "TOKEN="): ("tests/serve/test_documentation.py",),
    ("docs/guides/deploy.md", "pipx install"): ("tests/deploy/test_machines_page.py",),
    ("docs/guides/deploy.md", "podman build --tag counton"): (
        "tests/deploy/test_machines_page.py",
    ),
    ("docs/guides/deploy.md", "podman build --tag registry"): (
        "tests/deploy/test_machines_page.py",
    ),
    **{
        (f"docs/papers/{name}.md", "python -m papers"): ("tests/project/test_documents.py",)
        for name in ("constants", "elders", "expiration", "ranges", "smooth")
    },
    ("docs/reference/papers.md", "python -m papers"): ("tests/project/test_documents.py",),
}
#: What runs the Python of a page for libraries that are not in the lock.
BESIDE = {
    "docs/guides/spark.md": "tests/spark/test_scale_page.py",
    "docs/guides/training-pytorch.md": "tests/training/test_examples.py",
    "docs/guides/training.md": "tests/training/test_examples.py",
    "docs/research/comparison.md": "tests/project/test_beside.py",
}
#: Blocks of text that no command of their page prints, by the page and their first words, and why.
SHOWN_ONLY = {
    ("CONTRIBUTING.md", ""): "a drawing",
    ("docs/guides/scheduled-job.md", "15 3 * * *"): "a line for the scheduler of another machine",
    ("docs/guides/service.md", '{"batch"'): "tests/serve/test_documentation.py",
    ("docs/guides/training-pytorch.md", "torchrun"): "needs several processes of PyTorch",
    ("docs/reference/commands/", "counton "): "tests/project/test_reference_pages.py",
    ("docs/research/theory.md", ""): "formulas",
}
#: The number before a page's first key, where the first ones show an interval without the exact
#: number, which would puzzle readers.
KEYS_BEFORE = {
    "docs/statistics/counts-and-sums.md": 10,
    "docs/statistics/distinct-users.md": 40,
}
PROGRAMS = Path(sys.executable).parent
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=indent)```\s*$",
    re.MULTILINE | re.DOTALL,
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    kind: str
    title: str | None
    body: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    for match in FENCE.finditer(page):
        title = re.search(r'title="([^"]+)"', match["info"])
        indent = len(match["indent"])
        body = "".join(line[indent:] for line in match["body"].splitlines(keepends=True))
        line = page.count("\n", 0, match.start()) + 1
        yield Block(match["kind"], title[1] if title else None, body, line)


def run_session(block: Block, namespace: dict[str, Any], name: str) -> None:
    test = doctest.DocTestParser().get_doctest(block.body, namespace, name, name, block.line)
    test.globs = namespace  # the parser made a copy; names are to last until the end of the page
    assert test.examples, f"{name}:{block.line}: no example in a pycon block"
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    assert not runner.run(test, out=report.append, clear_globs=False).failed, "".join(report)


def environment_of(folder: Path, commands: Path) -> dict[str, str]:
    """The variables of a reader's shell, whose home has nothing but the page's files."""
    return os.environ | {
        "PATH": os.pathsep.join([str(commands), str(PROGRAMS), os.environ["PATH"]]),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "HOME": str(folder),
        VARIABLE: str(folder / ".keys"),
    }


def run_commands(block: Block, folder: Path, name: str, commands: Path) -> str:
    """Run the commands of a console block; return all that they print."""
    printed = ""
    environment = environment_of(folder, commands)
    first, *sessions = re.split(r"^\$ ", block.body, flags=re.MULTILINE)
    assert not first, f"{name}:{block.line}: a console block starts with '$ '"
    for session in sessions:
        command, shown = re.fullmatch(
            r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", session, re.DOTALL
        ).groups()  # type: ignore[union-attr]
        done = subprocess.run(
            ["bash", "-c", re.sub(r"^python (?=\w+/)", "forked-python ", command)],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{name}:{block.line}: $ {command}\n{done.stdout}"
        printed += done.stdout
        if shown.strip():
            same = doctest.OutputChecker().check_output(shown, done.stdout, FLAGS)
            assert same, f"{name}:{block.line}: $ {command}\nshown:\n{shown}\ngot:\n{done.stdout}"
    return printed


def runs_elsewhere(page: str, block: Block) -> tuple[str, ...]:
    """What runs a script of a page; () if the page itself does."""
    for (named, first), runners in ELSEWHERE.items():
        if named == page and block.kind == "sh" and block.body.startswith(first):
            return runners
    return ()


def shown_only(page: str, block: Block) -> str:
    """Why a block of text is not what a command of its page prints; "" if it is."""
    for (named, first), reason in SHOWN_ONLY.items():
        if page.startswith(named) and block.body.startswith(first):
            return reason
    return ""


def has_lines(printed: str, shown: str) -> bool:
    """Whether all shown lines were printed, in this order, with any spaces between words."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    return all(" ".join(line.split()) in lines for line in shown.splitlines())


def is_cell(shown: str, written: str) -> bool:
    """Whether a cell of a page is that of a file: a number may be rounded, a time cut off."""
    try:
        places = len(shown.partition(".")[2])
        return round(float(written), places) == float(shown)
    except ValueError:
        return written.startswith(shown)


def is_written(folder: Path, shown: str) -> bool:
    """Whether a CSV file has the shown rows, in this order, with the shown columns."""
    header, *rows = (re.split(r" {2,}", line.strip()) for line in shown.splitlines())
    for path in folder.glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            if not {*header} <= {*(table.fieldnames or ())}:
                continue
            written = iter([[line[name] for name in header] for line in table])
        if all(any(all(map(is_cell, row, line)) for line in written) for row in rows):
            return True
    return False


def run_script(block: Block, folder: Path, name: str, commands: Path) -> None:
    script = re.sub(r"^python (?=\w+/)", "forked-python ", block.body, flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder, env=environment_of(folder, commands), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{name}:{block.line}: {block.body}\n{done.stdout}"


def run_page(text: str, name: str, folder: Path, commands: Path = PROGRAMS) -> int:
    """Run every example of a page; returns how many blocks were run.

    Args:
        text: the page.
        name: of the page.
        folder: where it runs.
        commands: the folder in which `counton` is looked for first.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    count = 0
    for block in blocks(text):
        count += 1
        if block.title:
            (folder / block.title).write_text(block.body, encoding="utf-8")
        if block.kind == "python":
            exec(compile(block.body, f"{name}:{block.line}", "exec"), namespace)
        elif block.kind == "pycon":
            run_session(block, namespace, name)
        elif block.kind == "console":
            printed += run_commands(block, folder, name, commands)
        elif block.kind == "sh":
            if not runs_elsewhere(name, block):
                run_script(block, folder, name, commands)
        elif block.kind == "text" and not shown_only(name, block):
            same = has_lines(printed, block.body) or is_written(folder, block.body)
            assert same, f"{name}:{block.line}: not printed:\n{block.body}\nprinted:\n{printed}"
        elif block.kind == "py":
            assert name in BESIDE, f"{name}:{block.line}"
        elif block.kind == "toml":
            tomllib.loads(block.body)
        else:
            assert block.kind in {"text", "csv"} or block.title, f"{name}:{block.line}"
    return count


@pytest.fixture
def page_on_a_server(
    page: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A page, and for one that calls ``psql`` a server, where nothing of it stays."""
    if "$ psql " not in page.read_text(encoding="utf-8"):
        yield page
        return
    server = str(request.getfixturevalue("postgres_server").url)
    programs = server_programs()
    assert programs is not None
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    told = psycopg.conninfo.conninfo_to_dict(server)
    for name, value in (
        ("PGHOST", told["host"]),
        ("PGUSER", told["user"]),
        ("PGDATABASE", told["dbname"]),
    ):
        monkeypatch.setenv(name, str(value))
    yield page
    kinds = {  # names longer than that of the server's own user, which is counton
        "DATABASE": "SELECT datname FROM pg_database WHERE datname LIKE 'counton%'",
        "ROLE": "SELECT rolname FROM pg_roles WHERE rolname LIKE 'counton_%'",
    }
    with psycopg.connect(server, autocommit=True) as connection:
        for kind, query in kinds.items():
            for (name,) in connection.execute(query.encode()).fetchall():
                force = " WITH (FORCE)" if kind == "DATABASE" else ""
                connection.execute(f"DROP {kind} {name}{force}".encode())


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name, marks=MARKS.get(name, []))
        for page, name in ((page, str(page.relative_to(ROOT))) for page in PAGES)
    ],
)
@pytest.mark.every_case
@pytest.mark.slow
def test_examples_of_a_page(
    page: Path,
    page_on_a_server: Path,
    forked_commands: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / ".keys"))
    monkeypatch.setattr(Key, "generate", Key.generate)  # put back at the end
    monkeypatch.setattr(Key, "with_salt", Key.with_salt)
    number_keys()
    name = str(page.relative_to(ROOT))
    (tmp_path / ".keys").write_text(str(KEYS_BEFORE.get(name, 0)))
    text = page_on_a_server.read_text(encoding="utf-8")
    for folder in ("deploy", "proofs", "recipes"):
        if f"{folder}/" in text:
            (tmp_path / folder).symlink_to(ROOT / folder)
    if "examples/" in text:  # commands write beside the events
        made = shutil.ignore_patterns("__pycache__", "*.counton.*", "*.released.*", "papers.db*")
        shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=made)
    assert run_page(text, name, tmp_path, forked_commands) == len(
        re.findall(r"^ *```\w", text, re.MULTILINE)
    )


@pytest.mark.parametrize(
    "wrong",
    [
        "```pycon\n>>> 1 + 1\n3\n```\n", "```python\nassert False\n```\n",
        "```console\n$ echo 1\n2\n```\n", "```console\n$ false\n```\n", "```perl\n1\n```\n",
        "```sh\nfalse\ntrue\n```\n", "```sh\nfalse | true\n```\n",
    ],
)  # fmt: skip
def test_run_page_rejects_wrong_example(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run_page(wrong, "page", tmp_path)


@pytest.mark.parametrize(("page", "first"), ELSEWHERE)
def test_elsewhere_script_is_on_its_page_and_its_runner_exists(page: str, first: str) -> None:
    scripts = [one for one in blocks((ROOT / page).read_text("utf-8")) if one.kind == "sh"]
    assert [one for one in scripts if one.body.startswith(first)]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for runner in ELSEWHERE[page, first]:
        assert runner.removeprefix("make ") in targets or (ROOT / runner).exists(), runner


@pytest.mark.parametrize("page", sorted({page for page, _ in ELSEWHERE if "papers" in page}))
@pytest.mark.long
@pytest.mark.slow
def test_script_of_papers_page_runs_in_quick_form(
    page: str, tmp_path: Path, forked_commands: Path
) -> None:
    """All numbers take minutes; `make test-papers` computes them."""
    (script,) = (one for one in blocks((ROOT / page).read_text("utf-8")) if one.kind == "sh")
    lines = [line.partition("#")[0].strip() for line in script.body.splitlines()]
    quick = [f"{line} --quick".replace("--quick --quick", "--quick") for line in lines
             if line.startswith("python -m papers ")]  # fmt: skip
    assert len(quick) + sum(line.startswith("make ") for line in lines) == len(lines)
    for line in quick:
        command = f"PYTHONPATH={ROOT} {line.replace('--json --quick', '--quick --json')}"
        run_script(Block("sh", None, command, script.line), tmp_path, page, forked_commands)


@pytest.mark.parametrize("block", ["visits  2\n", "visits  1\nviews  3\n", "n  m\n1  2.6\n"])
def test_run_page_rejects_text_that_nothing_has_printed(block: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,m\n1,2.51\n")
    page = f"```console\n$ printf 'visits 1\\nviews 4\\n'\n```\n```text\n{block}```\n"
    with pytest.raises(AssertionError, match="not printed"):
        run_page(page, "page", tmp_path)


@pytest.mark.parametrize("block", ["visits  1\n", "views  4\n", "n  m\n1  2.5\n"])
def test_text_of_a_page_may_be_printed_or_written(block: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,m\n1,2.51\n")
    page = f"```console\n$ printf 'visits 1\\nviews 4\\n'\n```\n```text\n{block}```\n"
    assert run_page(page, "page", tmp_path) == 2


@pytest.mark.parametrize("page", BESIDE)
def test_page_with_other_libraries_is_run_by_a_test(page: str) -> None:
    name = page.rpartition("/")[2]
    assert f'"{name}"' in (ROOT / BESIDE[page]).read_text("utf-8")
    assert [one for one in blocks((ROOT / page).read_text("utf-8")) if one.kind == "py"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_other_pages_have_no_python_that_nothing_runs(page: Path) -> None:
    kinds = {one.kind for one in blocks(page.read_text("utf-8"))}
    assert "py" not in kinds or str(page.relative_to(ROOT)) in BESIDE


def test_blocks_of_a_page_share_names_and_files(tmp_path: Path) -> None:
    page = (
        '```csv title="a.csv"\nx\n1\n```\n'
        "```pycon\n>>> a = 2\n```\n"
        "```python\nassert a == 2\nb = 3\n```\n"
        "```pycon\n>>> b\n3\n```\n"
        "```console\n$ cat a.csv\nx\n...\n```\n"
    )
    assert run_page(page, "page", tmp_path) == 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_named_on_a_page_exist(page: Path) -> None:
    folders = "tests|src|docs|benchmarks|papers|examples|tools"
    named = re.findall(rf"`((?:{folders})/[\w/.-]+)`", page.read_text(encoding="utf-8"))
    invented = {
        "src/counton/strategies/streams/yours.py",
        "tests/strategies/streams/test_yours.py",
        "src/counton/cli/yours.py",
    }
    assert [name for name in named if not (ROOT / name).exists() and name not in invented] == []


def missing_targets(page: str) -> list[str]:
    """What a page calls with make, in its text or in a block of commands, and make cannot do."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"`make ([a-z][a-z-]*)", FENCE.sub("", page))
    for block in blocks(page):
        if block.kind in {"sh", "console"}:
            named += re.findall(r"^(?:\$ )?make ([a-z][a-z-]*)", block.body, re.MULTILINE)
    return [target for target in named if target not in targets]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_commands_in_the_documents_exist(page: Path) -> None:
    assert missing_targets(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("page", "states"),
    [
        ("statistics/questions", {"shop.db"}),
        ("getting-started/first-series", {"visits.db"}),
    ],
)
def test_tasks_over_the_same_rows_use_one_state(page: str, states: set[str]) -> None:
    """Of several states each would say that ε = 1 in all; others begin with a limit."""
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    assert set(re.findall(r"[\w-]+\.db\b", text)) == states
