"""Writes one module of the facade for each module of the SDK that has classes with twins."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from blocking_facade.selection import BY_HAND, SEAMS, Selection
from blocking_facade.source import Class, Function, Kind, Member, Module, Name, parameters
from blocking_facade.types import Imports, Translator, is_future, is_stream, twin_module

_SUPPORT = "opencomputer.blocking.support"
_RENAMED = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}
_REWORDED = (
    ("Ask for a new sandbox: `await` this, or `async with` it to", "Make a new sandbox; `with` it to"),
    ("Ask for a sandbox that goes on from a checkpoint: `await` this, or `async with` it.",
     "Make a sandbox that goes on from a checkpoint."),
    (", awaited or not", ", waited for or not"),
    ("to be awaited; ", ""),
    (", to be awaited", ""),
    ("An asynchronous iterable", "An iterable"),
    ("`async for`", "a loop"),
    ("`async with`", "`with`"),
    ("`await ", "`"),
    ("(`asyncio.timeout`)", "(Ctrl-C, say)"),
)  # fmt: skip


def module_text(selection: Selection, module: Module, functions: Iterable[str]) -> str:
    """The blocking module that belongs to a module of the SDK; "" where nothing does."""
    chosen = [each for each in module.classes.values() if each.where in selection.twins]
    classes = [each for each in chosen if each.where not in BY_HAND]
    imports = Imports(twin_module(module.name))
    writer = _Writer(selection, module, Translator(selection, module, imports), imports)
    bodies = [writer.class_text(each) for each in _bases_first(classes, selection)]
    bodies += [text for name in functions if (text := writer.function_text(module.functions[name]))]
    if not bodies:
        return ""
    bodies += [
        f"\n\n{name} = {target}"
        for name, target in module.aliases.items()
        if any(each.where.name == target for each in classes)
    ]
    path = module.name.replace(".", "/")
    package, _, short = module.name.rpartition(".")
    head = (
        f"# Generated from src/{path}.py by scripts/generate_blocking.py\n"
        f'"""The blocking twins of `{module.name}`; see there."""\n'
        "from __future__ import annotations\n"
        f"from {package} import {short} as sdk\n"
    )
    return "\n".join([head, *imports.lines(), *bodies]) + "\n"


def _bases_first(classes: list[Class], selection: Selection) -> Iterator[Class]:
    done: set[Name] = set()
    mine = {each.where: each for each in classes}

    def emit(owner: Class) -> Iterator[Class]:
        if owner.where in done:
            return
        done.add(owner.where)
        for base in selection.bases(owner):
            if base in mine:
                yield from emit(mine[base])
        yield owner

    for each in classes:
        yield from emit(each)


@dataclass(frozen=True)
class _Writer:
    selection: Selection
    module: Module
    translator: Translator
    imports: Imports

    def class_text(self, owner: Class) -> str:
        name = owner.where.name
        members = [self._member(owner, member) for member in self.selection.offered(owner)]
        if self.selection.is_public_constructor(owner):
            members.insert(0, self._constructor(owner))
        self.imports.now.add(Name("typing", "cast"))
        inner = f'@property\ndef _original(self) -> sdk.{name}:\n    return cast("sdk.{name}", self._wrapped)'
        body = "\n\n".join([_doc(owner.doc), *(member for member in members if member), inner])
        return f"\n\nclass {name}({', '.join(self._bases(owner))}):\n{_indented(body)}\n"

    def function_text(self, function: Member) -> str:
        assert function.node is not None
        if not (function.is_async or self.translator.has_twin(function.returns)):
            return ""
        call = f"sdk.{function.name}({self._arguments(function.node)})"
        if function.is_async:
            call = f"{self._support('loop', 'run')}({call})"
        return "\n\n" + self._function(function, function.name, "", self._returned(function, call, None))

    def _bases(self, owner: Class) -> list[str]:
        bases: list[str] = []
        for base in self.selection.bases(owner):
            if base in self.selection.twins:
                self.imports.now.add(Name(twin_module(base.module), base.name))
                bases.append(base.name)
        if bases:
            return bases
        named = {ast.unparse(base) for base in owner.node.bases}
        return [self._support("twin", "MappingTwin" if named & {"Described"} else "Twin")]

    def _constructor(self, owner: Class) -> str:
        found = self.selection.constructor(owner)
        assert found is not None
        node = found[1].node
        assert node is not None
        made = f"sdk.{owner.where.name}({self._arguments(node)})"
        # The constructor of a base that is a twin as well makes an object of its own.
        base = self._bases(owner)[0]
        call = f"super().__init__({made})"
        if base != "Twin":
            call = f"{self._support('twin', 'Twin')}.__init__(self, {made})"
        return f"def __init__({self._parameters(node, 'self')}) -> None:\n    {call}"

    def _member(self, owner: Class, member: Member) -> str:
        match member.kind:
            case Kind.ALIAS:
                return f"{member.name} = {member.target}\n{_doc(member.doc)}"
            case Kind.PROPERTY | Kind.CACHED_PROPERTY:
                return self._property(owner, member)
            case Kind.STATIC_METHOD | Kind.CLASS_METHOD:
                return self._unbound(owner, member)
            case Kind.METHOD:
                return self._method(owner, member)

    def _property(self, owner: Class, member: Member) -> str:
        is_part = member.node is None and self.translator.has_twin(member.returns)
        cached = is_part or member.kind is Kind.CACHED_PROPERTY
        if cached:
            self.imports.now.add(Name("functools", "cached_property"))
        head = f"@{'cached_property' if cached else 'property'}\n"
        head += f"def {member.name}(self) -> {self.translator.text(member.returns)}:\n"
        return head + _indented("\n".join(filter(None, [_doc(member.doc), *self._read(owner, member)])))

    def _read(self, owner: Class, member: Member) -> list[str]:
        warning = _warning(member)
        if warning is not None:
            self.imports.now.add(Name("warnings"))
            return warning
        value = f"self._original.{member.name}"
        if is_future(member.returns):
            return [f"return self._begin(lambda: {value})"]
        return [f"return {self._returned(member, value, owner)}"]

    def _unbound(self, owner: Class, member: Member) -> str:
        assert member.node is not None
        static = member.kind is Kind.STATIC_METHOD
        call = f"sdk.{owner.where.name}.{member.name}({self._arguments(member.node)})"
        result = f"{self._support('loop', 'run')}({call})" if self._is_awaited(member) else call
        twin = self.translator.twin_of(member.returns) if member.returns else None
        if not static and twin == owner.where:
            returned = f"{self._support('twin', 'view')}(cls, {result})"
        else:
            returned = self._returned(member, result, owner)
        decorator = "@staticmethod\n" if static else "@classmethod\n"
        return decorator + self._function(member, member.name, "" if static else "cls", returned)

    def _method(self, owner: Class, member: Member) -> str:
        assert member.node is not None
        name = _RENAMED.get(member.name, member.name)
        if member.name == "__aiter__":
            return self._function(member, name, "self", self._stream("aiter(self._original)"))
        call = f"self._original.{member.name}({self._arguments(member.node)})"
        if is_stream(member.returns):
            return self._function(member, name, "self", self._stream(call))
        ran = f"self._run({call})" if self._is_awaited(member) else f"self._run_there(lambda: {call})"
        return self._function(member, name, "self", self._returned(member, ran, owner))

    def _stream(self, items: str) -> str:
        return f"{self._support('stream', 'Stream')}({items})"

    def _is_awaited(self, member: Member) -> bool:
        if member.is_async:
            return True
        mentioned = self.selection.tree.mentioned(self.module, member.returns)
        return any(self.selection.awaited_result(each) for each in mentioned)

    def _function(self, member: Member, name: str, first: str, returned: str) -> str:
        assert member.node is not None
        result = self.translator.text(member.returns)
        statement = returned if result == "None" else f"return {returned}"
        body = "\n".join(filter(None, [_doc(member.doc), statement]))
        return f"def {name}({self._parameters(member.node, first)}) -> {result}:\n{_indented(body)}"

    def _returned(self, member: Member, value: str, owner: Class | None) -> str:
        """The expression for users, of one that the asynchronous object gave."""
        annotation = member.returns
        if member.kind is Kind.METHOD and isinstance(annotation, ast.Name) and annotation.id == "Self":
            return f"self._self_or(type(self), {value})"
        if annotation is None or not self.translator.has_twin(annotation):
            return value
        match annotation:
            case ast.Subscript(value=ast.Name(id="Page")):
                return f"{self._support('page', 'Page')}({value})"
            case ast.Subscript(value=listed, slice=item) if ast.unparse(listed) in ("list", "builtins.list"):
                return f"{self._support('twin', 'views')}({self._twin(item)}, {value})"
            case ast.BinOp(left=left, right=ast.Constant(value=None)):
                return f"{self._support('twin', 'view_if_any')}({self._twin(left)}, {value})"
            case _:
                pass
        own = owner is not None and self.translator.twin_of(annotation) == owner.where
        if own and member.kind is Kind.METHOD:
            return f"self._self_or({self._twin(annotation)}, {value})"
        return f"{self._support('twin', 'view')}({self._twin(annotation)}, {value})"

    def _twin(self, annotation: ast.expr) -> str:
        where = self.translator.twin_of(annotation)
        if where is None:
            raise ValueError(f"{self.module.name}: cannot make a blocking {ast.unparse(annotation)}")
        if where.module != self.module.name:
            self.imports.now.add(Name(twin_module(where.module), where.name))
        return where.name

    def _parameters(self, node: Function, first: str) -> str:
        arguments = node.args
        defaults = [self.translator.default(each) for each in arguments.defaults]
        named = [self._arg(each) for each in arguments.args if each.arg not in ("self", "cls")]
        if first:
            named.insert(0, ast.arg(first))
        keyword = [
            (self._arg(each), default)
            for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if each.arg not in SEAMS
        ]
        return ast.unparse(
            ast.arguments(
                posonlyargs=[],
                args=named,
                vararg=self._arg(arguments.vararg) if arguments.vararg else None,
                kwonlyargs=[each for each, _ in keyword],
                kw_defaults=[default and self.translator.default(default) for _, default in keyword],
                kwarg=self._arg(arguments.kwarg) if arguments.kwarg else None,
                defaults=defaults,
            )
        )

    def _arg(self, argument: ast.arg) -> ast.arg:
        text = self.translator.text(argument.annotation)
        return ast.arg(argument.arg, ast.parse(text, mode="eval").body)

    def _arguments(self, node: Function) -> str:
        keyword = {each.arg for each in node.args.kwonlyargs}
        passed: list[str] = []
        for each in parameters(node):
            if each.arg not in SEAMS:
                value = self._passed(each)
                passed.append(f"{each.arg}={value}" if each.arg in keyword else value)
        passed += [f"*{node.args.vararg.arg}"] if node.args.vararg else []
        return ", ".join([*passed, *([f"**{node.args.kwarg.arg}"] if node.args.kwarg else [])])

    def _passed(self, argument: ast.arg) -> str:
        if self.translator.is_callback(argument.annotation):
            return f"{self._support('threads', 'off_loop')}({argument.arg})"
        text = ast.unparse(argument.annotation) if argument.annotation else ""
        if "AsyncIterable" in text:
            feeder = "whole_or_fed" if "|" in text else "fed_from"
            return f"{self._support('threads', feeder)}({argument.arg})"
        return argument.arg

    def _support(self, module: str, name: str) -> str:
        self.imports.now.add(Name(f"{_SUPPORT}.{module}", name))
        return name


def _warning(member: Member) -> list[str] | None:
    """The body of a property that warns and then reads another one, which does for the twin as well."""
    body = member.node.body if member.node is not None else []
    texts = [ast.unparse(each) for each in (body[1:] if member.doc else body)]
    return texts if texts and texts[0].startswith("warnings.warn(") else None


def _doc(text: str) -> str:
    for before, after in _REWORDED:
        text = text.replace(before, after)
    if not text:
        return ""
    return f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ")
