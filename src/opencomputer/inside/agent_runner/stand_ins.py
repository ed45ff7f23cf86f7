"""Imports a package without one of the packages it needs.

The Claude Agent SDK imports the MCP library for tools that are served from its own process. Here there are
none: tool servers are the engine's business. Yet that library is most of the time the import takes, more than
a second in a machine with one processor, spent before the first word of every agent session.
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _StandIn:
    """Stands for any class: it can be derived from, whatever is said in the class statement."""

    def __init_subclass__(cls, **_: object) -> None:
        pass


class _Module(ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> type[_StandIn]:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (_StandIn,), {})
        setattr(self, name, made)
        return made


class _Finder(MetaPathFinder, Loader):
    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if _belongs(fullname, self._package) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def import_without(package: str, name: str) -> ModuleType:
    """Import `name` with stand-ins for `package`, or properly if it does not come to terms with them.

    Whoever imports `package` afterwards gets the real one. Raises ImportError.
    """
    if package in sys.modules:
        return importlib.import_module(name)
    finder = _Finder(package)
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module(name)
    except Exception:
        _forget(name)
    finally:
        sys.meta_path.remove(finder)
        _forget(package)
    return importlib.import_module(name)


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if _belongs(name, package)]:
        del sys.modules[name]


def _belongs(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")
