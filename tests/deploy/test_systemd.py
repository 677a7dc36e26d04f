"""The unit and the timer: what they promise, what systemd says of them, and their job file."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forked_commands import forked_counton

from counton.cli.exits import RETRYABLE_CODES, ExitCode
from counton.job.job_file import load
from counton.serve.server import _MOST_CONNECTIONS, RESERVED_DESCRIPTORS

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"


def unit(name: str) -> dict[str, dict[str, list[str]]]:
    """Sections of a unit: the values of each setting, in their order."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, value = line.split("=", 1)
            section.setdefault(key, []).append(value)
    return sections


SERVICES = ("counton.service", "counton-serve.service")


@pytest.mark.parametrize("name", SERVICES)
def test_service_has_dynamic_user_and_writes_only_its_folder(name: str) -> None:
    service = unit(name)["Service"]
    on = ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "ProtectHome", "RestrictSUIDSGID")
    assert {name: service[name] for name in on} == {name: ["yes"] for name in on}
    assert service["ProtectSystem"] == ["strict"]
    assert service["CapabilityBoundingSet"] == [""]
    assert service["StateDirectory"] == ["counton counton-guard"]
    assert service["StateDirectoryMode"] == ["0700"]
    assert "XDG_STATE_HOME=%S/counton-guard" in service["Environment"][0]
    assert service["UMask"] == ["0077"]
    assert not {"ReadWritePaths", "User", "AmbientCapabilities"} & service.keys()


@pytest.mark.parametrize("name", SERVICES)
def test_service_restarts_only_after_retryable_exit_codes(name: str) -> None:
    service = unit(name)["Service"]
    never = {int(code) for code in service["RestartPreventExitStatus"][0].split()}
    assert never == set(ExitCode) - {ExitCode.OK, ExitCode.BUDGET_WARNING, *RETRYABLE_CODES}
    assert service["Restart"] == ["on-failure"]
    assert "StartLimitBurst" in unit("counton.service")["Unit"]


def test_service_unit_starts_at_boot_with_enough_descriptors() -> None:
    service = unit("counton-serve.service")
    (command,) = service["Service"]["ExecStart"]
    assert command.endswith("counton serve /etc/counton/service.toml --listen 127.0.0.1:8080")
    assert service["Install"]["WantedBy"] == ["multi-user.target"]
    assert int(service["Service"]["LimitNOFILE"][0]) >= _MOST_CONNECTIONS + RESERVED_DESCRIPTORS
    assert "Type" not in service["Service"]  # it runs until it is told to end


def test_unit_runs_shipped_job_file_with_its_credential() -> None:
    service = unit("counton.service")["Service"]
    (command,) = service["ExecStart"]
    assert command.endswith("/counton run /etc/counton/nightly.toml")
    credential, place = service["LoadCredential"][0].split(":")
    assert place.startswith("/etc/counton/")
    for job in load(FOLDER / "nightly.toml").values():
        assert job.key == f"command:cat /run/credentials/counton.service/{credential}"
        assert str(job.state).startswith("/var/lib/counton/")
        assert job.windows is not None
        assert job.allow_empty_windows


def test_shipped_job_file_runs_on_folder_with_nightly_files(tmp_path: Path) -> None:
    text = (FOLDER / "nightly.toml").read_text(encoding="utf-8")
    key = "command:cat /run/credentials/counton.service/counton.key"
    for shipped, here in (("/srv", ""), ("/var/lib/counton", "/state"), (key, "/state/key")):
        assert f'"{shipped}' in text
        text = text.replace(f'"{shipped}', f'"{tmp_path}{here}')
    file = tmp_path / "nightly.toml"
    file.write_text(text, encoding="utf-8")
    (tmp_path / "state").mkdir()
    (tmp_path / "visits").mkdir()
    for night, days in ((2, (1, 2)), (3, (3,))):
        for day in days:
            rows = f"time,page\n2026-01-0{day}T10:00,home\n"
            (tmp_path / "visits" / f"{day}.csv").write_text(rows, encoding="utf-8")
        command = [
            forked_counton(), "run", str(file), "--until", f"2026-01-0{night}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "gone" not in done.stderr


def test_the_timer_starts_the_unit_every_night() -> None:
    timer = unit("counton.timer")
    assert timer["Timer"]["OnCalendar"] == ["*-*-* 02:15:00"]
    assert timer["Timer"]["Persistent"] == ["yes"]
    assert timer["Install"]["WantedBy"] == ["timers.target"]
    assert "Unit" not in timer["Timer"]  # that of the same name
    assert "Install" not in unit("counton.service")


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)


def copied(folder: Path) -> list[str]:
    """The units with a command that there is on this machine."""
    for name in (*SERVICES, "counton.timer"):
        text = (FOLDER / name).read_text(encoding="utf-8")
        (folder / name).write_text(text.replace("/usr/local/bin/counton", sys.executable))
    return [str(folder / name) for name in (*SERVICES, "counton.timer")]


def test_systemd_verify_accepts_units(tmp_path: Path) -> None:
    done = analyze("verify", "--man=no", *copied(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("wrong", ["RestrictNamespace=yes", "SystemCallFilter=@everything"])
def test_systemd_verify_rejects_wrong_unit(wrong: str, tmp_path: Path) -> None:
    files = copied(tmp_path)
    text = Path(files[0]).read_text(encoding="utf-8")
    Path(files[0]).write_text(text.replace("PrivateUsers=yes", wrong))
    assert "counton.service" in analyze("verify", "--man=no", *files).stderr


def test_systemd_rates_service_exposure_below_two() -> None:
    done = analyze("security", "--offline=true", "--no-pager", str(FOLDER / "counton.service"))
    told = re.search(r"exposure level for counton.service: ([\d.]+)", done.stdout)
    if told is None:
        pytest.skip("this systemd-analyze judges no file: it is older than version 250")
    assert float(told[1]) < 2
