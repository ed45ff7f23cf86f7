"""Every command of `oc`, from the tree of commands itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import typer.main

from opencomputer.cli.root import application
from site_reference.tables import code, table


def page() -> str:
    root = _root()
    parts = [
        "# Command line",
        "",
        "`oc` talks to the server that `OPENCOMPUTER_API_URL` and `OPENCOMPUTER_API_KEY`, its configuration",
        "or the node on this machine name. Results go to standard output, everything else to standard error.",
        "",
        "Options that stand before every command:",
        "",
        _options(root),
    ]
    noun = ""
    for names, command in commands(root):
        if names[0] != noun:
            noun = names[0]
            parts += [f"## oc {noun}", ""]
            if len(names) > 1:
                parts += [_text(root.commands[noun]), ""]
        parts += [_command(names, command), ""]
    return "\n".join(parts)


def commands(group: Any = None, above: Sequence[str] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command that does something, with its names, those of its groups first; hidden ones left out."""
    for name, command in sorted((group or _root()).commands.items()):
        names = (*above, name)
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from commands(command, names)
        else:
            yield names, command


def _root() -> Any:
    return typer.main.get_command(application())


def _command(names: Sequence[str], command: Any) -> str:
    words = [_argument(each) for each in command.params if each.param_type_name == "argument"]
    has_options = any(each.param_type_name == "option" for each in command.params)
    usage = " ".join(["oc", *names, *(["[OPTIONS]"] if has_options else []), *words])
    title = f"### oc {' '.join(names)}\n\n" if len(names) > 1 else ""
    return f"{title}```text\n{usage}\n```\n\n{_text(command)}\n\n{_arguments(command)}\n{_options(command)}"


def _argument(parameter: Any) -> str:
    name = cast(str, parameter.metavar or parameter.name.upper())
    if name.startswith("["):
        return name
    name = name if parameter.nargs != -1 else f"{name}..."
    return name if parameter.required else f"[{name}]"


def _arguments(command: Any) -> str:
    return table(
        ("Argument", "Meaning"),
        (
            (code(_argument(each)), _help(each))
            for each in command.params
            if each.param_type_name == "argument" and _help(each)
        ),
    )


def _options(command: Any) -> str:
    return table(
        ("Option", "Meaning", "Default"),
        (
            (", ".join(code(name) for name in _spellings(each)), _help(each), _default(each))
            for each in command.params
            if each.param_type_name == "option" and not each.hidden
        ),
    )


def _spellings(option: Any) -> Sequence[str]:
    takes = "" if option.is_flag or option.count else f" {option.metavar or option.type.name.upper()}"
    return [f"{name}{takes}" for name in (*option.opts, *option.secondary_opts)]


def _default(option: Any) -> str:
    if (
        option.show_default is False
        or option.default in (None, "", False, (), [])
        or callable(option.default)
    ):
        return ""
    return code(str(option.default))


def _help(parameter: Any) -> str:
    return cast(str, getattr(parameter, "help", None) or "")


def _text(command: Any) -> str:
    return cast(str, command.help or "").strip()
