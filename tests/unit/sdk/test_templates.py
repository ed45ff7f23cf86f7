"""`Template`: what is asked, and what becomes of the answers."""

from __future__ import annotations

import pytest

from opencomputer import NotFoundError, Template, TemplateInfo, Templates
from tests.support.fake_node import FakeNode, Rule
from tests.unit.sdk.exchanges import Asked, Exchange, check, check_unsupported

pytestmark = pytest.mark.anyio

_INFO = TemplateInfo("tpl-1", "mine", "latest", "ready")
EXCHANGES = (
    Exchange[Template](
        "build",
        lambda templates: templates.build("mine", "FROM debian"),
        Asked("POST", "/templates", {"name": "mine", "dockerfile": "FROM debian"}),
        {"templateID": "tpl-1", "name": "mine", "tag": "v2", "status": "building"},
        TemplateInfo("tpl-1", "mine", "v2", "building"),
        201,
    ),
    Exchange[Template](
        "list",
        lambda templates: templates.list(),
        Asked("GET", "/templates"),
        [{"templateID": "tpl-1", "name": "mine"}],
        [_INFO],
    ),
    Exchange[Template](
        "get",
        lambda templates: templates.get("my one"),
        Asked("GET", "/templates/my one"),
        {"templateID": "tpl-1", "name": "mine"},
        _INFO,
    ),
    Exchange[Template](
        "delete",
        lambda templates: templates.delete("mine"),
        Asked("DELETE", "/templates/mine"),
        None,
        None,
        204,
    ),
)


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: each.id)
async def test_templates(node: FakeNode, exchange: Exchange[Template]) -> None:
    async with Templates(node.api_key, node.url) as templates:
        await check(node, templates, exchange)
        await check_unsupported(node, templates, exchange)


async def test_deleting_a_template_that_is_not_there_is_an_error(node: FakeNode) -> None:
    node.rules.append(Rule("DELETE", "/templates/none", 404, {"error": "no such template"}))
    async with Template(node.api_key, node.url) as templates:
        with pytest.raises(NotFoundError):
            await templates.delete("none")
