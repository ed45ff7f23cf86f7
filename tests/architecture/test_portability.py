"""Nothing in the tree depends on the machine it was written on."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.architecture.tree import REPOSITORY

_REGISTRY_SETTINGS = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "GOPROXY",
)
_REGISTRY_FILES = (
    "/etc/pip.conf",
    "~/.pip/pip.conf",
    "~/.config/pip/pip.conf",
    "~/.config/uv/uv.toml",
    "~/.npmrc",
)
_PUBLIC = re.compile(r"(^|\.)(pypi\.org|pythonhosted\.org|npmjs\.org|npmjs\.com|golang\.org|debian\.org)$")
_URL = re.compile(r"https?://[^\s,|\"']+")
_PERSONAL_FOLDER = re.compile(r"/(?:home|Users)/(?!sandbox\b)[a-z][a-z0-9_-]*/")


@cache
def tracked_texts() -> dict[str, str]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        pytest.skip("this is no git checkout: what is tracked is not known")
    texts: dict[str, str] = {}
    for name in filter(None, listing.stdout.split("\0")):
        file = REPOSITORY / name
        if file.is_file() and not file.is_symlink():
            try:
                texts[name] = file.read_text()
            except UnicodeDecodeError:
                continue
    return texts


def _configured_registries() -> set[str]:
    """Hosts this machine is told to take packages from, public ones excluded."""
    sources = [os.environ.get(name, "") for name in _REGISTRY_SETTINGS]
    sources += [
        Path(name).expanduser().read_text() for name in _REGISTRY_FILES if Path(name).expanduser().is_file()
    ]
    urls = [match.group() for text in sources for match in _URL.finditer(text)]
    hosts = {urlsplit(url).hostname or "" for url in urls}
    return {host for host in hosts if host and not _PUBLIC.search(host)}


def test_no_tracked_file_names_a_place_of_this_checkout() -> None:
    here = str(REPOSITORY)
    assert [name for name, text in tracked_texts().items() if f"{here}/" in text or f"{here}\n" in text] == []


def test_no_tracked_file_names_somebodys_home() -> None:
    guilty = {
        name: match.group()
        for name, text in tracked_texts().items()
        if (match := _PERSONAL_FOLDER.search(text)) and name != "tests/architecture/test_portability.py"
    }
    assert guilty == {}


def test_no_tracked_file_names_a_registry_of_this_machine() -> None:
    hosts = _configured_registries()
    assert [(name, host) for name, text in tracked_texts().items() for host in hosts if host in text] == []
