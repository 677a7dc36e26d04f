"""The scripts of docs/guides/deploy.md run in a folder in place of the machine's root.

Programs that need an administrator, a container engine or a cluster are played by scripts that note
their words: `tests/package` installs and starts the real ones where they are.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "deploy.md").read_text("utf-8")
SCRIPTS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PLAYED = ("pipx", "podman", "kubectl", "systemctl", "journalctl", "editor")


@pytest.mark.skipif(os.name != "posix", reason="the page is for machines with a shell")
@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_script_of_page_runs_with_files_of_repository(number: int, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in PLAYED:
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/called\n')
        (programs / name).chmod(0o755)
    for folder in ("deploy", "Containerfile", "pyproject.toml"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    script = SCRIPTS[number].replace("/etc/", f"{tmp_path}/etc/")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path, env=os.environ | {"PATH": path, "EDITOR": "editor"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    called = (tmp_path / "called").read_text("utf-8").splitlines()
    words = {word for line in called for word in re.findall(r"\bdeploy/[\w./-]+", line)}
    assert all((ROOT / word).exists() for word in words)
    for key in (tmp_path / "etc/counton/nightly.key", tmp_path / "nightly.key"):
        if key.exists():
            assert re.fullmatch(r"counton-key-1:[0-9a-f]{64}\n", key.read_text())
            assert key.stat().st_mode & 0o077 == 0
    if number == 0:
        installed = {path.name for path in (tmp_path / "etc").rglob("*") if path.is_file()}
        assert installed == {"nightly.key", "nightly.toml", "counton.service", "counton.timer"}


def test_page_has_scripts() -> None:
    assert len(SCRIPTS) == 3
