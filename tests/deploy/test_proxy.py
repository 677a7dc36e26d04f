"""Proxies in front of a service: their configurations, by the programs themselves."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from counton.serve.settings import Settings

FOLDER = Path(__file__).parents[2] / "deploy" / "proxy"


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that nobody trusts, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "counts.example")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    files = folder / "own.pem", folder / "own.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def judged_by_nginx(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("nginx")
    if program is None:
        pytest.skip("nginx is not installed")
    cert, key = certificate(folder)
    text = text.replace("/etc/ssl/certs/counts.example.pem", str(cert))
    text = text.replace("/etc/ssl/private/counts.example.key", str(key))
    whole = folder / "nginx.conf"
    whole.write_text(f"pid {folder}/pid; events {{}} http {{ {text} }}")
    log = folder / "log"
    return subprocess.run(
        [program, "-t", "-e", str(log), "-p", str(folder), "-c", str(whole)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_nginx_takes_its_configuration(tmp_path: Path) -> None:
    text = (FOLDER / "nginx.conf").read_text(encoding="utf-8")
    done = judged_by_nginx(text, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr
    wrong = judged_by_nginx(text.replace("proxy_buffering off", "proxy_bufering off"), tmp_path)
    assert (wrong.returncode, "proxy_bufering" in wrong.stderr) == (1, True)


def test_caddy_takes_its_configuration(tmp_path: Path) -> None:
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("caddy is not installed")
    text = (FOLDER / "Caddyfile").read_text(encoding="utf-8")
    for said, code in ((text, 0), (text.replace("flush_interval", "flush_intervall"), 1)):
        (tmp_path / "Caddyfile").write_text(said)
        done = subprocess.run(
            [program, "adapt", "--config", str(tmp_path / "Caddyfile"), "--validate"],
            capture_output=True, text=True, check=False,
            env={"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == code, done.stderr


def test_both_take_what_a_batch_may_be_and_hide_what_is_exact() -> None:
    nginx, caddy = (
        (FOLDER / name).read_text(encoding="utf-8") for name in ("nginx.conf", "Caddyfile")
    )
    for text, size in ((nginx, r"client_max_body_size (\d+)m"), (caddy, r"max_size (\d+)MB")):
        found = re.search(size, text)
        assert found is not None
        assert int(found[1]) * 10**6 > Settings().batch_bytes
        assert "/metrics" in text
        assert "127.0.0.1:8080" in text
