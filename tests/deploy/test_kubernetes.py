"""The manifests: by the schemas of Kubernetes, and their job files by a run."""

import re
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from forked_commands import forked_counton

from counton.cli.exits import RETRYABLE_CODES, ExitCode
from counton.job.job_file import load, published_to

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
#: Lowest and newest versions of Kubernetes whose schemas the manifests keep.
VERSIONS = ("1.31", "1.37")
FILES = ("nightly.yaml", "service.yaml")


def parts(name: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))]


def only(name: str, kind: str) -> dict[str, Any]:
    (found,) = [one for one in parts(name) if one["kind"] == kind]
    return found


def pod(name: str) -> dict[str, Any]:
    """What the manifest says of its pods."""
    if name == "nightly.yaml":
        spec: dict[str, Any] = only(name, "CronJob")["spec"]["jobTemplate"]["spec"]
    else:
        spec = only(name, "Deployment")["spec"]
    found: dict[str, Any] = spec["template"]["spec"]
    return found


def refusals(part: dict[str, Any], version: str) -> str:
    """What the schema of a version says of a manifest."""
    if find_spec("kubernetes_validate") is None:
        pytest.skip("schemas of Kubernetes are in .venv-deploy")
    judge = import_module("kubernetes_validate")
    try:
        judge.validate(part, version, strict=True)
    except judge.ValidationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.smoke
def test_every_part_keeps_its_schema(name: str, version: str) -> None:
    for part in parts(name):
        assert refusals(part, version) == ""
    wrong = only("nightly.yaml", "CronJob")
    wrong["spec"]["jobTemplate"]["spec"]["backofLimit"] = 4
    assert "backofLimit" in refusals(wrong, version)


@pytest.mark.parametrize("name", FILES)
def test_pod_runs_without_root_and_mounts_named_files(name: str) -> None:
    said = pod(name)
    (container,) = said["containers"]
    assert said["securityContext"]["runAsNonRoot"] is True
    assert said["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert said["terminationGracePeriodSeconds"] >= 120
    assert {one["name"] for one in container["volumeMounts"]} == {
        one["name"] for one in said["volumes"]
    }
    mounted = [one["mountPath"] for one in container["volumeMounts"]]
    (file, text), *_ = only(name, "ConfigMap")["data"].items()
    assert f"/etc/counton/{file}" in container["args"]
    places = re.findall(r'"(/[^"]+)"', text)
    assert all(any(place.startswith(one) for one in mounted) for place in places), places
    in_force = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    named = {*re.findall(r"\$\{(\w+)\}", in_force), *re.findall(r"env:(\w+)", in_force)}
    given = {one["name"] for one in container["env"]}
    assert given == named | {"PGPASSWORD", "PGSSLMODE", "PGSSLROOTCERT"}
    values = {one["name"]: one.get("value") for one in container["env"]}
    assert values["PGSSLMODE"] == "verify-full"
    assert any(str(values["PGSSLROOTCERT"]).startswith(one) for one in mounted)
    for volume in said["volumes"]:
        if "secret" in volume:
            assert volume["secret"]["defaultMode"] == 0o440


def test_a_night_is_tried_again_where_that_can_help() -> None:
    spec = only("nightly.yaml", "CronJob")["spec"]
    (rule,) = spec["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    assert set(rule["onExitCodes"]["values"]) == set(ExitCode) - {ExitCode.OK, *RETRYABLE_CODES}
    assert rule["onExitCodes"]["containerName"] == pod("nightly.yaml")["containers"][0]["name"]
    assert (spec["concurrencyPolicy"], pod("nightly.yaml")["restartPolicy"]) == ("Forbid", "Never")


def test_probes_use_port_of_service() -> None:
    (container,) = pod("service.yaml")["containers"]
    paths = [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("readiness", "liveness")]
    assert paths == ["/ready", "/health"]
    (port,) = container["ports"]
    assert container["args"][-1] == f"0.0.0.0:{port['containerPort']}"
    assert only("service.yaml", "Service")["spec"]["ports"][0]["targetPort"] == port["name"]


@pytest.mark.slow
@pytest.mark.long
def test_scheduled_job_runs_and_repeats_in_its_pod(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first night, one that is repeated, thirty days that were missed, and a fresh machine."""
    from counton.noise import Key

    (text,) = only("nightly.yaml", "ConfigMap")["data"].values()
    for address in re.findall(r'"(postgresql://[^"]+)"', text):
        text = text.replace(address, postgres)
    file = tmp_path / "nightly.toml"
    file.write_text(text.replace('"/guard/', f'"{tmp_path}/guard/'))
    (tmp_path / "guard").mkdir()
    Key.generate().save(tmp_path / "key")
    monkeypatch.setenv("COUNTON_KEY", (tmp_path / "key").read_text())
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute('CREATE TABLE visits ("time" timestamptz, page text)')
        connection.execute(
            "INSERT INTO visits SELECT timestamptz '2026-01-01T09:00Z' + n * interval '5 hours', "
            "CASE WHEN n % 3 = 0 THEN 'shop' ELSE 'home' END FROM generate_series(0, 199) AS n"
        )
    words = [word for word in pod("nightly.yaml")["containers"][0]["args"] if "/" not in word]
    assert words == ["run", "--json"]
    for until, new in (("2026-01-03", 2), ("2026-01-03", 0), ("2026-02-02", 30)):
        done = subprocess.run(
            [forked_counton(), "run", str(file), "--json", "--until", until],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert f'"new": {new},' in done.stdout
    assert load(file)["visits"].allow_empty_windows


def test_each_server_of_job_has_its_own_password() -> None:
    """PGPASSWORD is that of the state alone; every part of the Secret is made by its command."""
    (text,) = only("nightly.yaml", "ConfigMap")["data"].values()
    assert 'events = "postgresql://reader:${EVENTS_PASSWORD}@${EVENTS_HOST}/' in text
    assert 'state = "postgresql://counton_writer@${PGHOST}/' in text
    (container,) = pod("nightly.yaml")["containers"]
    parts = {
        one["name"]: one["valueFrom"]["secretKeyRef"]["key"]
        for one in container["env"]
        if "valueFrom" in one
    }
    assert len({*parts.values()}) == len(parts) == 3
    file = (FOLDER / "nightly.yaml").read_text(encoding="utf-8")
    documented = (FOLDER.parents[1] / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")
    for written in (file, documented):
        assert {*re.findall(r"--from-literal=([\w-]+)=", written)} == {
            parts["PGPASSWORD"],
            parts["EVENTS_PASSWORD"],
        }


def test_commented_keys_of_job_file_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOST", "EVENTS_HOST", "EVENTS_PASSWORD", "PUBLISH_PASSWORD"):
        monkeypatch.setenv(name, name.lower())
    (text,) = only("nightly.yaml", "ConfigMap")["data"].values()
    file = tmp_path / "nightly.toml"
    file.write_text(re.sub(r"^# (?=[\w-]+ = |\[)", "", text, flags=re.MULTILINE), encoding="utf-8")
    job = load(file)["visits"]
    stated = [job.value_of(name) for name in ("user", "max_contributions", "contribution_period")]
    assert stated == ["visitor", 3, "1d"]
    published = published_to(file)
    assert published == "postgresql://counton_publisher:publish_password@pghost/counton_public"


def test_the_service_reads_its_job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from counton.serve.settings import settings_of

    monkeypatch.setenv("PGHOST", "db.example")
    (text,) = only("service.yaml", "ConfigMap")["data"].values()
    file = tmp_path / "service.toml"
    file.write_text(text)
    assert load(file, without_rows=True)["visits"].key == "/run/secrets/counton/key"
    assert settings_of(file).tokens == "/run/secrets/tokens/tokens"
