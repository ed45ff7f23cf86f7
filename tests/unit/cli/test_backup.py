"""`oc backup` and `oc service` on a data folder of an earlier version, without a node."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.api.test_upgrade import data_of
from tests.unit.cli.conftest import Oc


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENCOMPUTER_TEMPLATES", str(tmp_path / "templates"))
    folder = data_of("0010", tmp_path)
    monkeypatch.setenv("OPENCOMPUTER_DATA", str(folder))
    return folder


def test_a_backup_is_made_listed_verified_restored_and_removed(oc: Oc, data: Path, tmp_path: Path) -> None:
    vault, target = str(tmp_path / "vault"), tmp_path / "other" / "data"
    made = oc("backup", "create", vault)
    assert made.exit_code == 0
    assert made.stdout.startswith("✓ backup ")
    assert "whoever can read it can read them" in made.stderr
    oc("backup", "create", vault)
    listed = json.loads(oc("--json", "backup", "list", vault).stdout)
    assert [(each["schema"], each["keys"]) for each in listed] == [("0010", "included")] * 2
    assert oc("backup", "verify", vault, "--backup", listed[0]["id"]).exit_code == 0
    assert json.loads(oc("--json", "backup", "prune", vault, "--keep", "1").stdout)["removed"] == 1
    restored = oc("backup", "restore", vault, "--data", str(target))
    assert restored.exit_code == 0, restored.stderr
    assert "base/h1, which this machine does not have" in restored.stderr
    assert (target / "keyring.json").read_bytes() == (data / "keyring.json").read_bytes()


def test_a_passphrase_is_read_from_a_file(oc: Oc, data: Path, tmp_path: Path) -> None:
    (tmp_path / "passphrase").write_text("correct horse\n")
    given = ("--passphrase-file", str(tmp_path / "passphrase"))
    made = oc("backup", "create", str(tmp_path / "one.tar"), *given)
    assert (made.exit_code, made.stderr) == (0, "")
    refused = oc("backup", "restore", str(tmp_path / "one.tar"), "--data", str(tmp_path / "other"))
    assert (refused.exit_code, "--passphrase-file" in refused.stderr) == (1, True)
    again = oc("backup", "restore", str(tmp_path / "one.tar"), "--data", str(tmp_path / "other"), *given)
    assert again.exit_code == 0
    (tmp_path / "passphrase").write_text("")
    assert "is empty" in oc("backup", "create", str(tmp_path / "two.tar"), *given).stderr


def test_what_cannot_be_done_is_said_in_one_line(oc: Oc, data: Path, tmp_path: Path) -> None:
    vault = str(tmp_path / "vault")
    oc("backup", "create", vault)
    for command, said in (
        (("restore", vault), "is not empty"),
        (("restore", vault, "--backup", "none", "--data", str(tmp_path / "x")), "there is no backup none"),
        (("verify", str(tmp_path / "nothing")), "cannot be read as a backup"),
        (("create", vault, "--data", str(tmp_path / "nowhere")), "no node's data folder"),
    ):
        outcome = oc("backup", *command)
        assert (outcome.exit_code, outcome.stdout) == (1, "")
        assert said in outcome.stderr


def test_damage_fails_the_command(oc: Oc, data: Path, tmp_path: Path) -> None:
    oc("backup", "create", str(tmp_path / "vault"))
    largest = max((tmp_path / "vault" / "objects").iterdir(), key=lambda file: file.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1] + b"!")
    outcome = oc("backup", "verify", str(tmp_path / "vault"))
    assert outcome.exit_code == 1
    assert "is damaged: opencomputer.db: its content is not what was put there" in outcome.stderr
    assert f"objects/{largest.name}" in outcome.stderr


def test_a_newer_database_is_refused_by_every_command_that_opens_it(
    oc: Oc, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server's process has its logs for itself; this one goes on with those of the tests.
    monkeypatch.setattr("opencomputer.server.main.configure_logs", str)
    with closing(sqlite3.connect(data / "opencomputer.db")) as connection, connection:
        connection.execute("update alembic_version set version_num = '9999'")
    for command in (("orgs", "create", "another"), ("keyring", "rotate"), ("serve",)):
        outcome = oc(*command)
        assert (outcome.exit_code, "a newer OpenComputer has used it" in outcome.stderr) == (1, True), outcome


def test_the_unit_is_printed(oc: Oc) -> None:
    assert "KillMode=process" in oc("service", "unit").stdout
    assert "[Service]" in json.loads(oc("--json", "service", "unit").stdout)["unit"]
