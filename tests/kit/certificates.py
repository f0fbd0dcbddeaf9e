"""Certificate authorities and what they sign, made for one test run."""

from __future__ import annotations

import ipaddress
import queue
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Signed(NamedTuple):
    """Files: a certificate, its key, and both in one."""

    certificate: str
    key: str
    both: str


class Authority:
    """Signs certificates for 127.0.0.1."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _sign(name, self._key.public_key(), name, self._key, is_authority=True)
        self.file = str(folder / f"{name}.pem")
        Path(self.file).write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str) -> Signed:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign(name, key.public_key(), self._name, self._key, is_authority=False)
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        signed = Signed(
            *(str(self._folder / f"{name}-{part}.pem") for part in ("certificate", "key", "both"))
        )
        for file, content in zip(signed, (pem, secret, secret + pem), strict=True):
            Path(file).write_bytes(content)
            Path(file).chmod(0o600)
        return signed


def _sign(
    name: str,
    public_key: ec.EllipticCurvePublicKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    def named(common_name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])

    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    if is_authority:
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    else:
        addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


class TlsPort:
    """A port that accepts one connection and tells how the handshake went."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])
        self._outcome: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> TlsPort:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def outcome(self) -> str:
        """`handshake`, or why there was none."""
        return self._outcome.get(timeout=15)

    def _accept(self) -> None:
        connection, _ = self._socket.accept()
        connection.settimeout(5)
        try:
            with self._context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1)  # TLS 1.3 tells of a refused certificate only with the first record
                self._outcome.put("handshake")
        except OSError as error:
            self._outcome.put(str(error))
