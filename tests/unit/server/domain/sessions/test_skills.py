"""Skills: what they may be, and that archives cannot do harm."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping

import pytest

from opencomputer.server.domain.sessions.errors import InvalidSkills
from opencomputer.server.domain.sessions.skill_archives import unpack
from opencomputer.server.domain.sessions.skills import MAX_BYTES, SkillBundle, SkillText, bundle_of, mode_of
from tests.support.archives import GOOD, with_declared_size, zipped

SKILL = "a/SKILL.md"


def bundle(files: Mapping[str, str]) -> SkillBundle:
    made = bundle_of([SkillText(path, content) for path, content in files.items()])
    assert made is not None
    return made


def refused(archive: bytes) -> str:
    with pytest.raises(InvalidSkills) as error:
        unpack(archive)
    assert error.value.details["field"] == "skills"
    return error.value.message


def test_an_archive_becomes_skills() -> None:
    modes = {"greet/words/hello.txt": stat.S_IFREG | 0o701}
    made = unpack(zipped({**GOOD, "greet/": ""}, modes={**modes, "greet/": stat.S_IFDIR | 0o755}))
    assert [(each.path, each.mode) for each in made.files] == [
        ("bare/SKILL.md", 0o644),
        ("greet/SKILL.md", 0o644),
        ("greet/words/hello.txt", 0o755),
    ]
    bare, greet = made.skills
    assert (bare.name, bare.description) == ("bare", None)
    assert (greet.name, greet.description) == ("greeting", "How to greet.")
    assert made.files[2].content == "hello\n"


def test_one_wrapper_is_stripped_and_what_macs_add_is_ignored() -> None:
    wrapped = {f"skills/{path}": content for path, content in GOOD.items()}
    extra: dict[str, str | bytes] = {"__MACOSX/skills/._a": b"\xff\xfe", "skills/.DS_Store": b"\0\xff"}
    assert unpack(zipped({**wrapped, **extra})).digest == unpack(zipped(GOOD)).digest
    itself = bundle({"skills/SKILL.md": "x", "skills/a.md": "y"})
    assert [each.name for each in itself.skills] == ["skills"]


def test_the_digest_is_of_content_and_modes_in_whatever_order() -> None:
    files = [SkillText(path, content) for path, content in GOOD.items()]
    one, two = bundle_of(files), bundle_of(files[::-1])
    assert one == two
    run = bundle_of([*files[:-1], SkillText(files[-1].path, files[-1].content, executable=True)])
    assert one is not None
    assert run is not None
    assert one.digest != run.digest
    assert bundle_of([]) is None


@pytest.mark.parametrize(
    "path",
    [
        "/a/SKILL.md",
        "../a/SKILL.md",
        "a/../../etc/passwd",
        "a/./b",
        "a//b",
        "a\\b",
        "a/b\x01",
        "",
        "a/" + "x" * 256,
        "/".join(["a" * 200] * 6),
        "a/\ud800",
    ],
)
def test_paths_that_could_mean_something_else_are_refused(path: str) -> None:
    with pytest.raises(InvalidSkills):
        bundle_of([SkillText(SKILL, "x"), SkillText(path, "x")])
    if path and path.isprintable():
        assert refused(zipped({SKILL: "x", path: "x"}))


@pytest.mark.parametrize(
    "files",
    [
        {"SKILL.md": "x"},
        {SKILL: "x", "loose.txt": "x"},
        {"a/other.md": "x"},
        {"a/skill.md": "x"},
        {SKILL: "x\0"},
        {SKILL: "\ud800"},
        {SKILL: "x", "a/b": "x", "a/b/c": "x"},
        {SKILL: "---\nname: x\n"},
        {SKILL: "---\nname: [\n---\n"},
        {SKILL: "---\njust text\n---\n"},
        {SKILL: "---\nname: 5\n---\n"},
        {SKILL: "---\ndescription: {a: b}\n---\n"},
        {SKILL: f"---\nname: {'x' * 129}\n---\n"},
        {SKILL: f"---\nname: x\nother: {'x' * 20000}\n---\n"},
        {SKILL: "---\n" + "[" * 5000 + "\n---\n"},
        {SKILL: "---\ndate: 2020-99-99\n---\n"},
        {SKILL: "---\n!!python/object/apply:os.system ['true']\n---\n"},
    ],
)
def test_what_is_no_skill_is_refused(files: dict[str, str]) -> None:
    with pytest.raises(InvalidSkills):
        bundle(files)


def test_front_matter_is_real_yaml() -> None:
    made = bundle({SKILL: '\ufeff---\r\nname: "a: b"\r\ndescription: >\r\n  two\r\n  lines\r\n---\r\nx'})
    (skill,) = made.skills
    assert (skill.name, skill.description) == ("a: b", "two lines")
    bomb = "---\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20))
    bomb = bomb.replace("[*a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0]", "[x]")
    assert bundle({SKILL: bomb + "name: small\n---\n"}).skills[0].name == "small"


def test_there_is_room_for_64_files_and_256_kib() -> None:
    def many(count: int) -> dict[str, str]:
        return {SKILL: "x", **{f"a/{number}": "" for number in range(count - 1)}}

    assert len(unpack(zipped(many(64))).files) == 64
    assert "64" in refused(zipped(many(65)))
    with pytest.raises(InvalidSkills):
        bundle(many(65))
    full = {SKILL: "x" * (MAX_BYTES - 4), "a/b": "1234"}
    assert len(unpack(zipped(full)).files) == 2
    assert str(MAX_BYTES) in refused(zipped({**full, "a/b": "12345"}))
    with pytest.raises(InvalidSkills):
        bundle({**full, "a/b": "12345"})


def test_a_bomb_is_refused_before_and_while_it_grows() -> None:
    bomb = zipped({SKILL: "x", "a/bomb": b"\0" * (8 << 20)})
    assert len(bomb) < 20_000
    assert str(MAX_BYTES) in refused(bomb)
    assert refused(with_declared_size(bomb, 10))
    many = zipped({SKILL: "x", **{f"__MACOSX/{number}": "" for number in range(1100)}})
    assert "entries" in refused(many)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_only_ordinary_files_come_out_of_archives(kind: int) -> None:
    assert "a/link" in refused(zipped({SKILL: "x", "a/link": "/etc/passwd"}, modes={"a/link": kind | 0o777}))


def test_archives_that_are_none_are_refused() -> None:
    good = zipped(GOOD)
    encrypted = bytearray(good)
    for signature, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        encrypted[encrypted.find(signature) + offset] |= 1
    for archive in (b"", b"no zip", good[:-30], good[30:], bytes(encrypted)):
        assert refused(archive)
    assert "deflate" in refused(zipped({SKILL: "x"}, method=zipfile.ZIP_LZMA))
    assert "UTF-8" in refused(zipped({SKILL: b"\xff\xfe"}))
    assert refused(zipped({}))
    for position in range(0, len(good), 7):
        broken = bytearray(good)
        broken[position] ^= 0x55
        try:
            unpack(bytes(broken))
        except InvalidSkills:
            continue


def test_modes_are_numbers_or_octal_digits() -> None:
    assert [mode_of(each, "a") for each in (None, 0o755, "755", "0755", "0o644")] == [
        0o644,
        0o755,
        0o755,
        0o755,
        0o644,
    ]
    for bad in ("9", "rwx", ""):
        with pytest.raises(InvalidSkills):
            mode_of(bad, "a")
