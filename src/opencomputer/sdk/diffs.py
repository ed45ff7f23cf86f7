"""What changed on a sandbox's disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import get, with_timeout

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.sandbox_link import SandboxLink

_DIFF_SECONDS = 120.0


@dataclass(frozen=True)
class FileChange:
    """One path that differs. `kind` is "added", "changed" or "deleted"; `size` is 0 for what is deleted."""

    path: str
    kind: str
    size: int
    is_dir: bool = False


async def diff(link: SandboxLink, since: str | None = None) -> list[FileChange]:
    """What changed since a checkpoint, or since the sandbox was created, by path in order."""
    answer = await diff_answer(link, since)
    return [
        FileChange(
            path=answers.required_text(each, "path"),
            kind=answers.text(each, "kind"),
            size=answers.whole(each, "size") or 0,
            is_dir=answers.flag(each, "isDirectory"),
        )
        for each in answers.json_objects(answer.get("changes"))
    ]


async def diff_answer(link: SandboxLink, since: str | None = None) -> JsonObject:
    """The same as the server says it."""
    call = get(link.path("diff"), {"from": since} if since else {})
    return answers.json_object(await link.plane.json(with_timeout(call, _DIFF_SECONDS)))
