from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.image import (
    AddDirectory,
    AddFile,
    ImageFile,
    command_steps_end,
    parse_manifest,
)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def step(kind: str, **args: Any) -> dict[str, Any]:
    return {"type": kind, "args": args}


def manifest(*steps: object, **fields: Any) -> dict[str, Any]:
    return {"base": "base", "steps": list(steps), **fields}


APT = step("apt_install", packages=["curl", "jq"])
ENV = step("env", vars={"B": "2", "A": "1"})
WORKDIR = step("workdir", path="/workspace")
ECHO = step("run", commands=["echo é && true"])

VECTORS = {
    "485f603ddf675cfc9b285fed0d9d5e85c4c09c66e8cb4fc0cc0720acc08874ef": manifest(),
    "2078a550b61c325860c9b3f15a7b40907af4bda7a5412c19ef2b83941f1264e7": manifest(APT, ENV, WORKDIR),
    "3d1f5de5ef0d7388faf67a7f07fb8bb75a26fbc24862e14b2394d5c2db041cdb": manifest(ECHO),
}


@pytest.mark.parametrize("key", VECTORS)
def test_the_content_hash_is_the_contracts(key: str) -> None:
    assert parse_manifest(VECTORS[key]).content_hash == key


def test_the_content_hash_is_that_of_the_canonical_json() -> None:
    """Also where a step has fields that nobody knows, and files."""
    file = step(
        "add_file", path="/a", content=encoded(b"\0\xff"), encoding="base64", note={"z": 1, "a": [1.5]}
    )
    value = manifest(file, ECHO)
    text = json.dumps({"base": value["base"], "steps": value["steps"]}, sort_keys=True, separators=(",", ":"))
    assert parse_manifest(value).content_hash == hashlib.sha256(text.encode()).hexdigest()


def test_sizes_and_names_do_not_change_the_content_hash() -> None:
    plain = parse_manifest(manifest(APT))
    other = parse_manifest(manifest(APT, builderMemoryMB=8192, runtimeMemoryMB=4096, name="x", whatever=1))
    assert other.content_hash == plain.content_hash
    assert (other.builder_memory_mb, other.runtime_memory_mb, other.name) == (8192, 4096, "x")
    assert (plain.builder_memory_mb, plain.runtime_memory_mb, plain.name) == (4096, 1024, None)


@pytest.mark.parametrize("base", ["", "base", "default", "ubuntu", None])
def test_all_names_of_the_base_are_one(base: str | None) -> None:
    assert parse_manifest({"base": base, "steps": []}).content_hash == parse_manifest(manifest()).content_hash


def test_order_and_content_change_the_content_hash() -> None:
    files = [step("add_file", path="/a", content=encoded(content)) for content in (b"1", b"2")]
    different = [manifest(APT, ENV), manifest(ENV, APT), *(manifest(each) for each in files)]
    assert len({parse_manifest(each).content_hash for each in different}) == 4


def test_a_prefix_has_the_same_key_whatever_comes_after_it() -> None:
    long, short = parse_manifest(manifest(APT, ENV, ECHO)), parse_manifest(manifest(APT, ENV, WORKDIR))
    assert long.prefix_keys("h")[:3] == short.prefix_keys("h")[:3]
    assert long.prefix_keys("h")[3] != short.prefix_keys("h")[3]
    assert len(set(long.prefix_keys("h"))) == 4


def test_another_template_makes_other_keys() -> None:
    definition = parse_manifest(manifest(APT))
    assert definition.key("h1") != definition.key("h2")
    assert not set(definition.prefix_keys("h1")) & set(definition.prefix_keys("h2"))
    assert definition.key("h1") != parse_manifest(manifest(APT, runtimeMemoryMB=4096)).key("h1")


def test_later_variables_and_directories_win() -> None:
    definition = parse_manifest(
        manifest(ENV, WORKDIR, step("env", vars={"A": "3"}), step("workdir", path="/x"))
    )
    assert definition.facts().environment == {"A": "3", "B": "2"}
    assert definition.facts().workdir == "/x"
    assert definition.facts(2).environment == {"A": "1", "B": "2"}
    assert definition.facts(0).workdir is None


def test_files_are_decoded_and_their_paths_are_normal() -> None:
    file = step("add_file", path="//etc/./motd", content=encoded(b"\0\xff"), mode="0755")
    folder = step(
        "add_dir",
        path="/srv/",
        files=[{"relativePath": "a//.env", "content": ""}, {"relativePath": "b", "content": "aGk="}],
    )
    assert parse_manifest(manifest(file, folder)).steps == (
        AddFile(ImageFile("/etc/motd", b"\0\xff", 0o755)),
        AddDirectory("/srv", (ImageFile("a/.env", b""), ImageFile("b", b"hi"))),
    )


def test_files_are_saved_behind_each_step_that_runs_programs() -> None:
    steps = parse_manifest(manifest(ENV, APT, WORKDIR, ECHO, ENV)).steps
    assert [command_steps_end(steps, start) for start in range(6)] == [2, 2, 4, 4, 5, 5]


def test_a_large_manifest_is_shown_without_the_content_of_files() -> None:
    small = manifest(step("add_file", path="/a", content=encoded(b"x")))
    large = manifest(step("add_file", path="/a", content=encoded(bytes(300_000))), ENV)
    assert json.loads(parse_manifest(small).shown_manifest) == small
    assert json.loads(parse_manifest(large).shown_manifest) == manifest(step("add_file", path="/a"), ENV)


FILE = {"relativePath": "a", "content": ""}
WRONG: list[tuple[object, str]] = [
    (None, "image"),
    ("base", "image"),
    ([], "image"),
    (manifest(base=5), "image.base"),
    ({"base": "base", "steps": {}}, "image.steps"),
    (manifest(*[ECHO] * 201), "image.steps"),
    (manifest("run"), "image.steps.0"),
    (manifest(APT, {"args": {}}), "image.steps.1.type"),
    (manifest(step("docker")), "image.steps.0.type"),
    (manifest({"type": "run"}), "image.steps.0.args"),
    (manifest({"type": "run", "commands": ["flat"]}), "image.steps.0.args"),
    (manifest(step("run")), "image.steps.0.args.commands"),
    (manifest(step("run", commands=[])), "image.steps.0.args.commands"),
    (manifest(step("run", commands="ls")), "image.steps.0.args.commands"),
    (manifest(step("run", commands=["ls", 5])), "image.steps.0.args.commands.1"),
    (manifest(step("run", commands=[" "])), "image.steps.0.args.commands.0"),
    (manifest(step("run", commands=["a\0b"])), "image.steps.0.args.commands.0"),
    (manifest(step("run", commands=["\ud800"])), "image.steps.0.args.commands.0"),
    (manifest(step("run", commands=["x" * 100_000])), "image.steps.0.args.commands"),
    (manifest(step("apt_install", packages=["x" * 900] * 120)), "image.steps.0.args.packages"),
    (manifest(step("apt_install", packages=["curl", "-o=x"])), "image.steps.0.args.packages.1"),
    (manifest(step("apt_install", packages=["curl\njq"])), "image.steps.0.args.packages.0"),
    (manifest(step("pip_install", packages=["--index-url=http://x"])), "image.steps.0.args.packages.0"),
    (manifest(step("env")), "image.steps.0.args.vars"),
    (manifest(step("env", vars=["A"])), "image.steps.0.args.vars"),
    (manifest(step("env", vars={"A": 1})), "image.steps.0.args.vars.A"),
    (manifest(step("env", vars={"A B": "1"})), "image.steps.0.args.vars"),
    (manifest(step("env", vars={"A": "x" * 200_000})), "image.steps.0.args.vars"),
    (manifest(*(step("env", vars={f"A{n}": "x" * 70_000}) for n in range(2))), "image.steps"),
    (manifest(step("workdir", path="app")), "image.steps.0.args.path"),
    (manifest(step("workdir", path="/a/../b")), "image.steps.0.args.path"),
    (manifest(step("workdir", path="/" + "a" * 300)), "image.steps.0.args.path"),
    (manifest(step("add_file", path="/a")), "image.steps.0.args.content"),
    (manifest(step("add_file", content="")), "image.steps.0.args.path"),
    (manifest(step("add_file", path="a", content="")), "image.steps.0.args.path"),
    (manifest(step("add_file", path="/", content="")), "image.steps.0.args.path"),
    (manifest(step("add_file", path="/a/", content="")), "image.steps.0.args.path"),
    (manifest(step("add_file", path="/a", content="?")), "image.steps.0.args.content"),
    (manifest(step("add_file", path="/a", content="", encoding="utf-8")), "image.steps.0.args.encoding"),
    (manifest(step("add_file", path="/a", content="", mode="4755")), "image.steps.0.args.mode"),
    (manifest(step("add_dir", path="/a")), "image.steps.0.args.files"),
    (manifest(step("add_dir", path="a", files=[])), "image.steps.0.args.path"),
    (manifest(step("add_dir", path="/a", files=[FILE, FILE])), "image.steps.0.args.files.1.relativePath"),
    (
        manifest(step("add_dir", path="/a", files=[{"content": ""}])),
        "image.steps.0.args.files.0.relativePath",
    ),
    (
        manifest(step("add_dir", path="/a", files=[{"relativePath": "/x", "content": ""}])),
        "image.steps.0.args.files.0.relativePath",
    ),
    (
        manifest(step("add_dir", path="/a", files=[{"relativePath": "b/../../x", "content": ""}])),
        "image.steps.0.args.files.0.relativePath",
    ),
    (
        manifest(step("add_dir", path="/a", files=[{"relativePath": ".", "content": ""}])),
        "image.steps.0.args.files.0.relativePath",
    ),
    (manifest(builderMemoryMB="8192"), "image.builderMemoryMB"),
    (manifest(builderMemoryMB=True), "image.builderMemoryMB"),
    (manifest(builderMemoryMB=512), "image.builderMemoryMB"),
    (manifest(builderMemoryMB=1 << 20), "image.builderMemoryMB"),
    (manifest(runtimeMemoryMB=2048), "image.runtimeMemoryMB"),
    (manifest(name=5), "image.name"),
]


@pytest.mark.parametrize(("value", "field"), WRONG)
def test_what_is_wrong_is_named(value: object, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_manifest(value)
    assert caught.value.details["field"] == field
    assert caught.value.message.startswith(field)


def test_files_are_limited_in_all() -> None:
    """Thirty-two megabytes, over all steps."""
    half = encoded(bytes(16 << 20))
    assert parse_manifest(manifest(*(step("add_file", path=path, content=half) for path in ("/a", "/b"))))
    more = step("add_dir", path="/c", files=[{"relativePath": "d", "content": encoded(b"1")}])
    with pytest.raises(InvalidInput, match="32 MB"):
        parse_manifest(manifest(*(step("add_file", path=path, content=half) for path in ("/a", "/b")), more))


def test_there_can_be_only_so_many_files() -> None:
    files = [{"relativePath": str(number), "content": ""} for number in range(20_001)]
    with pytest.raises(InvalidInput, match="20000 files"):
        parse_manifest(manifest(step("add_dir", path="/a", files=files)))
