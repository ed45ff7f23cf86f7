"""The node's own certificate authority, and a certificate of it for every host that is spoken for."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from opencomputer.server.contracts.network import AuthorityUnusable

_VALID = timedelta(days=3650)
_LEAF_VALID = timedelta(hours=24)
_LEAF_KEPT = timedelta(hours=1)
_MOST_LEAVES = 10_000
_CLOCKS_DIFFER = timedelta(hours=1)
_PROTOCOLS = ["http/1.1"]


@dataclass(frozen=True)
class Authority:
    """A key that signs for hosts. `certificate_pem` is what machines are made to trust."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()


def open_authority(file: Path, now: datetime) -> Authority:
    """The authority kept in `file`, made there if there is none. Raises AuthorityUnusable.

    One that cannot be read is never replaced: machines that trust it would be cut off without a word.
    """
    if not file.exists():
        _write(file, new_authority(now))
    return _read(file, now)


def new_authority(now: datetime) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "OpenComputer egress proxy")])
    usage = _key_usage(certificates=True)
    builder = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Authority(key, builder.sign(key, hashes.SHA256()))


class Leaves:
    """TLS contexts that speak for hosts, each with a certificate of its own. All share one key."""

    def __init__(self, authority: Authority, now: Callable[[], datetime]) -> None:
        self._authority = authority
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._kept: OrderedDict[str, tuple[datetime, ssl.SSLContext]] = OrderedDict()

    def context(self, host: str) -> ssl.SSLContext:
        """For connections in which we are `host`, a name or an address. Takes a millisecond at first."""
        now = self._now()
        kept = self._kept.get(host)
        if kept is not None and now - kept[0] < _LEAF_KEPT:
            self._kept.move_to_end(host)
            return kept[1]
        context = self._make(host, now)
        self._kept[host] = (now, context)
        self._kept.move_to_end(host)
        if len(self._kept) > _MOST_LEAVES:
            self._kept.popitem(last=False)
        return context

    def _make(self, host: str, now: datetime) -> ssl.SSLContext:
        certificate = self._sign(host, now).public_bytes(serialization.Encoding.PEM)
        chain = certificate + self._authority.certificate_pem.encode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(_PROTOCOLS)
        # The library reads certificates from files only; this one is in memory, and nobody else's.
        descriptor = os.memfd_create("leaf", os.MFD_CLOEXEC)
        with open(descriptor, "wb") as file:
            file.write(_private_pem(self._key) + chain)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        return context

    def _sign(self, host: str, now: datetime) -> x509.Certificate:
        authority = self._authority
        identifier = x509.SubjectKeyIdentifier.from_public_key(authority.key.public_key())
        return (
            x509.CertificateBuilder(
                issuer_name=authority.certificate.subject,
                # A host's name may be longer than a common name can be, and nobody looks there any more.
                subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "OpenComputer")]),
                public_key=self._key.public_key(),
            )
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCKS_DIFFER)
            .not_valid_after(now + _LEAF_VALID)
            .add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(authority.key, hashes.SHA256())
        )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certificates,
        crl_sign=certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(file: Path, authority: Authority) -> None:
    """Whole or not at all, and only for its owner to read."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as stream:
        stream.write(_private_pem(authority.key) + authority.certificate_pem.encode())
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)


def _read(file: Path, now: datetime) -> Authority:
    where = f"the certificate authority of the egress proxy in {file}"
    try:
        content = file.read_bytes()
        key = serialization.load_pem_private_key(content, password=None)
        certificate = x509.load_pem_x509_certificate(content)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound) as error:
        raise AuthorityUnusable(
            f"{where} cannot be read ({error}). Put the file back as it was; or remove it, and machines get"
            " to trust a new one when they next wake"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise AuthorityUnusable(f"{where} has no elliptic-curve key")
    if key.public_key() != certificate.public_key() or not constraints.ca:
        raise AuthorityUnusable(f"{where} has a key and a certificate that do not belong together")
    if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - _LEAF_VALID:
        raise AuthorityUnusable(f"{where} is out of date: remove the file, and a new one is made")
    return Authority(key, certificate)
