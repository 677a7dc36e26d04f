"""What must and must not stand in the repository's own files."""

import os
import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from programs import run_program

from tools import lock, release

ROOT = Path(__file__).parents[2]
#: What is read where there is no git, as in an unpacked archive of the sources.
FOLDERS = (".ci", "benchmarks", "docs", "examples", "papers", "src", "tests", "tools")

#: Places that exist on one machine only, and hosts which a lock or a build must not depend on.
#: In small letters, and nothing looks back before it begins: so a search skips most of a text.
FORBIDDEN = re.compile(
    r"/(?:home|root|users|work|opt|tmp)/[a-z.]"
    r"|file:/{2}"
    r"|pypi\.[a-z]|pythonhosted|anaconda\.[a-z]"
    r"|(?:index-url|find-links|trusted-host)(?<!no-emit-index-url)(?<!no-emit-find-links)"
    r"(?<!no-emit-trusted-host)"
)


def files_of(root: Path) -> list[Path]:
    """Files that belong to the repository, and not what lies about in its folder."""
    if (root / ".git").exists():
        listed = run_program(["git", "ls-files", "-z"], cwd=root, check=True).stdout
        files = [root / name for name in listed.split("\0") if name]
    else:
        files = [*root.glob("*"), *(path for name in FOLDERS for path in (root / name).rglob("*"))]
        files = [
            path
            for path in files
            if "__pycache__" not in path.parts and ".egg-info" not in str(path)
        ]
    return [path for path in files if path.is_file()]


def texts() -> Iterator[Path]:
    """Every text file of the project, this one excepted: it names what it forbids."""
    for path in files_of(ROOT):
        if path != Path(__file__) and path.suffix not in {".png", ".pyc", ".xz"}:
            yield path


@pytest.mark.parametrize(
    "text",
    ["/home/" + "ann/x", "file:" + "///x", "--find" + "-links x", "https://pypi" + ".org/simple"],
)
def test_forbidden_pattern_matches_machine_paths(text: str) -> None:
    assert FORBIDDEN.search(text.lower())


def test_no_file_names_a_machine_or_a_package_host() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        if FORBIDDEN.search(text := path.read_text(encoding="utf-8").lower())
        for number, line in enumerate(text.splitlines(), 1)
        if FORBIDDEN.search(line)
    ]
    assert not found


def test_the_lock_names_versions_and_no_addresses() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert len(pins) > 20
    assert [line for line in pins if not re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.]+", line)] == []


def test_locked_versions_have_digests_and_demonstration_packages_are_first() -> None:
    text = (ROOT / "requirements.hashes").read_text(encoding="utf-8")
    first = text.partition(f"{lock.REST}\n")[0]
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    line = re.compile(r"[a-z0-9.-]+==[a-z0-9.]+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
    assert [one for one in lines if not line.fullmatch(one)] == []
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    versions = {name: version for name, (version, _) in lock.pins_of(locked).items()}
    found = lock.pins_of(text)
    assert {name: version for name, (version, _) in found.items()} == versions
    assert all(digests for _, digests in found.values())
    needed = {name for name in release.needed(("cli",)) if name != "counton"}
    assert needed <= {*versions}
    # Another version of a package may need others, as `make test-lowest` has them.
    if all(metadata.version(name) == versions[name] for name in needed):
        assert {*lock.pins_of(first)} == needed | lock.DEMO


def test_write_lock_divides_compiled_requirements(tmp_path: Path) -> None:
    digests = [f"    --hash=sha256:{digit * 64}" for digit in "ab"]
    compiled = (
        "numpy==2.0 \\\n"
        + " \\\n".join(digests)
        + f"\nyarl==1.0 \\\n{digests[0]}\n\n# WARNING: x\n"
    )
    lock.write_lock(compiled, tmp_path)
    assert (tmp_path / "requirements.lock").read_text().splitlines()[1:] == [
        "numpy==2.0",
        "yarl==1.0",
    ]
    said = (tmp_path / "requirements.hashes").read_text().splitlines()[1:]
    first = ["numpy==2.0 \\", f"{digests[0]} \\", digests[1]]
    assert said == [*first, lock.REST, "yarl==1.0 \\", digests[0]]
    assert (tmp_path / "image.hashes").read_text().splitlines()[1:] == first


def test_each_lock_has_digests_and_is_used_by_make() -> None:
    usual = lock.pins_of((ROOT / "requirements.hashes").read_text(encoding="utf-8"))
    versions = {name: version for name, (version, _) in usual.items()}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert len(lock.beside()) > 5
    for one in lock.beside():
        found = lock.pins_of(one.with_suffix(".hashes").read_text(encoding="utf-8"))
        stated = lock.versions_of(one.read_text(encoding="utf-8"), versions)
        assert {name: version for name, (version, _) in found.items()} == stated, one
        assert all(digests for _, digests in found.values()), one
        name = one.with_suffix(".hashes").relative_to(ROOT)
        assert f",{name})" in makefile, one
    assert makefile.count("--require-hashes") == 1  # one mechanism for all
    lines = makefile.replace("\\\n", "").splitlines()
    # What builds counton is there beforehand: pip would fetch the newest, without digests.
    for line in lines:
        assert ("--editable" in line) <= ("--no-build-isolation" in line), line
        assert ("-m build" in line) <= ("--no-isolation" in line), line


def test_locked_packages_allow_first_patch_of_lowest_python() -> None:
    """Distributions ship early patches: Debian 12 has Python 3.11.2."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest = project["requires-python"].removeprefix(">=") + ".0"
    stated = {
        package.name: package.metadata.json.get("requires_python")
        for package in metadata.distributions()
    }
    assert "numpy" in stated
    refusing = [
        name
        for name, versions in stated.items()
        if not SpecifierSet(str(versions or "")).contains(lowest)
    ]
    assert refusing == []


def test_the_image_has_the_digests_of_the_lock() -> None:
    whole = lock.pins_of((ROOT / "requirements.hashes").read_text(encoding="utf-8"))
    found = lock.pins_of((ROOT / "image.hashes").read_text(encoding="utf-8"))
    assert found.items() <= whole.items()
    needed = {name for name in release.needed(lock.IMAGE) if name != "counton"}
    if all(metadata.version(name) == whole[name][0] for name in needed):
        assert {*found} == needed | lock.BUILDS


@pytest.mark.skipif(os.name != "posix", reason="a Python is played by a script of sh")
def test_other_pythons_are_found_under_pyenv_and_by_the_launcher(tmp_path: Path) -> None:
    def script(path: Path, body: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    python = 'test "$1" = -c'  # it starts, and makes no environment
    under = script(tmp_path / "pyenv/versions/3.99.1/bin/python3.99", python)
    elsewhere = script(tmp_path / "elsewhere/python", python)
    script(tmp_path / "bin/py", f'test "$1" = -3.98 && echo {elsewhere}')
    script(tmp_path / "bin/python3.99", "exit 1")  # as pyenv has for one that is not chosen
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    told = os.environ | {"PYENV_ROOT": str(tmp_path / "pyenv"), "PATH": path, "COUNTON_RUN": ""}
    for name, said in (
        ("python3.99", f"testing with {under} in .venv-python3.99"),
        ("python3.98", f"testing with {elsewhere} in .venv-python3.98"),
        ("python3.97", "not run: python3.97 is not installed"),
    ):
        done = run_program(
            ["make", "--no-print-directory", "test-python", f"PYTHONS={name}"], cwd=ROOT, env=told
        )
        assert done.stdout.splitlines()[0] == said
        assert not (ROOT / f".venv-{name}").exists()


def test_bare_make_lists_the_targets() -> None:
    listed = run_program(["make", "--no-print-directory"], cwd=ROOT, check=True).stdout
    for target in (
        "setup",
        "demo",
        "papers",
        "test",
        "quick",
        "bench",
        "docs",
        "lint",
        "format",
        "lock",
        "clean",
    ):
        assert re.search(rf"^  make {target} +\w", listed, re.MULTILINE), target


def test_continuous_integration_runs_tests_omitted_by_make() -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    (named,) = re.findall(r"\nCHECKS := \$\(PYTEST\)((?: --ignore=tests/\w+)+)\n", rules)
    # One case in `make test`, a second one in `make test-long`, others in `make test-cases`.
    some = "COUNTON_CASES=$(CASES)"
    all_but_these = "'not evidence and not types'"
    assert re.findall(r"\n([\w-]+): .*\n\t(.*) \$\(CHECKS\) -m (.*)\n", rules) == [
        ("pytest", f"{some} COUNTON_TIER=quick", "'not evidence and not types and not long'"),
        ("test-long", f"{some} COUNTON_TIER=long", all_but_these),
        ("test-cases", f"{some} COUNTON_OTHER_CASES=1", all_but_these),
    ]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (beside,) = re.findall(r"\ntest: .*\n\t@\$\(MAKE\) .* --jobs=2 (.*)\n", rules)
    assert "\nmake test-long <" in script
    for marker in ("evidence", "types"):
        (target,) = re.findall(
            rf"\n([\w-]+): .*\n\t.*\$\((?:PYTEST|CHECKS)\) .*-m {marker}[ \n]", rules
        )
        assert target in beside.split() or f"\nmake {target} <" in script
    assert "pytest" in beside.split()
    for folder in re.findall(r"tests/(\w+)", named):
        assert re.search(
            rf"\ntest-{folder}: [^#]*(?:##.*)?\n(?:\t.*\n)*\t.*tests/{folder}\b", rules
        )
        assert re.search(rf"\nfor stage in [\w ]*\b{folder}\b[\w ]*; do\n  run_stage ", script)
        assert folder not in (ROOT / ".ci" / "optional").read_text(encoding="utf-8")
    assert "\nmake test <" in script
    assert re.search(r"\ntest-all: .*\n(?:\t.*\n)*\t.*\btest-cases\b", rules)
    assert re.search(r"\ntest-all: .*\n(?:\t.*\n)*\t.*\btest-in-turn\b", rules)
    # `make types` alone leaves out the types of tests.
    asked = run_program(["make", "--dry-run", "types", "lint"], cwd=ROOT, check=True).stdout
    assert re.search("bin/mypy *$", asked, re.MULTILINE)


def _importing_files(module: str) -> set[Path]:
    pattern = re.compile(rf"^(?:from|import) {module}\b", re.MULTILINE)
    return {
        path
        for path in (ROOT / "tests").rglob("*.py")
        if pattern.search(path.read_text(encoding="utf-8"))
    }


def test_make_in_turn_runs_every_test_that_omits_cases() -> None:
    expected = set[str]()
    modules = ["in_turn"]
    while modules:
        for path in _importing_files(modules.pop()):
            if path.name.startswith("test_"):
                expected.add(str(path.relative_to(ROOT)))
            else:
                modules.append(path.stem)
    assert expected
    command = run_program(["make", "--dry-run", "test-in-turn"], cwd=ROOT, check=True).stdout
    assert "COUNTON_FUZZ=1 " in command
    assert set(re.findall(r"tests/\S+\.py", command)) == expected


def test_the_citation_names_the_version_and_the_papers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == project["version"]
    # Its own; files of others that it ships have theirs beside them.
    assert citation["license"] == project["license"].partition(" AND ")[0]
    assert len({paper["title"] for paper in citation["references"]}) == 5
