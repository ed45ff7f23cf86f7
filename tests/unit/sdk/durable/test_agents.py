"""Agents and credentials: what is sent, what is given back."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from opencomputer.durable import ProjectError
from opencomputer.sdk.durable.agents import Agents
from opencomputer.sdk.durable.credentials import Credentials
from opencomputer.sdk.durable.projects import read_project, read_reference
from tests.unit.sdk.durable.answers import Answers

pytestmark = pytest.mark.anyio

AGENT = {
    "id": "agt_1",
    "name": "fixer",
    "model": "anthropic/claude-sonnet-5",
    "runtime": "claude",
    "revision": 1,
}
DEPLOYMENT = {"id": "dep_1", "state": "ready", "terminal": True, "revision": {"id": "rev_2", "number": 2}}


def project(folder: Path, manifest: str = 'name = "fixer"\nmodel = "anthropic/claude-sonnet-5"\n') -> Path:
    (folder / "skills/review").mkdir(parents=True)
    (folder / "agent.toml").write_text(manifest)
    (folder / "prompt.md").write_text("Fix it.")
    (folder / "skills/review/SKILL.md").write_text("---\nname: review\n---\nLook.")
    (folder / "skills/review/run.sh").write_text("true")
    (folder / "skills/review/run.sh").chmod(0o755)
    return folder


async def test_only_what_is_given_is_sent_and_creating_may_be_repeated() -> None:
    server = Answers(httpx.ConnectError("no"), httpx.Response(201, json=AGENT))
    async with server.connection() as connection:
        agent = await Agents(connection).create(name="fixer", model="anthropic/x", checkpoints={"keep": 3})
    assert server.body == {"name": "fixer", "model": "anthropic/x", "checkpoints": {"keep": 3}}
    assert (agent.id, agent.revision) == ("agt_1", 1)


async def test_updating_tells_what_stays_from_what_is_cleared() -> None:
    server = Answers(*(httpx.Response(200, json=AGENT) for _ in range(2)))
    async with server.connection() as connection:
        agents = Agents(connection)
        await agents.update("agt_1", prompt="new")
        assert server.body == {"prompt": "new"}
        await agents.update("agt_1", credential=None, limits=None)
        assert server.body == {"credential": None, "limits": None}


async def test_a_folder_is_deployed_as_a_whole(tmp_path: Path) -> None:
    server = Answers(
        httpx.Response(200, json={"data": [AGENT], "next_cursor": None}),
        httpx.Response(201, json={"deployment": DEPLOYMENT}),
    )
    async with server.connection() as connection:
        deployment = await Agents(connection).deploy(project(tmp_path), activate=False)
    assert deployment.ended
    assert deployment.revision is not None
    assert deployment.revision.number == 2
    assert server.last.url.path == "/v3/agents/agt_1/deployments"
    assert server.last.headers["idempotency-key"] == server.body["idempotency_key"]
    assert server.body["activate"] is False
    assert server.body["input"] == {
        "type": "inline",
        "prompt": "Fix it.",
        "model": "anthropic/claude-sonnet-5",
        "skills": [
            {"path": "review/SKILL.md", "content": "---\nname: review\n---\nLook.", "mode": "0644"},
            {"path": "review/run.sh", "content": "true", "mode": "0755"},
        ],
    }


async def test_a_folder_s_agent_is_made_when_there_is_none(tmp_path: Path) -> None:
    server = Answers(
        httpx.Response(200, json={"data": [], "next_cursor": None}),
        httpx.Response(201, json=AGENT),
        httpx.Response(201, json=DEPLOYMENT),
    )
    async with server.connection() as connection:
        assert (await Agents(connection).deploy(project(tmp_path))).id == "dep_1"
    assert [request.method for request in server.requests] == ["GET", "POST", "POST"]


async def test_a_folder_may_name_its_agent(tmp_path: Path) -> None:
    manifest = 'name = "fixer"\nmodel = "anthropic/x"\n[agent]\nid = "agt_9"\n[limits]\nturns = 4\n'
    server = Answers(httpx.Response(201, json=DEPLOYMENT))
    async with server.connection() as connection:
        await Agents(connection).deploy(project(tmp_path, manifest))
    assert server.last.url.path == "/v3/agents/agt_9/deployments"
    assert read_reference(tmp_path) == "agt_9"
    assert read_project(tmp_path).limits == {"turns": 4}


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ("name = ", "no TOML"),
        ('name = "a"', "needs a model"),
        ('model = "a/b"', "needs a name"),
        ('name = "a"\nmodel = "a/b"\nlimits = 3', r"\[limits\].*table"),
        ('name = "a"\nmodel = "a/b"\n[limits]\nturns = "3"', "whole numbers"),
    ],
)
def test_a_folder_that_is_none_says_why(tmp_path: Path, manifest: str, problem: str) -> None:
    with pytest.raises(ProjectError, match=problem):
        read_project(project(tmp_path, manifest))


def test_skills_must_be_plain_text_files(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "skills/review/.DS_Store").write_bytes(b"\xff")
    assert len(read_project(folder).skills) == 2
    (folder / "skills/review/link").symlink_to("/etc/passwd")
    with pytest.raises(ProjectError, match="no ordinary file"):
        read_project(folder)
    (folder / "skills/review/link").unlink()
    (folder / "skills/review/picture.png").write_bytes(b"\xff\xd8")
    with pytest.raises(ProjectError, match="no UTF-8"):
        read_project(folder)
    (folder / "prompt.md").unlink()
    with pytest.raises(ProjectError, match=r"no prompt\.md"):
        read_project(folder)


async def test_revisions_are_activated_without_a_body() -> None:
    server = Answers(httpx.Response(200, json={"active_revision_id": "rev_1"}))
    async with server.connection() as connection:
        assert await Agents(connection).revisions.activate("agt_1", 1) == "rev_1"
    assert (server.last.url.path, server.last.content) == ("/v3/agents/agt_1/revisions/1/activate", b"")


async def test_skills_go_up_as_a_zip_archive() -> None:
    answer = {"deploy_id": "dep_1", "state": "ready", "result": "created", "revision": None}
    server = Answers(httpx.Response(200, json=answer))
    async with server.connection() as connection:
        deployed = await Agents(connection).skills.put("agt_1", b"PK")
    assert (deployed.state, server.last.content) == ("ready", b"PK")
    assert server.last.headers["content-type"] == "application/zip"


async def test_agents_are_found_by_name() -> None:
    server = Answers(*(httpx.Response(200, json={"data": [AGENT], "next_cursor": None}) for _ in range(2)))
    async with server.connection() as connection:
        assert (await Agents(connection).named("fixer")).id == "agt_1"
        with pytest.raises(LookupError, match="no agent named 'other'"):
            await Agents(connection).named("other")


async def test_credentials_go_in_and_only_their_end_comes_back() -> None:
    view = {"id": "cred_1", "provider": "openai", "last4": "wxyz", "is_default": True}
    server = Answers(
        httpx.Response(201, json=view),
        httpx.Response(200, json=[view]),
        httpx.Response(200, json=view),
        httpx.Response(200, json=view),
        httpx.Response(204),
    )
    async with server.connection() as connection:
        credentials = Credentials(connection)
        made = await credentials.create(key="sk-abcwxyz", provider="openai", is_default=True)
        assert server.body == {"key": "sk-abcwxyz", "provider": "openai", "is_default": True}
        assert [each.last4 for each in await credentials.list()] == ["wxyz"]
        await credentials.rotate(made.id, "sk-new")
        assert (server.last.method, server.body) == ("PATCH", {"key": "sk-new"})
        await credentials.set_default(made.id)
        assert (server.last.url.path, server.body) == ("/v3/credentials/default", {"credential": "cred_1"})
        await credentials.delete(made.id)
    assert server.last.method == "DELETE"
