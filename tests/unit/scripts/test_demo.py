"""`make run` and `make stop`: they know their own node from every other, and say what became of it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import demo
from tests.support.fake_node import FakeNode

SERVER = """
import json, os, time
path = os.environ["TOLD"]
with open(path + ".new", "w") as file:
    json.dump({"apiUrl": os.environ["URL"], "apiKey": os.environ["KEY"]}, file)
os.replace(path + ".new", path)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(demo, "RUN_FOLDER", tmp_path)
    monkeypatch.setattr(demo, "NODE_FILE", tmp_path / "node.json")
    monkeypatch.setattr(demo, "LOG_FILE", tmp_path / "node.log")
    monkeypatch.setattr(demo, "LOCAL_NODE", tmp_path / "local-node.json")
    return tmp_path


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def node_of(process: subprocess.Popen[bytes], url: str = "", key: str = "") -> demo.Node:
    return demo.Node(process.pid, demo.start_ticks(process.pid), url, key)


def test_only_sandboxes_of_its_own_node_are_ended(
    process: subprocess.Popen[bytes], own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another node may have written the file that `oc` reads since."""
    with FakeNode() as own, FakeNode() as other:
        doomed, spared = own.add_sandbox(), other.add_sandbox()
        local = {"apiUrl": other.url, "apiKey": other.api_key}
        (own_folder / "local-node.json").write_text(json.dumps(local))
        node_of(process, own.url, own.api_key).write_down()
        demo.stop_node()
        assert own.requests("DELETE", str(doomed.description["sandboxID"]))
        assert not other.seen
    assert spared.description["status"] == "running"
    assert process.wait(10) != 0
    assert "The node has ended." in capsys.readouterr().out
    assert not (own_folder / "node.json").exists()


def test_a_node_that_does_not_answer_is_ended_all_the_same(
    process: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    node_of(process, "http://127.0.0.1:9").write_down()
    demo.stop_node()
    assert process.wait(10) != 0
    assert "could not be ended" in capsys.readouterr().out


def test_sandboxes_of_a_node_that_died_are_not_forgotten(
    process: subprocess.Popen[bytes], own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node_of(process).write_down()
    process.kill()
    process.wait(10)
    demo.stop_node()
    assert "has died" in capsys.readouterr().out
    assert (own_folder / "node.json").exists()


def test_the_key_is_for_nobody_else_to_read(process: subprocess.Popen[bytes], own_folder: Path) -> None:
    node_of(process, key="osb_1").write_down()
    assert stat.S_IMODE((own_folder / "node.json").stat().st_mode) == 0o600
    assert demo.known_node() == node_of(process, key="osb_1")


def test_what_an_earlier_node_has_written_is_not_taken_for_the_new_one(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it removed: it may be of a node that runs."""
    told = own_folder / "local-node.json"
    with FakeNode() as fake:
        told.write_text('{"apiUrl": "http://127.0.0.1:9", "apiKey": "osb_other"}')
        for name, value in (("TOLD", str(told)), ("URL", fake.url), ("KEY", fake.api_key)):
            monkeypatch.setenv(name, value)
        serve = own_folder / "bin" / "oc"
        serve.parent.mkdir()
        serve.write_text(f"#!{sys.executable}\n{SERVER}")
        serve.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(serve.with_name("python")))

        def answers(url: str) -> bool:
            return url == fake.url

        monkeypatch.setattr(demo, "is_ready", answers)
        node = demo.start_node()
        os.kill(node.pid, 9)
        os.waitpid(node.pid, 0)
        assert (node.url, node.key) == (fake.url, fake.api_key)
    assert demo.known_node() == node
