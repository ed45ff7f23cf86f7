# Generated from src/opencomputer/sdk/templates.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.templates`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.api_client import ApiClient
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk import templates as sdk

if TYPE_CHECKING:
    from opencomputer.sdk.templates import TemplateInfo


class Template(ApiClient):
    """The templates that sandboxes can be made from.

    A self-hosted server makes and removes them only on its own machine, with `oc template`: it answers
    `build` and `delete` with `NotSupportedError`.
    """

    def __init__(self, api_key: str | None = None, api_url: str | None = None) -> None:
        Twin.__init__(self, sdk.Template(api_key, api_url))

    def build(self, name: str, dockerfile: str) -> TemplateInfo:
        """Build one from the text of a Dockerfile; waits up to 300 s for it."""
        return self._run(self._original.build(name, dockerfile))

    def list(self) -> list[TemplateInfo]:
        """All of them."""
        return self._run(self._original.list())

    def get(self, name: str) -> TemplateInfo:
        """One of them. Raises `NotFoundError`."""
        return self._run(self._original.get(name))

    def delete(self, name: str) -> None:
        """Delete one; sandboxes that were made from it stay. Raises `NotFoundError`."""
        self._run(self._original.delete(name))

    @property
    def _original(self) -> sdk.Template:
        return cast("sdk.Template", self._wrapped)


Templates = Template
