"""What Inspect AI's own checks leave out of our provider. Run by pytest in the adapters' environment."""

import asyncio
import time

import pytest
from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash, text_editor
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironmentLimits, SandboxUnavailableError
from inspect_ai.util._sandbox.limits import override_max_exec_output_size
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from pages import run_page

import opencomputer
from opencomputer.integrations.inspect_ai import OpenComputerConfig, OpenComputerSandbox


@pytest.fixture(scope="module")
async def sandbox():
    environments = await OpenComputerSandbox.sample_init("provider", None, {})
    yield environments["default"]
    await OpenComputerSandbox.sample_cleanup("provider", None, environments, False)


async def sandboxes():
    return {each["sandboxID"]: each for each in await opencomputer.Sandbox.list()}


async def estimated_tokens(text):
    return len(text) // 4


def test_inspect_finds_the_provider_by_its_name():
    assert registry_find_sandboxenv("opencomputer") is OpenComputerSandbox


async def test_a_command_without_input_does_not_wait_for_one(sandbox):
    assert (await sandbox.exec(["wc", "-c"], timeout=10)).stdout.strip() == "0"


async def test_another_user_gets_input_folder_and_variables(sandbox):
    command = ["sh", "-c", "id -un; pwd; echo $COLOUR; cat"]
    ran = await sandbox.exec(command, input="typed", cwd="/tmp", env={"COLOUR": "a 'b'"}, user="root")
    assert ran.stdout.splitlines() == ["root", "/tmp", "a 'b'", "typed"]


async def test_a_program_of_another_user_is_killed_in_time(sandbox):
    with pytest.raises(TimeoutError):
        await sandbox.exec(["sh", "-c", "echo $$ > /tmp/as-root; sleep 60; :"], user="root", timeout=3)
    assert not (await sandbox.exec(["sh", "-c", "kill -0 $(cat /tmp/as-root)"], user="root")).success


async def test_a_command_that_writes_without_end_is_stopped_at_once(sandbox):
    with override_max_exec_output_size(64 * 1024):
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        began = time.monotonic()
        with pytest.raises(OutputLimitExceededError) as raised:
            await sandbox.exec(["yes"], timeout=60)
    assert time.monotonic() - began < 30
    assert len(raised.value.truncated_output) == limit
    assert not (await sandbox.exec(["pgrep", "-x", "yes"])).success


async def test_a_caller_that_is_cancelled_takes_its_command_along(sandbox):
    running = asyncio.create_task(sandbox.exec(["sh", "-c", "echo $$ > /tmp/mine; sleep 60; :"]))
    while not (await sandbox.exec(["test", "-s", "/tmp/mine"])).success:
        assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not (await sandbox.exec(["sh", "-c", "kill -0 $(cat /tmp/mine)"])).success


async def test_files_of_folders_that_are_closed_to_the_user_stay_closed(sandbox):
    for refused in (sandbox.read_file("/root/.bashrc"), sandbox.write_file("/root/new", "x")):
        with pytest.raises(PermissionError):
            await refused
    with pytest.raises(FileNotFoundError):
        await sandbox.read_file("/nowhere/at/all")


async def test_a_person_can_connect_while_it_runs(sandbox):
    connection = await sandbox.connection()
    assert connection.command == f"oc shell {sandbox.sandbox.sandbox_id}"
    assert connection.type == "opencomputer"
    with pytest.raises(NotImplementedError):
        await sandbox.connection(user="root")


async def test_a_file_of_settings_makes_several_sandboxes_and_cleanup_removes_them(tmp_path):
    settings = tmp_path / "opencomputer.yaml"
    settings.write_text(
        "memory_mb: 1024\nenvs: {ROLE: any}\n"
        "environments:\n  attacker: {envs: {ROLE: attacker}}\n  target: {}\n"
    )
    await OpenComputerSandbox.task_init("cleanup", str(settings))
    made = await OpenComputerSandbox.sample_init("cleanup", str(settings), {})
    assert list(made) == ["attacker", "target"]
    for name, role in (("attacker", "attacker"), ("target", "any")):
        assert (await made[name].exec(["sh", "-c", "echo $ROLE"])).stdout == f"{role}\n"
    ids = [each.sandbox.sandbox_id for each in made.values()]
    known = await sandboxes()
    assert all(known[each]["metadata"]["task"] == "cleanup" for each in ids)

    await OpenComputerSandbox.cli_cleanup(ids[0])
    assert set(ids) & set(await sandboxes()) == {ids[1]}
    with pytest.raises(SandboxUnavailableError):
        await made["attacker"].exec(["true"])
    with pytest.raises(ConnectionError):
        await made["attacker"].connection()
    await OpenComputerSandbox.task_cleanup("cleanup", str(settings), True)
    assert set(ids) & set(await sandboxes()) == set()


async def test_a_setting_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="memory_gb"):
        OpenComputerSandbox.config_deserialize({"memory_gb": 1})
    assert OpenComputerSandbox.config_deserialize({"memory_mb": 1024}) == OpenComputerConfig(memory_mb=1024)


def call(tool, **arguments):
    return ModelOutput.for_tool_call("mockllm/model", tool, arguments)


def scripted(answers):
    model = get_model("mockllm/model", custom_outputs=answers)
    # Inspect counts with a table that it would have to fetch.
    model.api.count_text_tokens = estimated_tokens
    return model


async def test_an_evaluation_uses_it_for_files_tools_and_scores(tmp_path):
    answers = [
        call("bash", command="wc -c < secret.txt; id -un"),
        call("text_editor", command="create", path="/home/sandbox/note.txt", file_text="from a tool"),
        call("bash", command="cat note.txt; exit 3"),
        ModelOutput.from_content("mockllm/model", "The answer is 42."),
    ]
    task = Task(
        dataset=[
            Sample("How long is it?", target="42", files={"secret.txt": "x" * 42}, setup="touch was-set-up")
        ],
        solver=[use_tools(bash(timeout=30), text_editor()), generate()],
        scorer=includes(),
        sandbox="opencomputer",
        name="measured",
    )
    (log,) = await eval_async(task, model=scripted(answers), log_dir=str(tmp_path))
    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["accuracy"].value == 1
    said = [message.text for message in log.samples[0].messages if message.role == "tool"]
    assert said[0].split() == ["42", "sandbox"]
    assert "from a tool" in said[2]
    assert "measured" not in [each["metadata"].get("task") for each in (await sandboxes()).values()]


async def test_the_guide_is_true(monkeypatch, tmp_path):
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path))
    answers = [call("bash", command="wc -l < data.csv"), ModelOutput.from_content("mockllm/model", "3 lines")]
    evaluation, configuration = await run_page("inspect-ai.md", model=scripted(answers))
    (log,) = evaluation["logs"]
    assert [message.text for message in log.samples[0].messages if message.role == "tool"] == ["3\n"]
    assert log.results.scores[0].metrics["accuracy"].value == 1
    assert configuration["sandbox"].config.image["steps"][0]["args"] == {
        "commands": ["echo prepared > prepared.txt"]
    }
