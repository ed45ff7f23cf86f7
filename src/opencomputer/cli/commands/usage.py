"""`oc usage`: what sandboxes have used."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.options import optional, repeated
from opencomputer.cli.session import Session, session_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk.answers import JsonObject

_MOST = 500
_SANDBOX_HEADERS = ("SANDBOX", "STATUS", "MEMORY GB-S", "DISK GB-S", "TAGS")
_POINT_HEADERS = ("TIME", "ALLOCATED GB-S", "USED GB-S", "UPTIME S", "PEAK MB")


class Sort(StrEnum):
    """What comes first."""

    MEMORY = "memory"
    DISK = "disk"


_SORTS = {Sort.MEMORY: "-memoryGbSeconds", Sort.DISK: "-diskOverageGbSeconds"}


def usage(
    context: typer.Context,
    sandbox: str = typer.Argument(
        "", metavar="[SANDBOX]", help="Only this one, minute by minute.", show_default=False
    ),
    by_tag: str = optional("--by-tag", "Counted by the values of this tag instead of by sandbox.", "KEY"),
    from_: str = optional("--from", "From this day or moment; 30 days ago, for one sandbox an hour.", "TIME"),
    to: str = optional("--to", "Until this day or moment; now.", "TIME"),
    filter: list[str] = repeated("--filter", "Only those with this tag; values with a comma", "KEY=VALUE"),
    sort: Sort = typer.Option(Sort.MEMORY, "--sort", help="What comes first."),
    limit: int = typer.Option(50, "--limit", min=1, max=_MOST, help="At most so many."),
    cursor: str = optional("--cursor", "Where an earlier list ended."),
) -> None:
    """Show what sandboxes have used: memory and disk, times the seconds they had it."""
    window = {name: value for name, value in (("from", from_), ("to", to)) if value}
    session = session_of(context)
    if sandbox:
        if by_tag or filter:
            raise CommandError("--by-tag and --filter are for all sandboxes, not for one")
        _of_one(session, sandbox, window)
        return
    params = {"groupBy": f"tag:{by_tag}" if by_tag else "sandbox", "sort": _SORTS[sort], "limit": str(limit)}
    _of_all(session, params | window | _filters(filter) | ({"cursor": cursor} if cursor else {}))


def _filters(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        key, separator, values = each.partition("=")
        if not (key and separator):
            raise CommandError(f"--filter takes KEY=VALUE, not {each!r}")
        found[f"filter[tag:{key}]"] = values
    return found


def _of_one(session: Session, sandbox: str, window: Mapping[str, str]) -> None:
    from opencomputer.sdk.answers import json_object, json_objects
    from opencomputer.sdk.control_plane import get

    answer = json_object(
        session.run_on(sandbox, lambda link: link.plane.json(get(link.path("usage"), window)))
    )
    totals = json_object(answer.get("totals"))
    rows = [
        [
            each.get("ts", ""),
            _number(each.get("memoryAllocatedGbSeconds")),
            _number(each.get("memoryUsedGbSeconds")),
            _number(each.get("uptimeSeconds")),
            _number(each.get("usedMemoryMbPeak")),
        ]
        for each in json_objects(answer.get("points"))
    ]
    total = [
        "total",
        _number(totals.get("memoryAllocatedGbSeconds")),
        _number(totals.get("memoryUsedGbSeconds")),
        _number(totals.get("uptimeSeconds")),
        _number(totals.get("memoryUsedPeakMb")),
    ]
    session.output.table(answer, _POINT_HEADERS, [*rows, total] if rows else [], "No usage.")


def _of_all(session: Session, params: Mapping[str, str]) -> None:
    from opencomputer.sdk.answers import json_object, json_objects
    from opencomputer.sdk.control_plane import get

    answer = json_object(session.run(lambda plane: plane.json(get("/usage", params))))
    items = json_objects(answer.get("items"))
    by_tag = params["groupBy"] != "sandbox"
    headers = ("VALUE", "SANDBOXES", "MEMORY GB-S", "DISK GB-S") if by_tag else _SANDBOX_HEADERS
    rows = [(_tag_row if by_tag else _sandbox_row)(item) for item in items]
    if by_tag and answer.get("untagged"):
        rows.append(["(untagged)", *_tag_row(json_object(answer.get("untagged")))[1:]])
    if rows:
        rows.append(["total", "", *_amounts(json_object(answer.get("total"))), *([] if by_tag else [""])])
    session.output.table(answer, headers, rows, "No usage.")
    if answer.get("nextCursor") and not session.output.json:
        session.output.note(f"There is more: --cursor {answer['nextCursor']}")


def _sandbox_row(item: JsonObject) -> list[object]:
    from opencomputer.sdk.answers import json_object

    tags = json_object(item.get("tags") or {})
    named = item.get("sandboxId", "")
    return [
        f"{named} ({item['alias']})" if item.get("alias") else named,
        item.get("status") or "-",
        *_amounts(item),
        ", ".join(f"{key}={tags[key]}" for key in sorted(tags)) or "-",
    ]


def _tag_row(item: JsonObject) -> list[object]:
    return [item.get("tagValue", ""), item.get("sandboxCount", 0), *_amounts(item)]


def _amounts(item: JsonObject) -> list[object]:
    return [_number(item.get("memoryGbSeconds")), _number(item.get("diskOverageGbSeconds"))]


def _number(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else text.harmless(0 if value is None else value)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("usage")(usage)
