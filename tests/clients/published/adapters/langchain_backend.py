"""What the standard suite leaves out of our backend. Run by pytest in the adapters' environment."""

import asyncio
import time

import pytest
from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from pages import run_page

import opencomputer
from opencomputer.integrations.langchain import OpenComputerSandbox


@pytest.fixture(scope="module")
def backend():
    with OpenComputerSandbox.open(timeout=20) as backend:
        yield backend


def test_errors_come_in_the_output_where_they_were_written(backend):
    ran = backend.execute("echo one; echo two >&2; echo three; [[ a == a ]] && exit 9")
    assert (ran.output, ran.exit_code, ran.truncated) == ("one\ntwo\nthree\n", 9, False)


def test_a_command_finds_no_input_and_leaves_programs_behind(backend):
    began = time.monotonic()
    ran = backend.execute("wc -c; nohup sleep 60 > /dev/null 2>&1 & echo $! > /tmp/left")
    assert ran.output.split()[0] == "0"
    assert time.monotonic() - began < 10
    assert backend.execute("kill $(cat /tmp/left)").exit_code == 0


def test_a_late_command_is_killed(backend):
    ran = backend.execute("echo begun; echo $$ > /tmp/late; sleep 60; :", timeout=3)
    assert ran.exit_code == 124
    assert ran.output == "begun\n\nCommand timed out after 3 seconds and was killed."
    assert backend.execute("kill -0 $(cat /tmp/late)").exit_code == 1


def test_of_much_output_the_beginning_is_kept(backend):
    ran = backend.execute("head -c 11M /dev/zero | tr '\\0' x; exit 5")
    assert (len(ran.output), ran.truncated, ran.exit_code) == (10 << 20, True, 5)


def test_a_path_in_a_glob_is_absolute_and_a_file_is_written_again(backend):
    """As deepagents has it since 0.7, and the standard suite not yet."""
    assert backend.write("/tmp/globbed/a.txt", "one").error is None
    assert backend.write("/tmp/globbed/a.txt", "two").error is None
    assert [each["path"] for each in backend.glob("*.txt", "/tmp/globbed").matches] == ["/tmp/globbed/a.txt"]
    assert backend.download_files(["/tmp/globbed/a.txt"])[0].content == b"two"


def test_what_the_user_may_not_do_is_refused_file_by_file(backend):
    uploaded = backend.upload_files([("/root/new", b"x"), ("/tmp", b"x"), ("/tmp/fine", b"x")])
    assert [each.error for each in uploaded] == ["permission_denied", "is_directory", None]
    downloaded = backend.download_files(["/etc/shadow", "/tmp", "/tmp/none", "none", "/tmp/fine"])
    errors = ["permission_denied", "is_directory", "file_not_found", "invalid_path", None]
    assert [each.error for each in downloaded] == errors


async def test_async_methods_do_not_block_and_may_be_mixed_with_the_others(backend):
    slow = asyncio.create_task(backend.aexecute("until test -e /tmp/go; do sleep 0.1; done; echo slow"))
    fast = await backend.aexecute("echo fast")
    assert fast.output == "fast\n"
    assert not slow.done()
    blocking = await asyncio.to_thread(backend.execute, "touch /tmp/go; echo blocking")
    assert (blocking.output, (await slow).output) == ("blocking\n", "slow\n")


def test_one_backend_serves_several_event_loops(backend):
    outputs = [asyncio.run(backend.aexecute(f"echo {number}")).output for number in range(2)]
    assert outputs == ["0\n", "1\n"]


async def test_a_cancelled_command_is_killed(backend):
    running = asyncio.create_task(backend.aexecute("echo $$ > /tmp/cancelled; sleep 60; :"))
    while (await backend.aexecute("test -s /tmp/cancelled")).exit_code != 0:
        assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    gone = "for _ in $(seq 300); do kill -0 $(cat /tmp/cancelled) || exit 0; sleep 0.05; done; exit 1"
    assert (await backend.aexecute(gone)).exit_code == 0


async def test_a_sandbox_that_is_there_is_taken_up_and_stays(backend):
    again = await OpenComputerSandbox.aopen(opencomputer.Sandbox.connect(backend.id))
    assert (await again.aexecute("hostname")).output == backend.execute("hostname").output
    await again.aclose()
    assert backend.execute("true").exit_code == 0
    with pytest.raises(opencomputer.NotFoundError):
        OpenComputerSandbox.open(opencomputer.Sandbox.connect("sb-00000000"))


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


def call(number, name, **arguments):
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{number}"}])


async def test_a_deep_agent_writes_edits_and_runs_in_it(backend):
    script = [
        call(1, "write_file", file_path="/home/sandbox/app.py", content="print('wrong')\n"),
        call(2, "edit_file", file_path="/home/sandbox/app.py", old_string="'wrong'", new_string="6 * 7"),
        call(3, "execute", command="python3 app.py"),
        AIMessage("It says 42."),
    ]
    agent = create_deep_agent(model=Scripted(messages=iter(script)), backend=backend)
    state = await agent.ainvoke({"messages": [{"role": "user", "content": "Make it say 42."}]})
    outputs = [message.text for message in state["messages"] if message.type == "tool"]
    assert len(outputs) == 3
    assert outputs[2].startswith("42")
    assert state["messages"][-1].text == "It says 42."


def test_a_long_result_is_kept_in_a_file_of_the_sandbox(backend):
    path = "/large_tool_results/call"
    kept = backend.execute_with_offload("seq 10000; exit 4", path, max_inline_bytes=1000)
    assert kept.offloaded
    assert kept.response.exit_code == 4
    assert backend.execute(f"tail -n 1 {path}").output == "10000\n"


async def test_the_guide_is_true(capsys):
    script = [
        call(1, "write_file", file_path="/home/sandbox/fizzbuzz.py", content="print('fizz')\n"),
        call(2, "execute", command="python3 fizzbuzz.py"),
        AIMessage("It fizzes."),
    ]
    await run_page("langchain.md", model=Scripted(messages=iter(script)))
    assert capsys.readouterr().out == "It fizzes.\nfizzbuzz.py\n\n2\ntest\n 0\n"
