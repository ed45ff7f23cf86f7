from __future__ import annotations

import errno

import pytest
from obstore.exceptions import GenericError

from opencomputer.server.domain.errors import HostDiskFull
from opencomputer.server.stores.artefacts.failures import ArchiveFailed, says_full, translated


@pytest.mark.parametrize(
    "text",
    [
        "tar: ./large: Wrote only 4096 of 10240 bytes",
        "tar: ./b: Cannot write: No space left on device",
        "Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)",
        "tar: ./a: Cannot open: Disk quota exceeded",
    ],
)
def test_messages_about_a_full_disk_are_recognised(text: str) -> None:
    assert says_full(text)


@pytest.mark.parametrize("text", ["", "tar: ./a: Cannot open: Permission denied", "(os error 2)"])
def test_other_messages_are_not(text: str) -> None:
    assert not says_full(text)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "full"),
        OSError(errno.EDQUOT, "quota"),
        ArchiveFailed("tar: Cannot write: No space left on device"),
        GenericError("Unable to copy data to file: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_a_full_disk_whoever_says_so(error: Exception) -> None:
    with pytest.raises(HostDiskFull), translated():
        raise error


@pytest.mark.parametrize("error", [OSError(errno.EIO, "bad"), ArchiveFailed("no"), GenericError("no")])
def test_another_failure_stays_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, translated():
        raise error
    assert caught.value is error
