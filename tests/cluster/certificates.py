"""A certificate authority for one control plane on loopback, and its keys.

Written once into a directory, readable by its owner only; valid for a day before and after now.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SERVICE_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Pki:
    """Files: the authority's certificate, the API server's, and the key that signs service account tokens."""

    ca: Path
    server_cert: Path
    server_key: Path
    tokens_key: Path


def write_pki(folder: Path) -> Pki:
    """Generate all keys and write them as PEM files."""
    ca_key, server_key, tokens_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    ca_name = _name("gpu-provisioner tests")
    ca = (
        _certificate(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .add_extension(_usage(signs=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    hosts = [x509.IPAddress(ip_address("127.0.0.1")), *map(x509.DNSName, SERVICE_NAMES)]
    server = (
        _certificate(_name("kube-apiserver"), ca_name, server_key.public_key())
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .add_extension(_usage(signs=False), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    pki = Pki(folder / "ca.crt", folder / "apiserver.crt", folder / "apiserver.key", folder / "tokens.key")
    _write(pki.ca, ca.public_bytes(serialization.Encoding.PEM))
    _write(pki.server_cert, server.public_bytes(serialization.Encoding.PEM))
    _write(pki.server_key, _pem(server_key))
    _write(pki.tokens_key, _pem(tokens_key))
    return pki


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The API server finds the public key in this form of a private key, not in PKCS #8.
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
