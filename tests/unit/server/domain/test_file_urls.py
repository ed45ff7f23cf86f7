"""Signatures bind all that a permit says, and nothing can be shifted from one part to the next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opencomputer.server.domain.file_urls import FileOperation, FilePermit
from opencomputer.wire.ids import SandboxId

SECRET = b"s" * 32
PERMIT = FilePermit(SandboxId("sb-1"), "e1", FileOperation.DOWNLOAD, "a/b", "1700000000")


def test_a_signature_is_lower_case_hex_of_sha_256() -> None:
    signature = PERMIT.signature(SECRET)
    assert len(bytes.fromhex(signature)) == 32
    assert signature == signature.lower()
    assert PERMIT.is_signed(signature, SECRET)
    assert not PERMIT.is_signed(signature, b"another secret")


@pytest.mark.parametrize(
    "other",
    [
        replace(PERMIT, sandbox_id=SandboxId("sb-2")),
        replace(PERMIT, epoch="e2"),
        replace(PERMIT, epoch=None),
        replace(PERMIT, operation=FileOperation.UPLOAD),
        replace(PERMIT, path="a/b "),
        replace(PERMIT, path="a/B"),
        replace(PERMIT, expires="1700000001"),
        replace(PERMIT, expires="01700000000"),
    ],
)
def test_whatever_changes_the_signature_changes_too(other: FilePermit) -> None:
    assert not other.is_signed(PERMIT.signature(SECRET), SECRET)


def test_a_path_cannot_pass_for_something_else() -> None:
    for path in ("\na/b", "a/b\n", "1700000000\na/b", "download\n1700000000\na/b"):
        assert not replace(PERMIT, path=path).is_signed(PERMIT.signature(SECRET), SECRET)


@pytest.mark.parametrize("signature", ["", "x", "ü" * 64, "0" * 63, "\ud800", "0" * 100_000])
def test_nonsense_is_no_signature(signature: str) -> None:
    assert not PERMIT.is_signed(signature, SECRET)
