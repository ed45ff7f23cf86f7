"""Preview URLs with the published SDK: records, the token, and a program that is reached by its name."""

import os

import httpx
from checks import covers, main, raises

from opencomputer import Sandbox

SERVE = "mkdir -p site && cd site && echo hello from inside > index.html && exec python3 -m http.server 8000"


def visit(record, **headers):
    """Ask the server for what a name leads to, wherever that name would resolve to."""
    url = os.environ["OPENCOMPUTER_API_URL"]
    return httpx.get(url, headers={"Host": record["hostname"], **headers}, timeout=60)


async def serving(sandbox):
    """A program that listens on port 8000, and the record of its port."""
    await sandbox.exec.start("sh", args=["-c", SERVE])
    return await sandbox.create_preview_url(8000)


@covers("A18")
async def a_port_is_reached_by_its_name(sandbox):
    record = await serving(sandbox)
    assert record["hostname"].startswith(f"{sandbox.sandbox_id}-p8000.")
    assert (record["port"], record["sslStatus"], record["authConfig"]) == (8000, "active", {})
    assert visit(record).text == "hello from inside\n"


@covers("A18")
async def records_are_listed_and_deleted(sandbox):
    first = await sandbox.create_preview_url(3000)
    again = await sandbox.create_preview_url(3000)
    assert first == again
    assert 3000 in [each["port"] for each in await sandbox.list_preview_urls()]
    await sandbox.delete_preview_url(3000)
    await sandbox.delete_preview_url(3000)
    assert 3000 not in [each["port"] for each in await sandbox.list_preview_urls()]


@covers("A18")
async def a_domain_that_is_not_verified_is_refused(sandbox):
    error = await raises(httpx.HTTPStatusError, sandbox.create_preview_url(3000, domain="not.mine"))
    assert error.response.status_code == 400


@covers("A1", "A19")
async def a_token_opens_until_it_is_rotated():
    async with await Sandbox.create(preview_auth={"token": "auto"}) as sandbox:
        first = sandbox.preview_auth_token
        record = await serving(sandbox)
        assert visit(record).status_code == 401
        assert visit(record, Authorization=f"Bearer {first}").status_code == 200
        second = await sandbox.rotate_preview_auth_token()
        assert sandbox.preview_auth_token == second != first
        assert visit(record, Authorization=f"Bearer {first}").status_code == 401
        assert visit(record, **{"X-OC-Preview-Token": second}).status_code == 200


main()
