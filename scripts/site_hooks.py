"""What the documentation site has besides the pages in docs/, for MkDocs: references that are made from the
code, and the documents of the repository's root."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from site_reference import cli, errors, events, http, python, settings

REPOSITORY = Path(__file__).parent.parent
GENERATED = {
    "reference/cli.md": cli.page,
    "reference/http-sandboxes.md": http.sandbox_api,
    "reference/http-sessions.md": http.sessions_api,
    "reference/python.md": python.page,
    "reference/events.md": events.page,
    "reference/errors.md": errors.page,
}
ROOT_DOCUMENTS = {
    "SECURITY.md": "concepts/security.md",
    "ARCHITECTURE.md": "contributing/architecture.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "CHANGELOG.md": "contributing/changelog.md",
}
"""Documents in the repository's root, and the page each becomes."""
FOLDERS = {"docs/guides": "docs/quickstart.md", "docs/adr": "docs/adr/0001-one-package.md"}
"""The page that is shown where a document leads to a folder."""
SETTINGS = "guides/settings.md"
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"^( *```\w+)[ ]+\S.*$", re.MULTILINE)
_CELL_CODE = re.compile(r"(?<=<code>)[^<]{17,}(?=</code>(?:(?!</?td).)*</td>)", re.DOTALL)
_CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


SECTIONS = {"guides": ("Guides", "Clients"), "concepts": ("Concepts",), "operating": ("Operating",)}
"""Folders whose pages are listed at the end of a section, where mkdocs.yml does not say otherwise."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A page that is in no section yet is shown all the same."""
    nav = cast(list[dict[str, list[Any]]], config["nav"])
    listed = set(_paths(nav))
    for folder, section in SECTIONS.items():
        pages: list[Any] = nav
        for title in section:
            pages = next(each[title] for each in pages if title in each)
        found = sorted((Path(config.docs_dir) / folder).rglob("*.md"))
        paths = (each.relative_to(config.docs_dir).as_posix() for each in found)
        pages.extend(path for path in paths if path not in listed)
    decisions = sorted((Path(config.docs_dir) / "adr").glob("*.md"))
    nav[-1]["Contributing"].append({"Decisions": [f"adr/{each.name}" for each in decisions]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is not in docs/."""
    for path, make in GENERATED.items():
        files.append(File.generated(config, path, content=make()))
    for source, path in ROOT_DOCUMENTS.items():
        files.append(File.generated(config, path, content=(REPOSITORY / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of the repository become links of the site."""
    source = {path: name for name, path in ROOT_DOCUMENTS.items()}.get(page.file.src_uri)
    origin = PurePosixPath(source or f"docs/{page.file.src_uri}")
    if page.file.src_uri in GENERATED:
        # Who searches finds first what explains a thing, and then its fields.
        page.meta["search"] = {"boost": 0.2}
    if page.file.src_uri == SETTINGS:
        markdown = settings.completed(markdown)
    parts = _CODE.split(markdown)
    # What is between the fences is not looked at; what stands behind their opening is for the tests.
    parts[::2] = [_relinked(part, origin, page, files, config) for part in parts[::2]]
    return _FENCE.sub(r"\1", "".join(parts))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Long names in tables may be broken where their words end, and nowhere else."""
    return _CELL_CODE.sub(lambda code: re.sub(r"([_/])(?=\w)", r"\1<wbr>", code[0]), html)


def _paths(nav: Any) -> Iterator[str]:
    match nav:
        case str():
            yield nav
        case list():
            for each in cast(list[Any], nav):
                yield from _paths(each)
        case dict():
            yield from _paths([*cast(dict[str, Any], nav).values()])
        case _:
            pass


def _relinked(text: str, origin: PurePosixPath, page: Page, files: Files, config: MkDocsConfig) -> str:
    def replaced(link: re.Match[str]) -> str:
        target = link[2]
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        path = posixpath.normpath(posixpath.join(str(origin.parent), target))
        path = FOLDERS.get(path, path)
        found = _page_of(path, files, config)
        return f"{link[1]}{_relative(page, found)}{link[3]}" if found else link[0]

    return _LINK.sub(replaced, text)


def _page_of(path: str, files: Files, config: MkDocsConfig) -> str | None:
    """Where in the site a file of the repository is; one that is not in docs/ is put there. None: nowhere."""
    if path in ROOT_DOCUMENTS:
        return ROOT_DOCUMENTS[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if not (REPOSITORY / path).is_file():
        return None
    kept = f"repository/{path}"
    if files.get_file_from_path(kept) is None:
        files.append(File.generated(config, kept, content=(REPOSITORY / path).read_bytes()))
    return kept


def _relative(page: Page, target: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")
