"""The container file, as far as no builder is needed to see it."""

import fnmatch
import json
import re
import tomllib
from pathlib import Path

from containerfile import Instruction, stages
from programs import run_program

from tools import lock

ROOT = Path(__file__).parents[2]
BUILD, FINAL = stages(ROOT / "Containerfile")


def words(stage: list[Instruction]) -> list[str]:
    return [instruction.word for instruction in stage]


def only(stage: list[Instruction], word: str) -> str:
    (found,) = [instruction.rest for instruction in stage if instruction.word == word]
    return found


def tracked() -> list[str]:
    return run_program(["git", "ls-files"], cwd=ROOT, check=True).stdout.splitlines()


def sent(names: list[str]) -> list[str]:
    """What a builder is sent of these files: the last line of .dockerignore that fits decides."""
    rules = [
        line
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]

    def kept(name: str) -> bool:
        ignored = False
        parts = name.split("/")
        above = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
        for rule in rules:
            pattern = rule.removeprefix("!").removeprefix("**/")
            fits = [fnmatch.fnmatch(place, pattern) for place in above]
            if rule.removeprefix("!").startswith("**/"):
                fits.append(pattern in parts)
            if any(fits):
                ignored = not rule.startswith("!")
        return not ignored

    return [name for name in names if kept(name)]


def test_image_runs_as_unprivileged_user_with_private_folders() -> None:
    user, group = only(FINAL, "USER").split(":")
    assert int(user) >= 10_000  # a number, so that a cluster can see that it is not root
    assert int(group) >= 10_000
    assert words(FINAL).index("USER") < words(FINAL).index("ENTRYPOINT")
    assert only(FINAL, "WORKDIR") == "/data"
    assert only(FINAL, "VOLUME") == "/data /guard"
    (made,) = [each.rest for each in FINAL if each.word == "RUN"]
    assert f"--owner={user} --group={group} --mode=0700 /data /guard" in made
    assert "XDG_STATE_HOME=/guard" in only(FINAL, "ENV")
    assert words(FINAL).index("RUN") < words(FINAL).index("VOLUME")
    assert f"HOME={only(FINAL, 'WORKDIR')}" in only(FINAL, "ENV")


def test_image_starts_counton_without_a_shell() -> None:
    assert json.loads(only(FINAL, "ENTRYPOINT")) == ["counton"]  # not through a shell
    assert json.loads(only(FINAL, "CMD")) == ["--help"]


def test_its_base_is_named_with_a_version_that_counton_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    supported = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    for stage in (BUILD, FINAL):
        base = re.fullmatch(r"docker\.io/library/python:(3\.\d+)-slim(?: AS build)?", stage[0].rest)
        assert base is not None
        assert base[1] in supported


def test_image_installs_existing_extras_in_locked_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    verified, built = (each.rest for each in BUILD if each.word == "RUN")
    assert "--no-deps --require-hashes --requirement image.hashes" in verified
    extras = re.search(r'"\.\[([\w,]+)\]"', built)
    assert extras is not None
    assert set(extras[1].split(",")) == set(lock.IMAGE) <= set(project["optional-dependencies"])
    assert "--no-build-isolation --constraint requirements.lock" in built
    prefix = only(BUILD, "ENV").removeprefix("PYTHONPATH=")
    assert prefix == f"/install/lib/python{BUILD[0].rest.partition(':')[2][:4]}/site-packages"
    assert words(FINAL).count("COPY") == 1
    assert only(FINAL, "COPY") == "--from=build /install /usr/local"


def test_build_context_contains_only_copied_files() -> None:
    copied = [
        name
        for each in BUILD
        if each.word == "COPY"
        for name in each.rest.replace("./", "").split()
    ]
    names = tracked()
    context = sent(names)
    assert {name.partition("/")[0] for name in context} == {*copied}
    assert {name for name in names if name.startswith("src/")} <= set(context)
    secret = [
        ".git/config", "visits.db", "visits.db.key", "src/counton.egg-info/PKG-INFO", "demo/x.db",
    ]  # fmt: skip
    assert sent(secret) == []
    assert not {"ADD", "EXPOSE"} & {*words(BUILD), *words(FINAL)}
