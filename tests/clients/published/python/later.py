"""Methods of the published SDK whose parts this server does not have yet say so: HTTP 501, nothing else."""

import httpx
from checks import covers, main, raises

from opencomputer import Template


async def refused(call):
    """The method ends in the error of an answer with status 501."""
    error = await raises(httpx.HTTPStatusError, call)
    assert error.response.status_code == 501, error.response.status_code


@covers("A35")
async def templates_can_be_listed_and_looked_up(sandbox):
    templates = Template._from_client(sandbox._client)
    listed = await templates.list()
    assert "base" in [each.name for each in listed]
    found = await templates.get("base")
    assert (found.template_id, found.name, found.status) == ("base", "base", "ready")


@covers("A35")
async def an_unknown_template_is_not_found(sandbox):
    looked_up = Template._from_client(sandbox._client).get("no-such-template")
    error = await raises(httpx.HTTPStatusError, looked_up)
    assert error.response.status_code == 404


@covers("A35")
async def templates_are_not_built_through_the_api(sandbox):
    templates = Template._from_client(sandbox._client)
    await refused(templates.build("mine", "FROM debian"))
    await refused(templates.delete("base"))


@covers("A32")
async def mounts_are_refused(sandbox):
    await refused(sandbox.mounts.add_command("/mnt", "true"))
    await refused(sandbox.mounts.list())
    await refused(sandbox.mounts.remove("/mnt"))


main()
