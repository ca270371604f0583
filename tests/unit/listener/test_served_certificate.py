"""The certificate that is served: its files, their successors, and the end of its time."""

import logging
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from partibus.domain.clock import SystemClock
from partibus.domain.errors import ConfigError
from partibus.listener.certificates import Authority, make_authority, read_facts
from partibus.listener.served_certificate import (
    DAY_MS,
    LOOK_MS,
    WARNING_DAYS,
    ServedCertificate,
)
from unit.listener.front import ManualClock

NOW_MS = SystemClock().now_ms() // 1000 * 1000


class Files:
    """A user's certificate and key, replaced as often as the test likes."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "bus.pem"
        self.key = folder / "bus-key.pem"
        self.authority: Authority = make_authority(NOW_MS, NOW_MS + 900 * DAY_MS)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self.authority.certificate_pem())

    def write(self, name: str = "bus.example", days: int = 90) -> None:
        certificate, key = self.made(name, days)
        self.key.write_bytes(key)
        self.certificate.write_bytes(certificate)

    def made(self, name: str, days: int = 90) -> tuple[bytes, bytes]:
        return self.authority.issue((name,), NOW_MS, NOW_MS + days * DAY_MS)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    files = Files(tmp_path)
    files.write()
    return files


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.time_ms = NOW_MS
    return clock


@pytest.fixture
def served(files: Files, clock: ManualClock) -> ServedCertificate:
    made = ServedCertificate(files.certificate, files.key, clock)
    made.ensure()
    return made


def shown_names(served: ServedCertificate, files: Files, name: str) -> tuple[object, ...]:
    """The names that a client sees when it asks for one of them."""
    trusting = ssl.create_default_context(cafile=str(files.ca))
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=name)
    server = served.context().wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = client.getpeercert()
    assert shown is not None
    return tuple(shown["subjectAltName"])


def test_the_files_are_served(served: ServedCertificate, files: Files) -> None:
    assert shown_names(served, files, "bus.example") == (("DNS", "bus.example"),)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shown_names(served, files, "localhost")
    assert served.ca_path == files.certificate


def test_new_files_are_served_to_new_connections(
    served: ServedCertificate, files: Files, clock: ManualClock
) -> None:
    before = served.context()
    files.write("new.example")
    assert served.context() is before
    clock.advance(LOOK_MS)
    assert shown_names(served, files, "new.example") == (("DNS", "new.example"),)
    assert served.context() is not before


def test_files_that_stay_are_not_loaded_again(
    served: ServedCertificate, clock: ManualClock
) -> None:
    before = served.context()
    clock.advance(10 * LOOK_MS)
    assert served.context() is before


def test_half_a_replacement_is_waited_out(
    served: ServedCertificate, files: Files, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = files.made("new.example")
    files.certificate.write_bytes(certificate)
    clock.advance(LOOK_MS)
    assert shown_names(served, files, "bus.example")
    assert "the key belongs to another certificate" in caplog.text
    caplog.clear()
    clock.advance(LOOK_MS)
    assert shown_names(served, files, "bus.example")
    assert not caplog.records
    files.key.write_bytes(key)
    clock.advance(LOOK_MS)
    assert shown_names(served, files, "new.example")


def test_files_that_vanish_leave_the_old_ones_served(
    served: ServedCertificate, files: Files, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    files.key.unlink()
    clock.advance(LOOK_MS)
    assert shown_names(served, files, "bus.example")
    assert "stays in use" in caplog.text
    files.write("back.example")
    clock.advance(LOOK_MS)
    assert shown_names(served, files, "back.example")


def test_a_link_that_turns_to_other_files(files: Files, clock: ManualClock, tmp_path: Path) -> None:
    """As mounted secrets are replaced: the directory behind a link changes."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        certificate, key = files.made(f"{name}.example")
        (tmp_path / name / "tls.crt").write_bytes(certificate)
        (tmp_path / name / "tls.key").write_bytes(key)
    link = tmp_path / "current"
    link.symlink_to("one")
    served = ServedCertificate(link / "tls.crt", link / "tls.key", clock)
    served.ensure()
    assert shown_names(served, files, "one.example")
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(link)
    clock.advance(LOOK_MS)
    assert shown_names(served, files, "two.example")


def test_a_clock_set_back_does_not_stop_the_looking(
    served: ServedCertificate, files: Files, clock: ManualClock
) -> None:
    files.write("new.example")
    clock.step(-DAY_MS)
    clock.advance(LOOK_MS)
    assert shown_names(served, files, "new.example")


@pytest.mark.parametrize("days", [WARNING_DAYS - 1, 0, -1])
def test_an_end_that_is_near_is_told_once_a_day(
    files: Files, clock: ManualClock, caplog: pytest.LogCaptureFixture, days: int
) -> None:
    files.write(days=WARNING_DAYS - 1)
    clock.advance((WARNING_DAYS - 1 - days) * DAY_MS)
    served = ServedCertificate(files.certificate, files.key, clock)
    served.ensure()
    assert ("has ended" if days < 0 else f"ends in {days} days") in caplog.text
    caplog.clear()
    clock.advance(LOOK_MS)
    served.context()
    assert not caplog.records
    clock.advance(DAY_MS)
    served.context()
    assert len(caplog.records) == 1


def test_an_end_that_is_far_is_not_mentioned(
    served: ServedCertificate, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        clock.advance(DAY_MS)
        served.context()
    assert not caplog.records


def test_what_cannot_be_served_is_said(files: Files, clock: ManualClock, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(files.made("other.example")[1])
    text = tmp_path / "text.pem"
    text.write_text("not PEM")
    locked = tmp_path / "locked.pem"
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    complaints = {
        (files.certificate, other): "belongs to another certificate",
        (text, files.key): "PEM",
        (files.certificate, text): "PEM",
        (tmp_path / "missing.pem", files.key): "No such file",
        (files.certificate, locked): "without one",
    }
    for (certificate, key_path), words in complaints.items():
        with pytest.raises(ConfigError, match=words) as caught:
            ServedCertificate(certificate, key_path, clock).ensure()
        assert "--tls-cert" in caught.value.text


def test_facts_of_a_certificate(files: Files) -> None:
    facts = read_facts(files.certificate)
    assert facts.names == ("bus.example",)
    assert facts.issuer == "CN=Partibus development CA"
    assert facts.until_ms // 1000 == (NOW_MS + 90 * DAY_MS) // 1000
    assert len(facts.fingerprint.split(":")) == 32
