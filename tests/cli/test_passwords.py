"""Passwords in addresses: whatever a command is given and says, they are shown and kept nowhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Context
from click.testing import CliRunner

from counton.base.errors import InvalidInputError, hide_secrets, param, without_secrets
from counton.cli.app import app
from counton.cli.statistic_commands import statistic_command
from counton.job.saved_job import save
from counton.run import Job

from .conftest import Workplace

SECRET = "hunter-two"
SERVER = "localhost:1"  # where nobody answers
#: Addresses that hold it: in the right place, in another one, and as people mistake it.
ADDRESSES = (
    f"postgresql://ann:{SECRET}@{SERVER}/db",
    f"postgresql://{SERVER}/db?user=ann&password={SECRET}&sslpassword={SECRET}",
    f"postgres://ann:{SECRET}@{SERVER}/db",
    f"https://ann:{SECRET}@{SERVER}/v1/streams/x?token={SECRET}",
    f"host=localhost port=1 user=ann password={SECRET}",
    f"mysql://ann:a/{SECRET}@{SERVER}/db",
)
#: As some servers and drivers take them, and as presigned files have them.
ODD_ADDRESSES = (
    f"postgresql://ann@server:{SECRET}@{SERVER}/db",
    f"postgresql://ann:/{SECRET}@{SERVER}/db",
    f"postgresql://ann:?{SECRET}@{SERVER}/db",
    f"postgresql://ann:a {SECRET}@{SERVER}/db",
    f"postgresql://{SERVER}/db?user=ann&password=a#;'{SECRET}",
    f"https://{SERVER}/x.csv?X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}",
    f"s3://bucket/x?aws_secret_access_key={SECRET}&access_key={SECRET}",
)
COMMANDS: dict[str, Any] = {
    name: app.get_command(Context(app), name)
    for name in app.list_commands(Context(app))
    if name != "release"
}
COMMANDS |= {
    f"release {name}": statistic_command(name)
    for name in ("count", "sum", "hierarchy", "contingency", "ranges")
}
#: Options with which a command goes far before it meets an address.
MORE = {
    "count": {
        "--time": "time", "--every": "1d", "--start": "2026-03-01", "--windows": "9",
        "--epsilon": "1", "--until": "2026-03-02", "--privacy-unit": "visit", "--state": "other.db",
    },
    "publish": {"--to": "public.db"},
}  # fmt: skip


def asked(command: Any, address: str, where: str) -> Iterator[str]:
    """Words of a command with an address in one place, and what it needs besides."""
    more = dict(MORE.get(command.name, {}))
    for one in command.params:
        if one.param_type_name == "argument":
            if one.required or one.name == where:
                yield address if one.name == where else "visits.csv"
        elif one.name == where:
            more[one.opts[-1]] = address
        elif one.required:
            more.setdefault(one.opts[-1], "other.db")
    for option, value in more.items():
        yield from (option, value)


def places(command: Any) -> list[str]:
    """Where a command takes a text or a path."""
    return [
        one.name
        for one in command.params
        if one.param_type_name == "argument" or not (one.is_flag or one.count)
        if one.name
        not in ("folder", "privacy_unit", "stream")  # words of one's own, which are published
    ]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_command_prints_or_stores_password_of_address(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("time,page\n2026-03-01T09:00:00Z,home\n")
    command = COMMANDS[name]
    for number, place in enumerate(places(command)):
        often = place in ("state", "ledger", "to", "events", "file", "source", "release", "key")
        for address in ADDRESSES if often else (ADDRESSES[number % len(ADDRESSES)],):
            if "://" not in address and place != "events":
                continue  # a file of this name
            words = [*name.split(), *asked(command, address, place)]
            done = CliRunner().invoke(app, words)
            assert SECRET not in done.output, words
            assert SECRET not in repr(done.exception), words
    assert_nowhere(tmp_path)


def assert_nowhere(folder: Path) -> None:
    for file in folder.rglob("*"):
        assert SECRET not in file.name
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


@pytest.mark.long
def test_a_state_and_a_saved_job_keep_addresses_without_passwords(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a state, and of a database that is published into."""
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("time,page\n2026-03-01T09:00:00Z,home\n")
    address = postgres.replace("//counton@", f"//counton:{SECRET}@")
    address += f"&password={SECRET}&sslpassword={SECRET}"
    assert address.count(SECRET) == 3
    saved = ["--key", "own.key", "--save-job", "jobs.toml", "--json"]
    first = [*asked(COMMANDS["release count"], "visits.csv", "events"), "--state", address, *saved]
    for words in (
        ["release", "count", *first],
        ["ledger", address],
        ["ledger", address, "--json"],
        ["inspect", address, "--json"],
        ["publish", address, "--to", address],
        ["run", "jobs.toml", "--json"],
        ["methods", address],
    ):
        done = CliRunner().invoke(app, words)
        assert SECRET not in done.output, words
        assert done.exit_code == 0 or words[0] == "run", done.output
    assert "counton@" in Path("jobs.toml").read_text()
    assert Path("jobs.toml").stat().st_mode & 0o777 == 0o600
    assert_nowhere(tmp_path)


def test_a_job_file_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    job = Job("count", "visits.csv", "visits.db")
    for mode in (0o600, 0o640, 0o644):
        file.touch()
        file.chmod(mode)
        save(job, file)
        assert file.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("address", [*ADDRESSES, *ODD_ADDRESSES])
def test_hide_secrets_keeps_text_without_passwords(address: str) -> None:
    for said in (f"it said: {address!r}, and so on", f"{address}: it said (so) [on]"):
        assert SECRET not in hide_secrets(said)
        assert hide_secrets(said).endswith(said[-4:])
    for job in (
        Job("count", "visits.csv", address),
        Job("count", address, "x", rollback_guard=address),
    ):
        assert SECRET not in repr(job)
        assert SECRET not in str(job)
    assert hide_secrets(address).count("***") == address.count(SECRET)
    assert SECRET not in str(InvalidInputError(f"{param('state', address)}, or {address}"))
    for plain in (
        *("postgresql://h:5432/db?user=a@b", "sqlite:///a=b.db", "http://h:80/v1/a@b"),
        *("postgresql://a@h:5432/db?x=a@b", "http://h:80 or a@b", "sqlite:///C:/a@b.db"),
    ):
        assert hide_secrets(plain) == without_secrets(plain) == plain


def test_addresses_stay_usable_without_their_passwords() -> None:
    assert without_secrets(ADDRESSES[0]) == f"postgresql://ann@{SERVER}/db"
    assert without_secrets(ADDRESSES[1]) == f"postgresql://{SERVER}/db?user=ann"


KEY = "counton-key-1:" + "9f" * 32


def test_key_text_given_as_key_location_is_not_printed(place: Workplace, tmp_path: Path) -> None:
    """As `--key "$KEY"` where `--key env:KEY` is meant; nothing is called by it either."""
    rows = place.write("e.csv", ["00:10,a", "01:30,b"], "time,group")
    job = tmp_path / "job.toml"
    assert place("release", "count", rows, *place.new(), "--save-job", str(job)).code == 0
    assert place("release", "count", rows, *place.new()).code == 0
    text = job.read_text()
    for key in (KEY, KEY.partition(":")[2], f"./{KEY}", f" {KEY} ", KEY[:-2]):
        new = place.new(state=str(tmp_path / "new.db"))
        asked: list[tuple[str, ...]] = [
            ("release", "count", rows, *new, "--key", key),
            (
                "release",
                "count",
                rows,
                *new,
                "--key",
                key,
                "--save-job",
                str(tmp_path / "saved.toml"),
            ),
            ("release", "count", rows, "--state", str(place.state), "--key", key),
            ("verify", str(place.state), "--key", key),
            ("run", str(job)),
            ("plan", str(job)),
        ]
        job.write_text(text.replace("[jobs", f'[defaults]\nkey = "{key}"\n\n[jobs', 1))
        for command in asked:
            done = place.plain(*command)
            assert done.code != 0, command
            assert "9f9f" not in done.out + done.err, command
            assert "is the text of a key" in " ".join(done.err.split()), done.err
        names = [path.name for path in (*tmp_path.rglob("*"), *Path(place.state).parent.rglob("*"))]
        assert not any("9f9f" in name or name.startswith(("new.db", "saved")) for name in names)
    assert "9f9f" not in hide_secrets(f"no such file: {KEY}")
