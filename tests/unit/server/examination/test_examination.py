"""What `oc doctor` says of a node's data and surroundings: each row fit, and each row not."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from opencomputer.server.doctor import run_checks
from opencomputer.server.examination import data, leftovers, machine, surroundings
from opencomputer.server.examination.check import Check
from opencomputer.server.examination.surroundings import Answer, NodeHealth
from opencomputer.server.host.runsc_build import RunscMissing, find_runsc
from opencomputer.server.identity import UNFINISHED, DataFolder
from opencomputer.server.settings import Settings, load_settings
from opencomputer.server.stores.keyring.file import FileKeyring
from opencomputer.server.stores.sql.database import Database
from tests.api.test_upgrade import data_of

SETTINGS = load_settings({})
KNOWN = ("0001", "0002")
NOW = datetime.now(UTC)
REACHABLE = Answer(200, NOW)
WHOLE = data.BlobFindings(None, 5)


@pytest.mark.parametrize(
    "check",
    [
        data.judge_folder(unfinished=False),
        data.judge_database("0002", KNOWN, []),
        data.judge_keyring(None, 3, 0),
        data.judge_blobs(WHOLE),
        leftovers.judge_leftovers({"a folder": {"m1"}}, {"m1"}),
        leftovers.judge_rules(running=False, table=None),
        leftovers.judge_rules(running=True, table="ip daddr 10.0.0.0/8 drop"),
        surroundings.judge_health(NodeHealth(None)),
        surroundings.judge_health(NodeHealth("http://here", True, True)),
        surroundings.judge_port(SETTINGS, taken=False, by_node=False),
        surroundings.judge_port(SETTINGS, taken=True, by_node=True),
        surroundings.judge_inodes(0.9, Path("/data")),
        surroundings.judge_controllers(2, frozenset()),
        surroundings.judge_clock(timedelta(seconds=1), synchronised=False),
        surroundings.judge_clock(None, synchronised=True),
        surroundings.judge_names(None),
        surroundings.judge_provider(None),
        surroundings.judge_provider(REACHABLE),
        surroundings.judge_domain("example.com", None),
        surroundings.judge_certificate("https://x", NOW + timedelta(days=60), None),
        machine.judge_machine(None),
    ],
    ids=lambda check: check.name,
)
def test_what_is_fit_needs_nothing(check: Check) -> None:
    assert (check.status, check.fix) == ("ok", "")


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (data.judge_folder(unfinished=True), "fail"),
        (data.judge_database("0002", KNOWN, ["row 3 missing from index"]), "fail"),
        (data.judge_database("0003", KNOWN, []), "fail"),
        (data.judge_database("", KNOWN, []), "fail"),
        (data.judge_database("0001", KNOWN, []), "warn"),
        (data.judge_keyring("it is missing", 3, 0), "fail"),
        (data.judge_keyring(None, 3, 1), "fail"),
        (data.judge_blobs(data.BlobFindings("read-only file system")), "fail"),
        (data.judge_blobs(data.BlobFindings(None, 5, ("abc",))), "fail"),
        (leftovers.judge_leftovers({"a folder": {"m1", "m2"}}, {"m1"}), "warn"),
        (leftovers.judge_leftovers({"a mount": {"m9"}, "an interface": {"oc1"}}, set()), "warn"),
        (leftovers.judge_rules(running=True, table=None), "fail"),
        (leftovers.judge_rules(running=True, table="accept"), "fail"),
        (surroundings.judge_health(NodeHealth("http://here")), "warn"),
        (surroundings.judge_health(NodeHealth("http://here", True, False)), "warn"),
        (surroundings.judge_port(SETTINGS, taken=True, by_node=False), "fail"),
        (surroundings.judge_inodes(0.005, Path("/data")), "fail"),
        (surroundings.judge_inodes(0.05, Path("/data")), "warn"),
        (surroundings.judge_controllers(2, frozenset({"memory"})), "fail"),
        (surroundings.judge_clock(timedelta(minutes=5), synchronised=True), "fail"),
        (surroundings.judge_clock(timedelta(seconds=10), synchronised=True), "warn"),
        (surroundings.judge_clock(None, synchronised=False), "warn"),
        (surroundings.judge_names("no answer in time"), "warn"),
        (surroundings.judge_provider(Answer(problem="refused")), "fail"),
        (surroundings.judge_provider(Answer(503, NOW)), "warn"),
        (surroundings.judge_domain("example.com", "not known"), "fail"),
        (surroundings.judge_certificate("https://x", None, "expired"), "fail"),
        (surroundings.judge_certificate("https://x", NOW + timedelta(days=5), None), "warn"),
        (machine.judge_machine("it hung"), "fail"),
    ],
    ids=lambda value: value.name if isinstance(value, Check) else value,
)
def test_what_is_not_fit_is_told_with_what_to_do(check: Check, status: str) -> None:
    assert check.status == status
    assert check.fix


@pytest.fixture
def folder(made_once: Path, tmp_path: Path) -> Path:
    """A data folder of the test's own."""
    shutil.copytree(made_once, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a node that has been started once."""
    made = DataFolder(tmp_path_factory.mktemp("node") / "data")
    made.open()
    made.close()
    asyncio.run(_make(made))
    FileKeyring.open_or_create(made.keyring)
    layers = made.path / "artefacts/blobs/layers"
    for each in (layers, layers.parent / "incoming"):
        each.mkdir(parents=True)
    content = b"a layer"
    (layers / f"{hashlib.sha256(content).hexdigest()}.tar").write_bytes(content)
    return made.path


async def _make(folder: DataFolder) -> None:
    database = Database.sqlite(folder.database)
    await database.open()
    await database.close()


def statuses(folder: Path, *, deep: bool = True) -> dict[str, str]:
    return {check.name: check.status for check in data.check_data(folder, deep=deep)}


def test_a_sound_folder_is_found_sound(folder: Path) -> None:
    assert statuses(folder) == dict.fromkeys(
        ("data", "database", "keyring", "saved layers", "saved states"), "ok"
    )
    assert not list((folder / "artefacts/blobs/incoming").iterdir())


def test_a_folder_that_was_not_restored_as_a_whole_is_told(tmp_path: Path) -> None:
    (tmp_path / UNFINISHED).touch()
    assert statuses(tmp_path) == {"data": "fail"}


def test_no_folder_is_no_fault(tmp_path: Path) -> None:
    assert statuses(tmp_path / "none") == {"data": "ok"}


def test_a_damaged_database_is_found(folder: Path) -> None:
    with (folder / "opencomputer.db").open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xff" * 8192)
    assert statuses(folder)["database"] == "fail"


def test_a_lost_key_is_found(tmp_path: Path) -> None:
    folder = data_of("0010", tmp_path)
    asyncio.run(_make(DataFolder(folder)))
    found = {check.name: check for check in data.check_data(folder, deep=True)}
    assert (found["keyring"].status, found["saved layers"].status) == ("ok", "ok")
    assert "(2)" in found["keyring"].summary
    (folder / "keyring.json").unlink()
    assert statuses(folder)["keyring"] == "fail"
    FileKeyring.open_or_create(folder / "keyring.json")
    assert statuses(folder)["keyring"] == "fail", "a key of the same number that is another one"
    (folder / "keyring.json").write_text("{}")
    assert statuses(folder)["keyring"] == "fail"


def test_a_database_that_waits_for_its_migration_is_told(tmp_path: Path) -> None:
    assert statuses(data_of("0001", tmp_path))["database"] == "warn"


@pytest.mark.parametrize("deep", [True, False])
def test_a_damaged_layer_is_found(folder: Path, deep: bool) -> None:
    layer = next((folder / "artefacts/blobs/layers").iterdir())
    layer.write_bytes(b"another")
    assert statuses(folder, deep=deep)["saved layers"] == "fail"


def test_a_store_that_cannot_be_written_is_found(folder: Path) -> None:
    incoming = folder / "artefacts/blobs/incoming"
    incoming.rmdir()
    assert statuses(folder)["saved layers"] == "ok", "the node makes the folder when it needs it"
    incoming.rmdir()
    incoming.touch()
    assert statuses(folder)["saved layers"] == "fail"


def test_a_machine_folder_without_a_row_is_left_over(folder: Path) -> None:
    (folder / "machines/m0123456789abcde").mkdir(parents=True)
    found = leftovers.check_leftovers(folder, running=False)
    assert [(each.name, each.status) for each in found] == [("leftovers", "warn"), ("egress rules", "ok")]
    assert "a folder of m0123456789abcde" in found[0].summary


def test_a_node_whose_rules_are_gone_is_told(folder: Path) -> None:
    assert leftovers.check_leftovers(folder, running=True)[1].status == "fail"


@contextmanager
def a_node(*, ready: bool) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if ready or self.path == "/healthz" else 503)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.mark.parametrize(("ready", "status"), [(True, "ok"), (False, "warn")])
def test_a_running_node_is_asked(tmp_path: Path, ready: bool, status: str) -> None:
    with a_node(ready=ready) as url:
        (tmp_path / "local-node.json").write_text(json.dumps({"apiUrl": url}))
        health = surroundings.node_health(tmp_path / "local-node.json")
    assert (health.alive, health.ready) == (True, ready)
    assert surroundings.judge_health(health).status == status


def test_a_port_that_another_program_has_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = surroundings.check_surroundings(_settings(tmp_path, listener.getsockname()[1]))
    assert {each.name: each.status for each in found}["port"] == "fail"


def _settings(folder: Path, port: int) -> Settings:
    return load_settings(
        {
            "OPENCOMPUTER_LISTEN": f"127.0.0.1:{port}",
            "OPENCOMPUTER_DATA": str(folder / "data"),
            "OPENCOMPUTER_TEMPLATES": str(folder / "templates"),
            "OPENCOMPUTER_LOCAL_NODE_FILE": str(folder / "none.json"),
            "OPENCOMPUTER_SANDBOX_DOMAIN": "no-such-domain.invalid",
            "OPENCOMPUTER_PUBLIC_URL": f"https://127.0.0.1:{port}",
            "OPENCOMPUTER_MODEL_PROVIDER": "anthropic",
            "OPENCOMPUTER_ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        }
    )


def test_all_rows_are_looked_at_and_none_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine where everything around is wrong."""
    monkeypatch.setattr(surroundings, "_SECONDS", 0.5)
    found = {each.name: each.status for each in run_checks(_settings(tmp_path, 1))}
    for name in ("preview domain", "certificate", "model provider"):
        assert found[name] == "fail"
    assert {"data", "node", "port", "inodes", "controllers", "clock", "names"} <= found.keys()


@pytest.mark.machines
def test_a_machine_is_started_and_saved() -> None:
    try:
        find_runsc()
    except RunscMissing:
        pytest.skip("needs runsc")
    assert machine.check_machine(None).status == "ok"


def test_a_runtime_that_saves_nothing_is_told(tmp_path: Path) -> None:
    runsc = tmp_path / "runsc"
    runsc.write_text('#!/bin/sh\ncase "$*" in *checkpoint*) echo cannot save >&2; exit 1;; esac\n')
    runsc.chmod(0o755)
    said = machine.try_checkpoint(runsc)
    assert said is not None
    assert "cannot save" in said or "ermitted" in said
