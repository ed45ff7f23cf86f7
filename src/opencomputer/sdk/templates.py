"""What sandboxes are made from: `Template`, also called `Templates`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.api_client import ApiClient
from opencomputer.sdk.control_plane import Call, get
from opencomputer.sdk.paths import path_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject

_BUILD_SECONDS = 300.0


@dataclass(frozen=True)
class TemplateInfo:
    """A template. `status` is "ready" when sandboxes can be made from it."""

    template_id: str
    name: str
    tag: str
    status: str


class Template(ApiClient):
    """The templates that sandboxes can be made from.

    A self-hosted server makes and removes them only on its own machine, with `oc template`: it answers
    `build` and `delete` with `NotSupportedError`.
    """

    async def build(self, name: str, dockerfile: str) -> TemplateInfo:
        """Build one from the text of a Dockerfile; waits up to 300 s for it."""
        body = {"name": name, "dockerfile": dockerfile}
        return _info(
            await self._object(Call("POST", "/templates", json=body, timeout_seconds=_BUILD_SECONDS))
        )

    async def list(self) -> list[TemplateInfo]:
        """All of them."""
        return [_info(each) for each in await self._objects(get("/templates"))]

    async def get(self, name: str) -> TemplateInfo:
        """One of them. Raises `NotFoundError`."""
        return _info(await self._object(get(_path(name))))

    async def delete(self, name: str) -> None:
        """Delete one; sandboxes that were made from it stay. Raises `NotFoundError`."""
        await self._plane.send(Call("DELETE", _path(name)))


Templates = Template
"""The same, under the name that the other clients of the organisation suggest."""


def _path(name: str) -> str:
    return path_of("templates", name)


def _info(answer: JsonObject) -> TemplateInfo:
    return TemplateInfo(
        template_id=answers.required_text(answer, "templateID"),
        name=answers.required_text(answer, "name"),
        tag=answers.text(answer, "tag", "latest"),
        status=answers.text(answer, "status", "ready"),
    )
