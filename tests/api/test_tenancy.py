"""Another organisation's sandbox is a sandbox that does not exist, on every route."""

from __future__ import annotations

import pytest
from websockets.exceptions import InvalidStatus

from tests.api.routes import OF_ONE_SANDBOX, SOCKETS, body_of, filled
from tests.support.node import Api

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def session(api: Api, sandbox: str) -> str:
    """A session that runs in the sandbox, so that its id is a real one."""
    return await api.start(sandbox, "exec sleep 600")


@pytest.mark.parametrize(("method", "path"), OF_ONE_SANDBOX)
async def test_a_foreign_sandbox_is_not_there(
    api: Api, other: Api, sandbox: str, session: str, method: str, path: str
) -> None:
    """Not one letter of the answer tells that it exists."""
    foreign = await other.request(method, filled(path, sandbox, session), **body_of(path))
    unknown = await other.request(method, filled(path, "sb-00000000", session), **body_of(path))
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json() == unknown.json()
    assert {*foreign.headers} == {*unknown.headers}
    assert (await api.get(f"/sandboxes/{sandbox}")).json()["status"] == "running"


@pytest.mark.parametrize("path", SOCKETS)
async def test_a_foreign_socket_is_not_there(
    api: Api, other: Api, sandbox: str, session: str, path: str
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with other.socket(filled(path, sandbox, session)):
            pass
    assert refused.value.response.status_code == 404


async def test_the_session_of_another_sandbox_is_not_found(api: Api, session: str) -> None:
    second = (await api.create())["sandboxID"]
    for method, path in OF_ONE_SANDBOX:
        if "{sid}" in path:
            answer = await api.request(method, filled(path, second, session), **body_of(path))
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path


async def test_lists_hold_ones_own_only(api: Api, other: Api, sandbox: str) -> None:
    mine = {each["sandboxID"] for each in (await api.get("/sandboxes?status=all")).json()}
    theirs = {each["sandboxID"] for each in (await other.get("/sandboxes?status=all")).json()}
    assert sandbox in mine
    assert mine.isdisjoint(theirs)
    answer = await other.get(f"/sandboxes?cursor={sandbox}")
    assert answer.status_code in (400, 404)


async def test_nothing_was_done_to_it(api: Api, sandbox: str, session: str) -> None:
    listed = (await api.get(f"/sandboxes/{sandbox}/exec")).json()
    assert [(each["sessionID"], each["running"]) for each in listed] == [(session, True)]


NO_IDS = ["x", "SB-00000000", "sb-", "sb-0000000g", "%00", "..", "sb-00000000%2Fexec", "ü", "a" * 3000]


@pytest.mark.parametrize("sandbox_id", NO_IDS)
async def test_an_id_that_cannot_be_one_is_not_found(api: Api, sandbox_id: str) -> None:
    answer = await api.get(f"/sandboxes/{sandbox_id}")
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"
