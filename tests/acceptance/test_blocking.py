"""The blocking SDK with real machines: one program without an event loop, from create to kill."""

from __future__ import annotations

import pytest

from opencomputer.blocking import ExecTimeoutError, NotFoundError, Sandbox
from tests.support.server import ServerProcess

pytestmark = pytest.mark.machines


@pytest.fixture(scope="module")
def server(shared_server: ServerProcess) -> ServerProcess:
    """Nothing here is done to the node."""
    return shared_server


def test_a_program_without_an_event_loop_does_everything(server: ServerProcess) -> None:
    heard: list[bytes] = []
    with Sandbox.create(api_key=server.api_key, api_url=server.url, envs={"WORD": "kept"}) as sandbox:
        assert sandbox.exec.run("echo $WORD; exit 3").exit_code == 3
        with pytest.raises(ExecTimeoutError):
            sandbox.exec.run("sleep 30", client_timeout=0.3)

        def on_stdout(data: bytes) -> None:
            heard.append(data)
            if b"ask" in data:
                sandbox.files.write("answer.txt", "from a callback")

        session = sandbox.exec.start(
            "echo ask; until [ -s answer.txt ]; do sleep 0.05; done; cat answer.txt", on_stdout=on_stdout
        )
        assert session.done.result(timeout=30) == 0
        assert b"".join(heard) == b"ask\nfrom a callback"

        sandbox.files.write_stream("big", (bytes(100_000) for _ in range(10)))
        assert sum(len(piece) for piece in sandbox.files.read_stream("big")) == 1_000_000
        with sandbox.exec.shell() as shell:
            shell.run("cd /tmp")
            assert shell.run("pwd").stdout == "/tmp\n"
        with sandbox.agent.start("run `echo made > by-agent.txt`") as agent:
            assert agent.wait() == 0
        assert sandbox.files.read("by-agent.txt") == "made\n"

        (fork,) = sandbox.fork()
        with fork:
            assert fork.files.read("answer.txt") == "from a callback"
            assert fork.id != sandbox.id
        assert fork.status == "stopped"
    with pytest.raises(NotFoundError):
        Sandbox.connect("sb-00000000", api_key=server.api_key, api_url=server.url)
