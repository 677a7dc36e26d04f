"""Workflows and forms of the platform that hosts the repository: they call targets, and no more."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS = set(
    re.findall(r"^([a-z-]+)(?= [a-z-]+)*:", (ROOT / "Makefile").read_text(), re.MULTILINE)
)
TARGETS |= {"test-proof"}
#: Commands that are no targets: programs that a runner lacks, and files that are put apart.
OTHERS = ("sudo apt-get update && sudo apt-get install", "mkdir sbom && mv dist/*.cdx.json sbom")
#: The target that a skipped test names, which installs what the test needs.
NAMED_TARGET = re.compile(r"(?:not installed|needs .*|run by): make (test-[a-z]+)")


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_existing_targets(path: Path) -> None:
    said = read(path)
    assert said["permissions"] == {"contents": "read"}
    for job in said["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {}).get("include", [])
        for step in job["steps"]:
            assert "uses" in step or "run" in step
            command = step.get("run", "")
            if "${{ matrix.stage }}" in command:
                called = {one["stage"] for one in matrix}
            elif command.startswith("make "):
                called = set(command.removeprefix("make ").split())
            else:
                assert not command or command.startswith(OTHERS), command
                continue
            assert called <= TARGETS, called - TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_the_hash_of_a_commit(path: Path) -> None:
    uses = re.findall(r"uses: (.*)", path.read_text("utf-8"))
    assert uses
    for action in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_a_release_keeps_no_password() -> None:
    said = read(ROOT / ".github/workflows/release.yml")
    publish = said["jobs"]["publish"]
    assert publish["permissions"]["id-token"] == "write"
    assert publish["environment"] == "release"
    for path in WORKFLOWS:
        assert "secrets." not in path.read_text(encoding="utf-8")


def test_workflow_has_every_test_stage() -> None:
    loops = re.findall(r"for stage in ([a-z ]+); do", (ROOT / ".ci/run").read_text())
    stages = {stage for loop in loops for stage in loop.split()}
    assert "package" in stages
    matrix = read(ROOT / ".github/workflows/tests.yml")["jobs"]["stage"]["strategy"]["matrix"]
    there = {one["stage"].removeprefix("test-") for one in matrix["include"]}
    assert there == stages | {"papers"}


def test_issue_forms_have_required_fields_and_refer_leaks() -> None:
    forms = {path.stem: read(path) for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")}
    assert forms.pop("config") == {"blank_issues_enabled": False}
    assert forms.keys() == {"wrong", "missing"}
    for form in forms.values():
        assert {"name", "description", "labels", "body"} == form.keys()
        fields = [one for one in form["body"] if one["type"] != "markdown"]
        assert len({one["id"] for one in fields}) == len(fields)
        assert any(one.get("validations", {}).get("required") for one in fields)
    assert "SECURITY.md" in str(forms["wrong"])


def test_a_target_runs_each_test_file_that_names_it() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    files_of_targets = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        targets = set(NAMED_TARGET.findall(path.read_text(encoding="utf-8")))
        files_of_targets += [(path, target) for target in targets]
    assert len({target for _, target in files_of_targets}) > 3
    for path, target in files_of_targets:
        recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        assert recipe, target
        patterns = re.findall(r"\btests/[\w./*]+", recipe[1])
        run = {file for pattern in patterns for file in ROOT.glob(pattern)}
        assert run & {path, *path.parents}, f"make {target} does not run {path.relative_to(ROOT)}"
