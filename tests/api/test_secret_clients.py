"""Secrets from our own SDK and from `oc`, against a node: values go in, and come out nowhere."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import sys
from pathlib import Path

import pytest

from opencomputer import ConflictError, NotFoundError, Sandbox, SecretStore, ValidationError
from opencomputer.cli.main import run
from tests.support.node import Api, NodeFolder

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left", "settings")]

CANARY = "canary-41cf"


@pytest.fixture
def settings(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCOMPUTER_API_URL", api.url)
    monkeypatch.setenv("OPENCOMPUTER_API_KEY", api.key)
    monkeypatch.setenv("OC_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setenv("COLUMNS", "200")


class Oc:
    """Runs `oc`, away from the event loop in which the node runs."""

    def __init__(self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capfd = capfd
        self._monkeypatch = monkeypatch

    async def __call__(self, *arguments: str, stdin: str = "") -> tuple[int, str]:
        self._monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        self._capfd.readouterr()
        code = await asyncio.to_thread(run, arguments)
        said = self._capfd.readouterr()
        assert CANARY not in said.out + said.err
        # The node in this process writes its log to standard output, too, perhaps into the middle of a line.
        own = _REQUEST_LOG.sub("", said.out).splitlines()
        lines = [line for line in own if line and not line.startswith("level=")]
        return code, "\n".join(lines) + said.err


_REQUEST_LOG = re.compile(r"level='info' event='request' [^\n]*?request_id='req_[0-9a-f]+'")


@pytest.fixture
def oc(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Oc:
    return Oc(capfd, monkeypatch)


async def test_the_sdk_keeps_secrets_and_sandboxes_use_them() -> None:
    store = await SecretStore.create("sdk", ["api.example.com"])
    with pytest.raises(ConflictError):
        await SecretStore.create("sdk")
    await SecretStore.set_secret(str(store["id"]), "KEY", CANARY, allowed_hosts=["api.example.com"])
    await SecretStore.set_secret(str(store["id"]), "FREE", CANARY)
    listed = await SecretStore.list_secrets(str(store["id"]))
    assert [(each["name"], each["allowedHosts"]) for each in listed] == [
        ("FREE", []),
        ("KEY", ["api.example.com"]),
    ]
    async with Sandbox.create(secret_store="sdk", egress_allowlist=["b.org"]) as sandbox:
        told = await sandbox.exec.run("printf %s $KEY")
        assert told.stdout.startswith("osb_sealed_")
        hosts = await sandbox.get_allowed_hosts()
        assert hosts["egressAllowlist"] == ["api.example.com", "b.org"]
        assert hosts["perSecretAllowedHosts"] == {"KEY": ["api.example.com"]}
    changed = await SecretStore.update(str(store["id"]), egress_allowlist=[])
    assert (changed["name"], changed["egressAllowlist"]) == ("sdk", [])
    assert (await SecretStore.update(str(store["id"]), name="renamed"))["name"] == "renamed"
    assert (await SecretStore.get(str(store["id"])))["name"] == "renamed"
    assert "renamed" in [each["name"] for each in await SecretStore.list()]
    await SecretStore.delete_secret(str(store["id"]), "FREE")
    await SecretStore.delete_secret(str(store["id"]), "FREE")
    with pytest.raises(ValidationError):
        await SecretStore.set_secret(str(store["id"]), "not a name", CANARY)
    one = await Sandbox.create(secret_store="renamed")
    await one.kill(delete_secret_store=True)
    await one.close()
    with pytest.raises(NotFoundError):
        await SecretStore.delete(str(store["id"]))


async def test_oc_keeps_stores_and_secrets(oc: Oc) -> None:
    code, said = await oc(
        "--json", "secret-store", "create", "--name", "cli", "--egress-allowlist", "a.org,*.b.org"
    )
    assert code == 0
    store = json.loads(said)["id"]
    assert await oc("secret", "list", store) == (0, "No secrets.")
    code, said = await oc("secret", "set", store, "KEY", "--from-stdin", stdin=f"{CANARY}\n")
    assert (code, said) == (0, "✓ KEY set; running sandboxes that use it now: 0")
    assert (await oc("secret", "set", store, "PIPED", "--allowed-hosts", "a.org", stdin=CANARY))[0] == 0
    code, said = await oc("secret", "ls", store)
    assert [line.split() for line in said.splitlines()] == [
        ["NAME", "ALLOWED", "HOSTS"],
        ["KEY", "all", "permitted"],
        ["PIPED", "a.org"],
    ]
    code, said = await oc(
        "--json", "create", "--secret-store", "cli", "--egress-allowlist", "c.org", "--env", "KEY=x"
    )
    sandbox = json.loads(said.splitlines()[0] if said.startswith('{"') else said[: said.rindex("}") + 1])
    assert "Warning: secret 'KEY' is not used" in said
    _, said = await oc("sandbox", "allowed-hosts", sandbox["sandboxID"])
    assert "a.org, *.b.org, c.org" in said
    assert "PIPED" in said
    assert (await oc("secret-store", "update", store))[0] == 1
    assert (await oc("secret-store", "update", store, "--egress-allowlist", ""))[0] == 0
    _, said = await oc("secret-store", "get", store)
    assert "any" in said
    assert "cli" in (await oc("secret-store", "list"))[1]
    assert (await oc("secret", "rm", store, "KEY"))[0] == 0
    assert (await oc("kill", sandbox["sandboxID"], "--delete-secret-store"))[0] == 0
    assert (await oc("secret-store", "delete", store))[0] == 3


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [(("--from-stdin",), ""), ((), "\n"), (("x", "--from-stdin"), "y"), (("",), "")],
)
async def test_a_value_that_is_missing_or_there_twice_is_no_value(
    oc: Oc, arguments: tuple[str, ...], stdin: str
) -> None:
    code, _ = await oc("secret", "set", "st-1", "KEY", *arguments, stdin=stdin)
    assert code == 1


async def test_the_operator_changes_keys_under_a_running_node(oc: Oc, api: Api, folder: NodeFolder) -> None:
    data = str(folder.data)
    store = await SecretStore.create("rotated")
    await SecretStore.set_secret(str(store["id"]), "KEY", CANARY)
    async with Sandbox.create(secret_store="rotated"):
        keys = folder.data / "keyring.json"
        before = json.loads(keys.read_text())["newest"]
        code, said = await oc("--json", "keyring", "rotate", "--data", data)
        assert (code, json.loads(said)["version"], json.loads(said)["unreadable"]) == (0, before + 1, 0)
        assert json.loads(keys.read_text())["newest"] == before + 1
        answer = await api.put(f"/secret-stores/{store['id']}/secrets/KEY", json={"value": "new"})
        assert answer.json() == {"name": "KEY", "status": "set", "refreshed": 1}
    assert (await oc("keyring", "rotate", "--data", f"{data}/none"))[0] == 1
    assert await oc("keyring", "forget", "--yes", "--data", data) == (0, "✓ secrets removed: 0")


async def test_a_node_without_its_keys_does_not_start(
    tmp_path_factory: pytest.TempPathFactory, oc: Oc, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = NodeFolder(tmp_path_factory.mktemp("lost"))
    async with lost.running() as url:
        monkeypatch.setenv("OPENCOMPUTER_API_URL", url)
        store = await SecretStore.create("lost")
        await SecretStore.set_secret(str(store["id"]), "KEY", CANARY)
    keys = lost.data / "keyring.json"
    for content in (None, "{"):
        keys.unlink() if content is None else keys.write_text(content)
        serve = ("serve", "--data", str(lost.data), "--listen", "127.0.0.1:0")
        monkeypatch.setenv("OPENCOMPUTER_DRIVER", "fake")
        code, said = await _serve(serve)
        assert code == 1
        assert str(keys) in said
        assert ("oc keyring forget" in said) is (content is None)
    keys.unlink()
    assert await oc("keyring", "forget", "--yes", "--data", str(lost.data)) == (0, "✓ secrets removed: 1")
    async with lost.running():
        assert json.loads(keys.read_text())["newest"] == 2


async def _serve(arguments: tuple[str, ...]) -> tuple[int, str]:
    """`oc serve`, as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "opencomputer.cli",
        *arguments,
        env={**os.environ},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    return process.returncode or 0, said.decode()
