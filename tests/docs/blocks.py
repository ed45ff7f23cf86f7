"""The blocks of code in the documentation, as the tests see them.

The line that opens a block says its language and, behind it, what the tests have to know:

    ```sh norun reason="installs packages"     is only checked for its syntax
    ```text output                             is what the block before it prints; `…` stands for anything
    ```text screen                             is what a terminal shows; tests/acceptance look at one
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
RUNNABLE = ("python", "sh", "ts")
SHOWN = ("", "text", "toml", "json", "yaml", "ini")
"""Languages of blocks that are only looked at."""
_OPEN = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?P<options>.*)$")
_CHANGES_THE_MACHINE = re.compile(
    r"(?:^|[;&|]|sudo)\s*(?:apt(?:-get)?|make|npm|npx|oc serve|oc service|pip|pipx|python3? -m pip"
    r"|reboot|shutdown|sudo|systemctl|uv)\s",
    re.MULTILINE,
)
_OPTIONS = {"norun", "reason", "output", "screen"}


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    options: Mapping[str, str]
    source: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def changes_the_machine(self) -> bool:
        """Whether it would install something, or touch the services of the machine that it runs on."""
        return self.language == "sh" and _CHANGES_THE_MACHINE.search(self.source) is not None

    @property
    def runs(self) -> bool:
        return self.language in RUNNABLE and "norun" not in self.options


def pages() -> list[str]:
    """Every page with code in it, by its path in the repository."""
    found = (each.relative_to(REPOSITORY).as_posix() for each in sorted((REPOSITORY / "docs").rglob("*.md")))
    return ["README.md", *(each for each in found if not each.startswith("docs/adr/"))]


def blocks(page: str) -> list[Block]:
    return parsed(page, (REPOSITORY / page).read_text())


def parsed(page: str, text: str) -> list[Block]:
    """The blocks of a text. Raises ValueError for options that nobody knows."""
    return list(_blocks(page, text))


def expected_after(blocks: list[Block], index: int) -> str | None:
    """What a block is said to print."""
    following = blocks[index + 1] if index + 1 < len(blocks) else None
    return following.source if following is not None and "output" in following.options else None


def prints(expected: str, printed: str) -> bool:
    """Whether that is what was printed; blanks at the ends of lines and of everything do not count."""
    pattern = "(?s:.*)".join(re.escape(part) for part in _tidy(expected).split("…"))
    return re.fullmatch(pattern, _tidy(printed)) is not None


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _blocks(page: str, text: str) -> Iterator[Block]:
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        if opened := _OPEN.match(line):
            indent = opened["indent"]
            body: list[str] = []
            for _, inner in lines:
                if inner == f"{indent}```":
                    break
                body.append(inner.removeprefix(indent))
            source = "".join(f"{each}\n" for each in body)
            yield Block(page, number, opened["language"], _options(opened["options"]), source)


def _options(text: str) -> Mapping[str, str]:
    words = (word.partition("=") for word in shlex.split(text))
    options = {name: value for name, _, value in words}
    if unknown := set(options) - _OPTIONS:
        raise ValueError(f"a block has options that nobody knows: {sorted(unknown)}")
    return options
