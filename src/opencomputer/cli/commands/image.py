"""`oc image …`: images, built ahead."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.cli.output import Output
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.control_plane import Call, ControlPlane

_HEADERS = ("ID", "CONTENT", "CREATED", "LAST USED")
_HASH_DIGITS = 12
_VARIABLE = "image"

FILE = typer.Argument(
    ...,
    metavar="FILE",
    help="A Python file that defines `image`, or a manifest as JSON; - reads one from standard input.",
    show_default=False,
)


def build(
    context: typer.Context,
    file: str = FILE,
    name: str = typer.Option("", "--name", help="Keep it under this name, too.", show_default=False),
) -> None:
    """Build an image, so that sandboxes of it start at once. The same image is built once."""
    session = session_of(context)
    manifest = manifest_of(file)

    async def work(plane: ControlPlane) -> JsonObject:
        from opencomputer.sdk.control_plane import Call

        path, body = ("/snapshots", {"name": name}) if name else ("/images", {})
        return await follow_build(plane, Call("POST", path, json={**body, "image": manifest}), session.output)

    answer = session.run(work)
    built = str(answer.get("contentHash", ""))[:_HASH_DIGITS]
    session.output.success(answer, f"{name or 'image'} {built} {answer.get('status')}")


async def follow_build(plane: ControlPlane, call: Call, output: Output) -> JsonObject:
    """What a call that builds an image gives, while its steps are told."""
    from opencomputer.cli.progress import Steps
    from opencomputer.sdk import build_stream
    from opencomputer.sdk.answers import is_json_array, is_json_object

    body = call.json if is_json_object(call.json) else {}
    image = body.get("image")
    steps = image.get("steps") if is_json_object(image) else None
    total = len(steps) if is_json_array(steps) else 0
    with Steps(output, f"building {body.get('name') or 'the image'}", total) as progress:
        return await build_stream.build(plane, call, progress.line, progress.step)


def list_images(context: typer.Context) -> None:
    """List the images that are built and kept, newest first."""
    from opencomputer.sdk.answers import json_objects
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_objects(session.run(lambda plane: plane.json(get("/images"))))
    rows = [
        [
            item.get("id", ""),
            str(item.get("contentHash", ""))[:_HASH_DIGITS],
            item.get("createdAt") or "-",
            item.get("lastUsedAt") or "never",
        ]
        for item in answer
    ]
    session.output.table(answer, _HEADERS, rows, "No images.")


def manifest_of(file: str) -> JsonObject:
    """The manifest that a file has, or makes. A Python file is run: it is the user's own."""
    if file.endswith(".py"):
        return _made_by(Path(file))
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        value: object = json.loads(text)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from error
    except ValueError as error:
        raise CommandError(f"{file} is no valid JSON: {error}") from error
    from opencomputer.sdk.answers import is_json_object

    if not is_json_object(value):
        raise CommandError(f"{file} is no manifest: it must be an object")
    return value


def _made_by(path: Path) -> JsonObject:
    from opencomputer.sdk.image import Image

    if not path.is_file():
        raise CommandError(f"{path}: there is no such file")
    image: object = runpy.run_path(str(path)).get(_VARIABLE)
    if not isinstance(image, Image):
        raise CommandError(f"{path} must define `{_VARIABLE}`, an Image of the opencomputer package")
    return image.to_dict()


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Images: build, list.")
    group.command("build")(build)
    group.command("list")(list_images)
    group.command("ls", hidden=True)(list_images)
    app.add_typer(group, name="image")
