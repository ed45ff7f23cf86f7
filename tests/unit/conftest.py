from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support.migrated import migrated_once
from tests.support.trust import one_authority


@pytest.fixture(scope="package", autouse=True)
def little_to_begin_with(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    folder = tmp_path_factory.mktemp("beginning")
    with one_authority(folder), migrated_once(folder):
        yield
