"""`partibus cert`: what is served, made and renewed, in words and as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from partibus.cli.verb_table import command_tree
from partibus.domain.clock import SystemClock
from partibus.listener.certificates import make_authority
from partibus.listener.served_certificate import DAY_MS


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PARTIBUS_DATA", "PARTIBUS_TLS_CERT", "PARTIBUS_TLS_KEY", "PARTIBUS_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def cert(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(command_tree(["cert"]), ["cert", *arguments])
    return result.exit_code, result.stdout, result.stderr


def answer(*arguments: str) -> dict[str, Any]:
    code, out, err = cert(*arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_nothing_is_there_yet(tmp_path: Path) -> None:
    code, out, err = cert("show", "--data", str(tmp_path))
    assert (code, out) == (2, "")
    assert "`partibus cert create`" in err
    assert list(tmp_path.iterdir()) == []


def test_create_show_and_renew(tmp_path: Path) -> None:
    where = ("--data", str(tmp_path))
    made = answer("create", "--name", "bus.example", "--name", "10.0.0.7", *where)
    assert {"localhost", "127.0.0.1", "bus.example", "10.0.0.7"} <= set(made["names"])
    assert made["certificate"] == str(tmp_path / "tls" / "server.pem")
    assert made["days_left"] in (729, 730)
    assert answer("show", *where) == made
    ca = Path(made["ca"]).read_bytes()
    renewed = answer("renew", *where)
    assert renewed["names"] == made["names"]
    assert renewed["fingerprint"] != made["fingerprint"]
    assert Path(made["ca"]).read_bytes() == ca
    answer("renew", "--ca", *where)
    assert Path(made["ca"]).read_bytes() != ca


def test_create_without_a_name_takes_names_away_again(tmp_path: Path) -> None:
    where = ("--data", str(tmp_path))
    assert "bus.example" in answer("create", "--name", "bus.example", *where)["names"]
    assert "bus.example" not in answer("create", *where)["names"]


def test_people_are_told_how_to_trust(tmp_path: Path) -> None:
    code, out, _ = cert("create", "--data", str(tmp_path))
    ca = tmp_path / "tls" / "ca.pem"
    assert code == 0
    for words in (
        f'connection_verify="{ca}"',
        f"NODE_EXTRA_CA_CERTS={ca}",
        f"SSL_CERT_FILE={ca}",
        "-Djavax.net.ssl.trustStore=",
        "localhost, 127.0.0.1, ::1",
    ):
        assert words in out


def test_the_users_certificate_and_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = SystemClock().now_ms()
    authority = make_authority(now_ms, now_ms + 90 * DAY_MS)
    chain, key = authority.issue(("mine.example",), now_ms, now_ms + 10 * DAY_MS)
    (tmp_path / "mine.pem").write_bytes(chain)
    (tmp_path / "mine-key.pem").write_bytes(key)
    monkeypatch.setenv("PARTIBUS_TLS_CERT", str(tmp_path / "mine.pem"))
    monkeypatch.setenv("PARTIBUS_TLS_KEY", str(tmp_path / "mine-key.pem"))
    code, out, err = cert("show", "--json")
    assert code == 0
    assert json.loads(out)["names"] == ["mine.example"]
    assert err in (
        "partibus: the certificate ends in 9 days; replace it\n",
        "partibus: the certificate ends in 10 days; replace it\n",
    )


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "server.pem").write_text("no")
    code, _, err = cert("show", "--data", str(tmp_path))
    assert code == 2
    assert "cannot be read" in err


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("in the way")
    code, _, err = cert("create", "--data", str(tmp_path))
    assert code == 2
    assert "cannot write TLS files" in err
