"""`oc login` against a real node, from the first word to the revoked key, approved as a browser does it."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.support.server import ServerProcess

OC = [sys.executable, "-m", "opencomputer.cli"]
_SECONDS = 60


def oc(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*OC, *arguments], env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )


def approve_as_browser(address: str, code: str, key: str) -> None:
    with httpx.Client() as browser:
        assert f'value="{code}"' in browser.get(address).text
        form = {"user_code": code, "api_key": key, "decision": "approve"}
        origin = "http://" + urlsplit(address).netloc
        assert "Signed in" in browser.post(address, data=form, headers={"Origin": origin}).text


def sign_in(server: ServerProcess, environment: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """What it says in JSON, and the code that was shown."""
    pipe = subprocess.PIPE
    program = [*OC, "login", "--no-browser", "--json", "--api-url", server.url]
    with subprocess.Popen(program, env=environment, stdout=pipe, stderr=pipe, text=True) as login:
        try:
            assert login.stderr is not None
            address = re.sub(r"^Open ", "", login.stderr.readline().strip())
            code = login.stderr.readline().strip().rpartition(" ")[2]
            approve_as_browser(address, code, server.api_key)
            out, err = login.communicate(timeout=_SECONDS)
        finally:
            login.kill()
    assert login.returncode == 0, err
    return json.loads(out), code


def test_a_machine_without_a_key_gets_one_and_gives_it_back(
    shared_server: ServerProcess, tmp_path: Path
) -> None:
    server, kept = shared_server, tmp_path / "home" / "config.json"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "OC_CONFIG": str(kept),
        "OPENCOMPUTER_LOCAL_NODE_FILE": str(tmp_path / "none.json"),
    }
    identity, code = sign_in(server, environment)
    saved = json.loads(kept.read_text())
    key = saved["api_key"]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert saved["login"]["credential_id"] == identity["credential"]["id"]
    assert oc(environment, "ls", "--quiet").returncode == 0
    assert json.loads(oc(environment, "whoami", "--json").stdout)["org_id"] == identity["org_id"]
    assert oc(environment, "logout").returncode == 0
    assert "api_key" not in json.loads(kept.read_text())
    assert httpx.get(f"{server.url}/api/whoami", headers={"X-API-Key": key}).status_code == 401
    ended = oc(environment, "ls")
    assert ended.returncode == 3
    assert "oc login" in ended.stderr
    for secret in (key, code, server.api_key):
        assert secret not in server.log
