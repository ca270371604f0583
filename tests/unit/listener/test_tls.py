"""The development CA: what is made, kept, renewed, and how it is guarded."""

import json
import ssl
import stat
from pathlib import Path

import pytest

from partibus.domain.clock import SystemClock
from partibus.domain.errors import ConfigError
from partibus.listener.served_certificate import DAY_MS
from partibus.listener.tls import (
    CA_VALIDITY_DAYS,
    RENEWAL_DAYS,
    VALIDITY_DAYS,
    DevelopmentAuthority,
    certificate_names,
)

NAMES = ("localhost", "127.0.0.1", "::1")


class Shifted:
    """The real time, moved by some days: certificates are checked against real time."""

    def __init__(self, days: int = 0) -> None:
        self.days = days
        self._clock = SystemClock()

    def now_ms(self) -> int:
        return self._clock.now_ms() + self.days * DAY_MS

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms() + self.days * DAY_MS

    def follow(self) -> int:
        return 0


def made(directory: Path, names: tuple[str, ...] = NAMES, days: int = 0) -> DevelopmentAuthority:
    authority = DevelopmentAuthority(directory / "tls", names, Shifted(days))
    authority.ensure()
    return authority


def shake_hands(authority: DevelopmentAuthority, name: str) -> str:
    """A TLS handshake in memory, with a client that trusts the CA; answers the version."""
    client_context = ssl.create_default_context(cafile=str(authority.ca_path))
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    server = authority.context().wrap_bio(to_server, to_client, server_side=True)
    pending = [client, server]
    for _ in range(10):
        for side in list(pending):
            try:
                side.do_handshake()
                pending.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not pending
    version = client.version()
    assert version is not None
    return version


def test_a_client_that_trusts_the_ca_reaches_every_name(tmp_path: Path) -> None:
    authority = made(tmp_path, (*NAMES, "bus.example"))
    for name in (*NAMES, "bus.example"):
        assert shake_hands(authority, name) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(authority, "elsewhere.example")


def test_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    authority = made(tmp_path)
    for path in (authority.ca_key_path, authority.server_key_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(path.name for path in (tmp_path / "tls").iterdir()) == [
        "ca-key.pem",
        "ca.pem",
        "issued.json",
        "server-key.pem",
        "server.pem",
    ]


def test_a_second_start_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.read_bytes() for path in (made(tmp_path).ca_path.parent).iterdir()}
    monkeypatch.setattr(DevelopmentAuthority, "_issue", lambda *_: pytest.fail("made again"))
    made(tmp_path)
    assert {path: path.read_bytes() for path in (tmp_path / "tls").iterdir()} == before


def test_a_new_name_keeps_the_ca(tmp_path: Path) -> None:
    ca = made(tmp_path).ca_path.read_bytes()
    authority = made(tmp_path, (*NAMES, "bus.example"))
    assert authority.ca_path.read_bytes() == ca
    shake_hands(authority, "bus.example")


@pytest.mark.parametrize("lost", ["server.pem", "server-key.pem"])
def test_a_lost_server_file_is_made_again_under_the_same_ca(tmp_path: Path, lost: str) -> None:
    ca = made(tmp_path).ca_path.read_bytes()
    (tmp_path / "tls" / lost).unlink()
    authority = made(tmp_path)
    assert authority.ca_path.read_bytes() == ca
    shake_hands(authority, "localhost")


@pytest.mark.parametrize("lost", ["ca.pem", "ca-key.pem"])
def test_a_lost_ca_file_means_a_new_ca(tmp_path: Path, lost: str) -> None:
    made(tmp_path)
    (tmp_path / "tls" / lost).unlink()
    shake_hands(made(tmp_path), "localhost")


def test_certificates_are_renewed_before_they_end_under_the_same_ca(tmp_path: Path) -> None:
    first = made(tmp_path)
    ca, served = first.ca_path.read_bytes(), first.server_path.read_bytes()
    early = made(tmp_path, days=VALIDITY_DAYS - RENEWAL_DAYS - 1)
    assert early.server_path.read_bytes() == served
    due = made(tmp_path, days=VALIDITY_DAYS - RENEWAL_DAYS + 1)
    assert due.server_path.read_bytes() != served
    assert due.ca_path.read_bytes() == ca


def test_a_ca_that_ends_soon_is_made_anew(tmp_path: Path) -> None:
    ca = made(tmp_path).ca_path.read_bytes()
    assert made(tmp_path, days=CA_VALIDITY_DAYS - RENEWAL_DAYS + 1).ca_path.read_bytes() != ca


def test_names_that_were_added_outlive_a_renewal(tmp_path: Path) -> None:
    authority = made(tmp_path)
    authority.issue((*NAMES, "added.example"))
    renewed = made(tmp_path, days=VALIDITY_DAYS - RENEWAL_DAYS + 1)
    assert renewed.noted_names() == (*NAMES, "added.example")
    made(tmp_path, (*NAMES, "host.example"))
    shake_hands(made(tmp_path), "added.example")


def test_a_new_authority_when_asked_for(tmp_path: Path) -> None:
    authority = made(tmp_path)
    ca = authority.ca_path.read_bytes()
    authority.issue(NAMES)
    assert authority.ca_path.read_bytes() == ca
    authority.issue(NAMES, new_authority=True)
    assert authority.ca_path.read_bytes() != ca


@pytest.mark.parametrize("content", ["{", "{}", "[]", '{"until_ms": "soon", "names": []}', None])
def test_a_broken_note_is_replaced_and_the_ca_stays(tmp_path: Path, content: str | None) -> None:
    ca = made(tmp_path).ca_path.read_bytes()
    note = tmp_path / "tls" / "issued.json"
    note.unlink()
    if content is not None:
        note.write_text(content)
    authority = made(tmp_path)
    assert json.loads(note.read_text())["names"] == list(NAMES)
    assert authority.ca_path.read_bytes() == ca
    shake_hands(authority, "localhost")


def test_a_foreign_ca_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "tls" / "ca.pem").write_text("not a certificate")
    with pytest.raises(ConfigError, match="tls cannot be read"):
        made(tmp_path, (*NAMES, "new.example"))


def test_a_server_file_of_somebody_else_is_named(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "tls" / "server.pem").write_text("not a certificate")
    with pytest.raises(ConfigError, match=r"server\.pem cannot be served"):
        made(tmp_path)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("in the way")
    with pytest.raises(ConfigError, match=r"cannot write TLS files in .*tls"):
        made(tmp_path)


def test_names_cover_the_host_but_not_every_address() -> None:
    assert set(NAMES) <= set(certificate_names("0.0.0.0"))
    assert "0.0.0.0" not in certificate_names("0.0.0.0")
    assert "::" not in certificate_names("::")
    assert certificate_names("bus.example")[-1] == "bus.example"
    assert certificate_names("localhost").count("localhost") == 1
