"""Whom clients in tests trust."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import certifi
import pytest

_END = "-----END CERTIFICATE-----\n"


@contextmanager
def one_authority(folder: Path) -> Generator[None]:
    """Have every new client, of started programs too, read one of the world's authorities in place of all.

    Reading all takes longer than most tests, and tests here speak with nobody in the world.
    """
    file = folder / "authority.pem"
    file.write_text(Path(certifi.where()).read_text().partition(_END)[0] + _END)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        patch.setattr(certifi, "where", lambda: str(file))
        yield
