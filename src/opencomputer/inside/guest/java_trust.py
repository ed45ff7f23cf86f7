"""Adds a certificate authority to the key stores of Java, which looks at no other place.

The format is the one JDKs call JKS (their class `JavaKeyStore`): big-endian, entries one after the other, and
at the end a SHA-1 over the password, a fixed word and all before it. The password of these stores is public.
Stores of the other format (PKCS #12, which JDKs from version 18 on bring themselves) are left as they are.
"""

from __future__ import annotations

import base64
import glob
import struct

from .loop import log

PLACES = (
    "/etc/ssl/certs/java/cacerts",
    "/etc/pki/java/cacerts",
    "/usr/lib/jvm/*/lib/security/cacerts",
    "/usr/lib/jvm/*/jre/lib/security/cacerts",
    "/usr/local/openjdk-*/lib/security/cacerts",
    "/opt/java/*/lib/security/cacerts",
    "/opt/jdk*/lib/security/cacerts",
)
"""Where distributions and the usual images keep them."""

ALIAS = "opencomputer-egress"
_MAGIC = 0xFEEDFEED
_VERSION = 2
_KEY, _CERTIFICATE = 1, 2
_PASSWORD = "changeit"
_DIGEST_BYTES = 20
_ENTRIES_AT = 12


class NotAKeyStore(Exception):
    """This is no key store that can be changed here. The message says why."""


def key_stores(root: str = "") -> list[str]:
    return sorted({path for place in PLACES for path in glob.glob(root + place)})


def changed_store(store: bytes, certificate: str) -> bytes | None:
    """The store with `certificate` (PEM) in it, in place of an earlier one of ours; None: it has it already.

    Raises NotAKeyStore.
    """
    entries = _entries(store)
    others = [entry for alias, entry in entries if alias != ALIAS]
    ours = _entry(_der(certificate))
    content = struct.pack(">III", _MAGIC, _VERSION, len(others) + 1) + b"".join((*others, ours))
    changed = content + _digest(content)
    return None if changed == store else changed


def _der(certificate: str) -> bytes:
    """What stands between the first line and the last. The guest's interpreter has no module for TLS."""
    return base64.b64decode("".join(certificate.split("-----")[2].split()))


def report(path: str, reason: object) -> None:
    log(f"Java will not trust the egress proxy: {path}: {reason}")


def _entries(store: bytes) -> list[tuple[str, bytes]]:
    """Every entry, and the name it has."""
    content = store[:-_DIGEST_BYTES]
    if len(content) < _ENTRIES_AT:
        raise NotAKeyStore("it is too short")
    magic, version, count = struct.unpack_from(">III", content)
    if magic != _MAGIC or version != _VERSION:
        raise NotAKeyStore("it is of another format")
    if store[-_DIGEST_BYTES:] != _digest(content):
        raise NotAKeyStore("it has another password, or is damaged")
    reader = _Reader(content, _ENTRIES_AT)
    entries = [reader.entry() for _ in range(count)]
    if reader.at != len(content):
        raise NotAKeyStore("something follows its entries")
    return entries


class _Reader:
    def __init__(self, content: bytes, at: int) -> None:
        self._content = content
        self.at = at

    def entry(self) -> tuple[str, bytes]:
        begin = self.at
        kind = self._number(">I")
        alias = self._piece(">H").decode("utf-8", "replace")
        self._skip(8)
        if kind == _KEY:
            self._piece(">I")
            for _ in range(self._number(">I")):
                self._certificate()
        elif kind == _CERTIFICATE:
            self._certificate()
        else:
            raise NotAKeyStore(f"it has an entry of the unknown kind {kind}")
        return alias, self._content[begin : self.at]

    def _certificate(self) -> None:
        self._piece(">H")
        self._piece(">I")

    def _number(self, form: str) -> int:
        begin = self.at
        self._skip(struct.calcsize(form))
        return int(struct.unpack_from(form, self._content, begin)[0])

    def _piece(self, length_form: str) -> bytes:
        length = self._number(length_form)
        begin = self.at
        self._skip(length)
        return self._content[begin : self.at]

    def _skip(self, length: int) -> None:
        if self.at + length > len(self._content):
            raise NotAKeyStore("it ends within an entry")
        self.at += length


def _entry(certificate: bytes) -> bytes:
    # The time of an entry has no meaning to anybody; a fixed one keeps the store the same each time.
    return b"".join(
        (
            struct.pack(">IH", _CERTIFICATE, len(ALIAS)),
            ALIAS.encode(),
            struct.pack(">qH", 0, len("X.509")),
            b"X.509",
            struct.pack(">I", len(certificate)),
            certificate,
        )
    )


def _digest(content: bytes) -> bytes:
    # Loads OpenSSL, which takes a seventh of a guest's start, and few machines have a store to change.
    import hashlib

    salted = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + content
    return hashlib.sha1(salted, usedforsecurity=False).digest()
