"""X.509 for the development CA: making keys and signing certificates.

Owns the form of the certificates (EC P-256, SHA-256), and no files except for reading one back.
Importing it loads `cryptography`, so it is imported only to make something or to read a certificate
of the user's.
"""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from partibus.domain.errors import ArgumentError, ConfigError
from partibus.domain.moments import calendar_moment, timestamp_ms

CA_COMMON_NAME: Final = "Partibus development CA"
# A common name has at most 64 characters; the alternative names contain the rest.
SERVER_COMMON_NAME: Final = "Partibus"
# On machines whose clocks lag a certificate must not be from the future.
BACKDATED: Final = datetime.timedelta(days=1)


@dataclass(slots=True, frozen=True, kw_only=True)
class CertificateFacts:
    """What is shown about a certificate."""

    names: tuple[str, ...]
    issuer: str
    until_ms: int
    fingerprint: str  # SHA-256, as browsers and openssl show it


class Authority:
    """A certificate authority that can sign server certificates."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @property
    def until_ms(self) -> int:
        """When the CA's own certificate expires."""
        return timestamp_ms(self._certificate.not_valid_after_utc)

    def certificate_pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        return _key_pem(self._key)

    def issue(
        self, names: tuple[str, ...], now_ms: int, until_ms: int, *, is_peer: bool = False
    ) -> tuple[bytes, bytes]:
        """A server certificate followed by the CA's, and its private key, as PEM; that of a peer is
        valid for clients as well."""
        key = ec.generate_private_key(ec.SECP256R1())
        return self._sign(key.public_key(), names, now_ms, until_ms, is_peer), _key_pem(key)

    def certify(self, request: bytes, name: str, now_ms: int, until_ms: int) -> bytes:
        """The certificate of a peer for the key of a request, of which only the key counts. Raises
        ArgumentError when it is not a request."""
        try:
            read = x509.load_pem_x509_csr(request)
            key = read.public_key()
        except ValueError as error:
            raise ArgumentError(f"The request for a certificate cannot be read: {error}") from error
        if not read.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
            raise ArgumentError("The request for a certificate is not signed by its own EC key.")
        return self._sign(key, (name,), now_ms, until_ms, True)

    def _sign(
        self,
        key: ec.EllipticCurvePublicKey,
        names: tuple[str, ...],
        now_ms: int,
        until_ms: int,
        is_peer: bool,
    ) -> bytes:
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH]
        if is_peer:
            purposes.append(ExtendedKeyUsageOID.CLIENT_AUTH)
        usage = x509.ExtendedKeyUsage(purposes)
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            _builder(SERVER_COMMON_NAME, key, now_ms, until_ms)
            .issuer_name(self._certificate.subject)
            .add_extension(alternatives, critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(usage, critical=False)
            .add_extension(authority_key, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM) + self.certificate_pem()


def make_authority(now_ms: int, until_ms: int, name: str = CA_COMMON_NAME) -> Authority:
    """A new CA with a new key."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(name, key.public_key(), now_ms, until_ms)
        .issuer_name(_name(name))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def load_authority(certificate_path: Path, key_path: Path) -> Authority:
    """The CA in the files; ConfigError when they contain something else."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the development CA in {certificate_path.parent} cannot be read: {error}; remove the "
            "directory to create a new one"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{key_path} is not an EC key; remove it to create a new CA")
    return Authority(certificate, key)


def read_facts(path: Path) -> CertificateFacts:
    """The first certificate of a file; ValueError when there is none."""
    certificate = x509.load_pem_x509_certificates(path.read_bytes())[0]
    return CertificateFacts(
        names=_names_of(certificate),
        issuer=certificate.issuer.rfc4514_string(),
        until_ms=timestamp_ms(certificate.not_valid_after_utc),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(":").upper(),
    )


def bundle(certificates: bytes, now_ms: int) -> bytes:
    """PEM with the first certificate, and those of the others that have not expired, each once."""
    found: list[x509.Certificate] = []
    for each in x509.load_pem_x509_certificates(certificates):
        if each not in found and (not found or each.not_valid_after_utc > _moment(now_ms)):
            found.append(each)
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in found)


class NodeKey:
    """A new key of a node, and the request to have it signed under the node's name."""

    def __init__(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self.pem = _key_pem(key)
        request = x509.CertificateSigningRequestBuilder().subject_name(_name(name))
        self.request = request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    kinds = (x509.DNSName, x509.IPAddress)
    return tuple(str(name.value) for name in found.value if isinstance(name, kinds))


def _builder(
    common_name: str, key: ec.EllipticCurvePublicKey, now_ms: int, until_ms: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(common_name))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_moment(now_ms) - BACKDATED)
        .not_valid_after(_moment(until_ms))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _moment(at_ms: int) -> datetime.datetime:
    return calendar_moment(at_ms).replace(microsecond=0)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
