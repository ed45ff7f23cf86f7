"""Commands and sessions over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from opencomputer.server.http.sandbox_api import exec as exec_routes
from tests.support.node import Api

pytestmark = pytest.mark.anyio


async def result_of(api: Api, sandbox: str, handle: str) -> dict[str, Any]:
    """Poll as the published client does, until the end."""
    for _ in range(200):
        answer = await api.get(f"/sandboxes/{sandbox}/exec/{handle}/result")
        assert answer.status_code == 200, answer.text
        if not answer.json()["running"]:
            return answer.json()
    raise AssertionError("it never ended")


async def test_the_answer_always_has_all_three(api: Api, sandbox: str) -> None:
    assert await api.run(sandbox, "true") == {"exitCode": 0, "stdout": "", "stderr": ""}
    assert await api.run(sandbox, "echo out; echo err >&2; exit 3") == {
        "exitCode": 3,
        "stdout": "out\n",
        "stderr": "err\n",
    }


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 128, 255])
async def test_an_exit_code_is_the_processes_own(api: Api, sandbox: str, code: int) -> None:
    assert (await api.run(sandbox, f"exit {code}"))["exitCode"] == code


async def test_death_by_signal_is_128_and_the_signal_with_its_name(api: Api, sandbox: str) -> None:
    result = await api.run(sandbox, "kill -TERM $$")
    assert (result["exitCode"], result["signal"]) == (143, "SIGTERM")


async def test_a_timeout_kills_and_says_so_and_keeps_what_was_written(api: Api, sandbox: str) -> None:
    began = time.monotonic()
    result = await api.run(sandbox, "echo before; echo half >&2; sleep 600", timeout=1)
    assert time.monotonic() - began < 60
    assert (result["exitCode"], result["signal"], result["reason"]) == (137, "SIGKILL", "timeout")
    assert result["stdout"] == "before\n"
    assert result["stderr"] == "half\nthe process timed out after 1 seconds\n"


async def test_the_line_about_the_timeout_is_a_line_of_its_own(api: Api, sandbox: str) -> None:
    result = await api.run(sandbox, "printf x >&2; sleep 600", timeout=1)
    assert result["stderr"].splitlines() == ["x", "the process timed out after 1 seconds"]


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ({"cmd": "no-such-program-anywhere"}, 127, "no-such-program-anywhere"),
        ({"cmd": "/nonexistent/x", "args": ["a"]}, 127, "/nonexistent/x"),
        ({"cmd": "/etc/passwd", "args": ["a"]}, 126, "/etc/passwd"),
        ({"cmd": "true", "cwd": "/nonexistent"}, 127, "/nonexistent"),
        ({"cmd": "true", "cwd": "/etc/passwd"}, 126, "/etc/passwd"),
        ({"cmd": "no-such-program; exit 5"}, 5, "no-such-program"),
    ],
)
async def test_a_program_that_cannot_start_is_a_result_not_an_error(
    api: Api, sandbox: str, body: dict[str, Any], code: int, text: str
) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/exec/run", json=body)
    assert answer.status_code == 200
    assert answer.json()["exitCode"] == code
    assert text in answer.json()["stderr"]


async def test_without_arguments_a_command_may_be_a_shell_line(api: Api, sandbox: str) -> None:
    async def stdout(**body: Any) -> str:
        return (await api.post(f"/sandboxes/{sandbox}/exec/run", json=body)).json()["stdout"]

    assert await stdout(cmd="echo $((1+1)) | cat") == "2\n"
    assert await stdout(cmd="pwd") == await stdout(cmd="pwd", args=[])
    assert await stdout(cmd="echo", args=["$HOME", "*", "a b"]) == "$HOME * a b\n"


async def test_the_old_name_of_the_route_still_works(api: Api, sandbox: str) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/commands", json={"cmd": "echo old"})
    assert answer.json() == {"exitCode": 0, "stdout": "old\n", "stderr": ""}


async def test_environments_are_layered(api: Api) -> None:
    sandbox = (await api.create(envs={"LAYER": "sandbox", "ONLY": "sandbox"}))["sandboxID"]
    plain = await api.run(sandbox, "echo $LAYER $ONLY; echo $HOME $USER")
    assert plain["stdout"].splitlines()[0] == "sandbox sandbox"
    over = await api.run(sandbox, "echo $LAYER $ONLY", envs={"LAYER": "request", "X": ""})
    assert over["stdout"] == "request sandbox\n"
    again = await api.run(sandbox, "echo $LAYER")
    assert again["stdout"] == "sandbox\n", "one call's variables are not the next one's"


async def test_a_relative_directory_is_below_the_home(api: Api, sandbox: str) -> None:
    await api.run(sandbox, "mkdir -p $HOME/work/deep")
    home = (await api.run(sandbox, "pwd"))["stdout"].strip()
    assert (await api.run(sandbox, "pwd", cwd="work/deep"))["stdout"].strip() == f"{home}/work/deep"


async def test_standard_input_is_at_its_end(api: Api, sandbox: str) -> None:
    result = await api.run(sandbox, "cat; echo done", timeout=10)
    assert (result["exitCode"], result["stdout"]) == (0, "done\n")


async def test_a_background_child_does_not_hold_the_answer_back(api: Api, sandbox: str) -> None:
    began = time.monotonic()
    result = await api.run(sandbox, "sleep 600 & echo started")
    assert result["stdout"] == "started\n"
    assert time.monotonic() - began < 60


async def test_bytes_that_are_no_text_are_replaced_only_where_they_stand(api: Api, sandbox: str) -> None:
    result = await api.run(sandbox, r"printf 'a\377b\303\251\303'")
    assert result["stdout"] == "a\ufffdbé\ufffd"


async def test_characters_split_over_pieces_stay_whole(api: Api, sandbox: str) -> None:
    result = await api.run(
        sandbox, r"i=0; while [ $i -lt 200 ]; do printf '\342'; printf '\230\225'; i=$((i+1)); done"
    )
    assert result["stdout"] == "☕" * 200


async def test_ninety_thousand_bytes_arrive_whole(api: Api, sandbox: str) -> None:
    result = await api.run(sandbox, "head -c 90000 /dev/zero | tr '\\0' x")
    assert result["stdout"] == "x" * 90_000
    assert "truncated" not in result


async def test_more_than_a_mebibyte_keeps_its_end_and_says_so(api: Api, sandbox: str) -> None:
    result = await api.run(sandbox, "head -c 3000000 /dev/zero | tr '\\0' x; echo the end")
    assert result["truncated"] is True
    assert len(result["stdout"]) == 1 << 20
    assert result["stdout"].endswith("x" * 100 + "the end\n")


async def test_many_at_once_do_not_mix(api: Api, sandbox: str) -> None:
    results = await asyncio.gather(
        *(api.run(sandbox, f"echo {number}; exit {number}") for number in range(20))
    )
    assert [(result["stdout"], result["exitCode"]) for result in results] == [
        (f"{number}\n", number) for number in range(20)
    ]


async def test_a_long_command_is_not_silent(api: Api, sandbox: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intermediaries take silence for a dead connection: white space comes first, then the document."""
    monkeypatch.setattr(exec_routes, "_HEARTBEAT_SECONDS", 0.3)
    body = {"cmd": "sh", "args": ["-c", "sleep 1; echo late; exit 4"]}
    async with api.client.stream("POST", f"/api/sandboxes/{sandbox}/exec/run", json=body) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        pieces = [piece async for piece in answer.aiter_raw()]
    assert pieces[0].strip() == b""
    assert len(pieces) >= 3
    assert json.loads(b"".join(pieces)) == {"exitCode": 4, "stdout": "late\n", "stderr": ""}


async def test_what_goes_wrong_after_the_beginning_is_a_complete_result(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_routes, "_HEARTBEAT_SECONDS", 0.1)
    sandbox = (await api.create())["sandboxID"]
    body = {"cmd": "sleep", "args": ["60"]}
    async with api.client.stream("POST", f"/api/sandboxes/{sandbox}/exec/run", json=body) as answer:
        assert answer.status_code == 200
        assert (await api.get(f"/sandboxes/{sandbox}/exec")).json() == []
        await api.delete(f"/sandboxes/{sandbox}")
        result = json.loads(await answer.aread())
    assert result["exitCode"] == -1
    assert result["stderr"]


# Asynchronous


async def test_a_quick_command_needs_no_handle(api: Api, sandbox: str) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/exec/run-async", json={"cmd": "echo hi"})
    assert (answer.status_code, answer.json()) == (200, {"exitCode": 0, "stdout": "hi\n", "stderr": ""})


async def test_a_slow_command_has_a_handle(api: Api, sandbox: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"echo a; while [ ! -e {gate} ]; do sleep 0.02; done; echo b >&2; exit 2"
    body = {"cmd": "sh", "args": ["-c", script]}
    answer = await api.post(f"/sandboxes/{sandbox}/exec/run-async", json=body)
    assert answer.status_code == 202
    accepted = answer.json()
    assert set(accepted) == {"execId", "running", "startedAt"}
    assert accepted["running"] is True
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT.*Z", accepted["startedAt"])
    partial = (await api.get(f"/sandboxes/{sandbox}/exec/{accepted['execId']}/result")).json()
    assert (partial["running"], partial["stdout"]) == (True, "a\n")
    assert "exitCode" not in partial
    gate.touch()
    done = await result_of(api, sandbox, accepted["execId"])
    assert (done["exitCode"], done["stdout"], done["stderr"]) == (2, "a\n", "b\n")
    assert await result_of(api, sandbox, accepted["execId"]) == done


async def test_a_poll_holds_for_a_moment_only(api: Api, sandbox: str) -> None:
    body = {"cmd": "sleep 600"}
    handle = (await api.post(f"/sandboxes/{sandbox}/exec/run-async", json=body)).json()["execId"]
    began = time.monotonic()
    assert (await api.get(f"/sandboxes/{sandbox}/exec/{handle}/result")).json()["running"] is True
    assert 0.3 < time.monotonic() - began < 60


async def test_an_asynchronous_command_may_time_out_too(api: Api, sandbox: str) -> None:
    body = {"cmd": "sleep 30", "timeout": 1}
    handle = (await api.post(f"/sandboxes/{sandbox}/exec/run-async", json=body)).json()["execId"]
    done = await result_of(api, sandbox, handle)
    assert (done["exitCode"], done["reason"]) == (137, "timeout")
    assert "timed out" in done["stderr"]


@pytest.mark.parametrize("handle", ["00000000", "x", "..", "%00", "a" * 500])
async def test_an_unknown_handle_is_not_found(api: Api, sandbox: str, handle: str) -> None:
    answer = await api.get(f"/sandboxes/{sandbox}/exec/{handle}/result")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


# Idempotency


@pytest.mark.parametrize("route", ["exec/run", "exec/run-async"])
async def test_one_idempotency_key_runs_a_command_once(api: Api, sandbox: str, route: str) -> None:
    name = route.replace("/", "-")
    body = {"cmd": "sh", "args": ["-c", f"echo x >> $HOME/{name}; cat $HOME/{name}"]}
    headers = {"Idempotency-Key": f"once-{name}"}
    answers = await asyncio.gather(
        *(api.post(f"/sandboxes/{sandbox}/{route}", json=body, headers=headers) for _ in range(5))
    )
    assert {answer.json()["stdout"] for answer in answers} == {"x\n"}


async def test_one_idempotency_key_for_two_commands_is_a_conflict(api: Api, sandbox: str) -> None:
    headers = {"Idempotency-Key": "two"}
    await api.post(f"/sandboxes/{sandbox}/exec/run", json={"cmd": "echo 1"}, headers=headers)
    answer = await api.post(f"/sandboxes/{sandbox}/exec/run", json={"cmd": "echo 2"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_mismatch")


async def test_one_idempotency_key_starts_one_session(api: Api, sandbox: str) -> None:
    headers = {"Idempotency-Key": "session"}
    answers = [
        await api.post(f"/sandboxes/{sandbox}/exec", json={"cmd": "sleep 5"}, headers=headers)
        for _ in range(2)
    ]
    assert answers[0].json()["sessionID"] == answers[1].json()["sessionID"]
