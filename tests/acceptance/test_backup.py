"""A node at work is backed up, restored beside the old one, and goes on with what was at rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Setting
from tests.acceptance.test_durable_sessions import Durable, Session
from tests.acceptance.test_sealed_secrets import ASK, store
from tests.support.box import Box, create_box
from tests.support.outside_world import PUBLIC
from tests.support.server import TEMPLATES, ServerProcess, running_server
from tests.support.waiting import until

pytestmark = [pytest.mark.machines, pytest.mark.timeout(300)]

_COUNT = "n=0; while :; do n=$((n+1)); echo $n > count; sleep 0.05; done"


def oc(*arguments: str) -> Mapping[str, Any]:
    """What `oc backup …` prints as JSON."""
    command = [str(Path(sys.executable).with_name("oc")), "--json", "backup", *arguments]
    environment = {**os.environ, "OPENCOMPUTER_TEMPLATES": str(TEMPLATES)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def counted(box: Box) -> int:
    return int(box.output("cat count") or 0)


@dataclass
class Before:
    """What a node has when it is backed up."""

    asleep: Box
    running: Box
    program: str
    checkpoint: str
    session: Session
    events: list[dict[str, Any]]


def work(server: ServerProcess, stack: ExitStack) -> Before:
    secrets = store(server, API_KEY="the-value").partition("#")[2]
    client = stack.enter_context(closing(server.client()))
    asleep, running = boxes = [create_box(server, client, secretStore=secrets) for _ in range(2)]
    for each in boxes:
        stack.callback(each.kill)
    program = asleep.start(_COUNT)
    until(lambda: counted(asleep) > 3, "it counts")
    running.output("echo precious > file")
    checkpoint = running.ready_checkpoint("before", kind="full")
    running.start(_COUNT)
    session = Durable(server).session("run", "echo kept > /workspace/file && cat /workspace/file")
    assert session.settled() == "idle"
    asleep.hibernate()
    return Before(asleep, running, program, checkpoint, session, session.events)


def check_restored(new: ServerProcess, before: Before, setting: Setting) -> None:
    assert Session(Durable(new), before.session.id).events[: len(before.events)] == before.events
    with new.client() as client:
        woken = Box(new, client, before.asleep.description)
        count = counted(woken)
        assert count > 3
        until(lambda: counted(woken) > count, "the program that slept counts on")
        assert woken.session(before.program)["running"]
        assert woken.output("echo $API_KEY").startswith("osb_sealed_")
        setting.world.secrets_seen.clear()
        assert woken.output(ASK) == "hello"
        assert "Bearer the-value" in setting.world.secrets_seen
        lost = Box(new, client, before.running.description)
        assert lost.from_checkpoint(before.checkpoint).output("cat file") == "precious"
        assert (lost.described()["status"], lost.described()["stopReason"]) == ("stopped", "crash")
        assert [each["id"] for each in lost.checkpoints()] == [before.checkpoint]
        assert lost.ask("wake", 410)["code"] == "sandbox_stopped"


def test_a_node_that_works_is_backed_up_and_goes_on_elsewhere(setting: Setting, tmp_path: Path) -> None:
    old = setting.server
    vault, target = str(tmp_path / "vault"), tmp_path / "other" / "data"
    with ExitStack() as stack:
        before = work(old, stack)
        made = oc("create", vault, "--data", str(old.data))
        again = oc("create", vault, "--data", str(old.data))
        assert (made["missing"], made["keys"]) == ([], "included")
        assert again["newBytes"] < made["newBytes"] / 4, "what is there already is not copied again"
        assert oc("verify", vault)["faults"] == []
        restored = oc("restore", vault, "--data", str(target))
        assert restored["missingTemplates"] == []
        assert restored["stoppedSandboxes"] >= 1
        with running_server(
            target.parent,
            OPENCOMPUTER_NAME_SERVERS=f"{PUBLIC}:53",
            SSL_CERT_FILE=str(setting.world.authority),
        ) as new:
            assert new.node_tag != old.node_tag
            assert new.api_key == old.api_key
            check_restored(new, before, setting)
        assert counted(before.running) > 0, "the old node has lost nothing by it"
