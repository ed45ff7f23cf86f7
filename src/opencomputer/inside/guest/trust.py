"""Makes the machine's programs trust one more certificate authority: the egress proxy's."""

from __future__ import annotations

import contextlib
import os
import re
import stat

from .java_trust import NotAKeyStore, changed_store, key_stores, report
from .loop import log

AUTHORITY = "/usr/local/share/ca-certificates/opencomputer.crt"
"""Where the system's own tools look for additional authorities whenever they make the bundles anew."""
LINK = "/etc/ssl/certs/opencomputer.pem"
"""What those tools make of it; and what a Java that is installed later looks for."""
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""What programs trust, by the customs of different distributions. The first one is always made."""

_BEGIN = "# OpenComputer: the egress proxy of this sandbox"
_END = "# OpenComputer: end"
_OURS = re.compile(rf"{re.escape(_BEGIN)}\n.*?{re.escape(_END)}\n?", re.DOTALL)
_MOST_BYTES = 8 << 20


def install_authority(certificate: str, root: str = "") -> None:
    """Add `certificate` (PEM) to what is trusted, in place of an earlier one of ours. Idempotent.

    An image that lacks some or all of the places is fine; what cannot be changed is reported and left.
    """
    certificate = certificate.strip() + "\n"
    written: set[str] = set()
    texts = {path: _read(root + path) for path in BUNDLES}
    for path, text in texts.items():
        target = os.path.realpath(root + path)
        if target in written or (text is None and path != BUNDLES[0]):
            continue
        written.add(target)
        if text is None:
            text = next((other for other in texts.values() if other), "")
        bundle = with_authority(text, certificate)
        if bundle != texts[path]:
            _replace(target, bundle)
    if _read(root + AUTHORITY) != certificate:
        _replace(root + AUTHORITY, certificate)
    with contextlib.suppress(OSError):
        os.symlink(AUTHORITY, root + LINK)
    _install_for_java(certificate, root)


def _install_for_java(certificate: str, root: str) -> None:
    # Several names may lead to one store.
    for path in sorted({os.path.realpath(path) for path in key_stores(root)}):
        store = _read_bytes(path)
        if store is None:
            continue
        try:
            changed = changed_store(store, certificate)
        except NotAKeyStore as reason:
            report(path, reason)
            continue
        if changed is not None:
            _replace(path, changed)


def with_authority(bundle: str, certificate: str) -> str:
    """The bundle with our block in it once, whatever was there of ours before."""
    others = _OURS.sub("", bundle)
    if certificate in others:
        return others
    if others and not others.endswith("\n"):
        others += "\n"
    return f"{others}{_BEGIN}\n{certificate}{_END}\n"


def _read(path: str) -> str | None:
    content = _read_bytes(path)
    return None if content is None else content.decode("utf-8", "surrogateescape")


def _read_bytes(path: str) -> bytes | None:
    """The content of a regular file of reasonable size; None for everything else there may be."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _replace(path: str, content: str | bytes) -> None:
    """At one instant, because programs read these files at any time."""
    draft = f"{path}.opencomputer"
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o644)
            file.write(data)
        os.replace(draft, path)
    except OSError as error:
        log(f"cannot install the proxy's authority in {path}: {error}")
