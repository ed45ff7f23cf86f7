"""Which classes of the SDK have a blocking twin: all that users can reach and that wait for something."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from blocking_facade.source import Class, Kind, Member, Module, Name, Tree, parameters

MACHINERY = frozenset({"Attach", "Connection", "ControlPlane", "FrameStream", "SandboxLink"})
"""What is handed about inside the SDK. Whatever takes one of these is not for users."""
HIDDEN = frozenset({("OpenComputer", "connection")})
BY_HAND = {Name("opencomputer.sdk.durable.records", "Page"): "opencomputer.blocking.support.page"}
"""Twins that are written by hand, and where."""
SEAMS = frozenset({"sleep", "now"})
"""Parameters by which tests replace the clock."""


@dataclass(frozen=True)
class Selection:
    """The answer, and what else must be known of classes to make twins of them."""

    tree: Tree
    public: tuple[Name, ...]

    @cached_property
    def twins(self) -> frozenset[Name]:
        """The classes that get one."""
        reached = self._reached()
        chosen: set[Name] = {where for where in reached if self._waits(reached[where])}
        chosen |= {where for where in BY_HAND if where in reached}
        while more := {
            where
            for where in reached.keys() - chosen
            if any(each in chosen for each in self._leads_to(reached[where]))
        }:
            chosen |= more
        return frozenset(where for where in chosen if not self.awaited_result(where))

    def awaited_result(self, where: Name) -> Name | None:
        """What awaiting an object of this class gives, if it is one to be awaited."""
        found = self.tree.find(where)
        method = found.members.get("__await__") if found else None
        if method is None or not isinstance(method.returns, ast.Subscript):
            return None
        module = self.tree.modules[where.module]
        return list(self.tree.mentioned(module, method.returns.slice))[-1]

    def offered(self, owner: Class) -> list[Member]:
        """The members that are for users."""
        return [member for member in owner.members.values() if self._is_offered(owner, member)]

    def is_public_constructor(self, owner: Class) -> bool:
        """Users make objects of this class themselves."""
        constructor = self.constructor(owner)
        return constructor is not None and not self._takes_machinery(*constructor)

    def constructor(self, owner: Class) -> tuple[Class, Member] | None:
        """The constructor of a class, its own or the nearest that it inherits, and whose it is."""
        own = owner.members.get("__init__")
        if own is not None:
            return owner, own
        bases = (self.tree.find(base) for base in self.bases(owner))
        return next((found for base in bases if base and (found := self.constructor(base))), None)

    def bases(self, owner: Class) -> list[Name]:
        """The classes of the SDK that it inherits from."""
        module = self.tree.modules[owner.where.module]
        mentioned = [each for base in owner.node.bases for each in self.tree.mentioned(module, base)]
        return [each for each in mentioned if self.tree.find(each)]

    def _is_offered(self, owner: Class, member: Member) -> bool:
        if (owner.where.name, member.name) in HIDDEN or self._takes_machinery(owner, member):
            return False
        special = member.name in ("__aenter__", "__aexit__", "__aiter__")
        return special or not member.name.startswith("_")

    def _takes_machinery(self, owner: Class, member: Member) -> bool:
        if member.node is None or member.kind in (Kind.PROPERTY, Kind.CACHED_PROPERTY):
            return False
        module = self.tree.modules[owner.where.module]
        named = [each for one in parameters(member.node) for each in self._named(module, one.annotation)]
        return any(name in MACHINERY for name in named)

    def _named(self, module: Module, annotation: ast.expr | None) -> Iterator[str]:
        return (each.name for each in self.tree.mentioned(module, annotation))

    def _reached(self) -> dict[Name, Class]:
        reached: dict[Name, Class] = {}
        waiting = list(self.public)
        while waiting:
            where = waiting.pop()
            found = self.tree.find(where)
            if found is None or where in reached or where.name in MACHINERY:
                continue
            reached[where] = found
            waiting += self._leads_to(found)
        return reached

    def _leads_to(self, owner: Class) -> list[Name]:
        module = self.tree.modules[owner.where.module]
        return [
            *self.bases(owner),
            *(
                each
                for member in self.offered(owner)
                for each in self.tree.mentioned(module, member.returns)
                if self.tree.find(each)
            ),
        ]

    def _waits(self, owner: Class) -> bool:
        return any(member.is_async for member in self.offered(owner))
