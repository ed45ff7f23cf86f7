"""The published SDK's `files`."""

import hashlib

import httpx
from checks import covers, main, raises


@covers("A29", "A30")
async def text_comes_back_as_it_was_written(sandbox):
    text = "first\n\n☕ ünïcode\r\nlast without end"
    await sandbox.files.write("/tmp/text", text)
    assert await sandbox.files.read("/tmp/text") == text


@covers("A29", "A30")
async def bytes_come_back_as_they_were_written(sandbox):
    content = bytes(range(256)) * 4096
    await sandbox.files.write("/tmp/bytes", content)
    assert await sandbox.files.read_bytes("/tmp/bytes") == content


@covers("A29", "A30")
async def an_empty_file_is_a_file(sandbox):
    await sandbox.files.write("/tmp/empty", "")
    assert await sandbox.files.read("/tmp/empty") == ""
    assert await sandbox.files.exists("/tmp/empty")


@covers("A30")
async def a_stream_of_unknown_length_is_written_whole(sandbox):
    digest = hashlib.sha256()

    async def pieces():
        for number in range(200):
            piece = f"{number:08}".encode() * 8192
            digest.update(piece)
            yield piece

    await sandbox.files.write("/tmp/streamed", pieces())
    result = await sandbox.exec.run("sha256sum < /tmp/streamed")
    assert result.stdout.split()[0] == digest.hexdigest()


@covers("A30")
async def writing_replaces_and_makes_missing_folders(sandbox):
    await sandbox.files.write("/tmp/new/folder/file", "a long first version")
    await sandbox.files.write("/tmp/new/folder/file", "short")
    assert await sandbox.files.read("/tmp/new/folder/file") == "short"
    owner = await sandbox.exec.run("stat -c '%U %a' /tmp/new/folder/file /tmp/new/folder")
    assert owner.stdout == "sandbox 644\nsandbox 755\n"


@covers("A29", "A30")
async def a_relative_path_begins_at_home(sandbox):
    await sandbox.files.write("relative.txt", "at home")
    assert (await sandbox.exec.run("cat /home/sandbox/relative.txt")).stdout == "at home"
    assert await sandbox.files.read("relative.txt") == "at home"


@covers("A29", "A30", "A31")
async def names_may_hold_anything_but_slashes(sandbox):
    for name in ("with space", "a&b=c?d#e", "100%25", "ünï ☕", "quote'\"quote", "new\nline"):
        await sandbox.files.write(f"/tmp/names/{name}", name)
        assert await sandbox.files.read(f"/tmp/names/{name}") == name
    assert len(await sandbox.files.list("/tmp/names")) == 6


@covers("A29")
async def exists_is_false_for_missing_paths_and_folders(sandbox):
    assert not await sandbox.files.exists("/tmp/missing")
    assert not await sandbox.files.exists("/tmp")
    await sandbox.files.write("/tmp/present", "x")
    assert await sandbox.files.exists("/tmp/present")


@covers("A29")
async def reading_what_is_missing_is_not_found(sandbox):
    error = await raises(httpx.HTTPStatusError, sandbox.files.read("/tmp/missing"))
    assert error.response.status_code == 404
    assert "error" in error.response.json()


@covers("A29")
async def reading_a_folder_is_a_bad_request(sandbox):
    error = await raises(httpx.HTTPStatusError, sandbox.files.read("/tmp"))
    assert error.response.status_code == 400


@covers("A31")
async def list_tells_files_from_folders(sandbox):
    await sandbox.files.make_dir("/tmp/listed/folder")
    await sandbox.files.write("/tmp/listed/file", "12345")
    entries = await sandbox.files.list("/tmp/listed")
    assert [(each.name, each.is_dir, each.path) for each in entries] == [
        ("file", False, "/tmp/listed/file"),
        ("folder", True, "/tmp/listed/folder"),
    ]
    assert entries[0].size == 5
    assert "tmp" in [each.name for each in await sandbox.files.list()]
    assert await sandbox.files.list("/tmp/listed/folder") == []


@covers("A31")
async def list_of_what_is_missing_is_not_found(sandbox):
    error = await raises(httpx.HTTPStatusError, sandbox.files.list("/tmp/missing"))
    assert error.response.status_code == 404


@covers("A31")
async def make_dir_makes_parents_and_may_be_repeated(sandbox):
    await sandbox.files.make_dir("/tmp/a/b/c")
    await sandbox.files.make_dir("/tmp/a/b/c")
    assert (await sandbox.exec.run("stat -c %U /tmp/a/b/c")).stdout == "sandbox\n"


@covers("A31")
async def remove_takes_whole_trees_and_missing_paths(sandbox):
    await sandbox.files.write("/tmp/tree/deep/file", "x")
    await sandbox.files.remove("/tmp/tree")
    await sandbox.files.remove("/tmp/tree")
    assert (await sandbox.exec.run("test -e /tmp/tree")).exit_code == 1


@covers("A31")
async def remove_refuses_the_root(sandbox):
    error = await raises(httpx.HTTPStatusError, sandbox.files.remove("/"))
    assert error.response.status_code == 400


@covers("A15")
async def signed_urls_give_and_take_files_without_a_key(sandbox):
    name = "signed/größe ☕.txt"
    upload = await sandbox.upload_url(name)
    download = await sandbox.download_url(name, expires_in=60)
    async with httpx.AsyncClient() as anybody:
        assert (await anybody.get(download)).status_code == 404
        assert (await anybody.put(upload, content=b"first and last")).status_code == 204
        whole = await anybody.get(download)
        assert (whole.status_code, whole.content) == (200, b"first and last")
        assert "attachment" in whole.headers["content-disposition"]
        part = await anybody.get(download, headers={"Range": "bytes=-4"})
        assert (part.status_code, part.content) == (206, b"last")
        assert (await anybody.put(download, content=b"no")).status_code == 405
        swapped = download.replace("/files/download", "/files/upload")
        assert (await anybody.put(swapped, content=b"no")).status_code == 403
    assert await sandbox.files.read(name) == "first and last"


@covers("A15")
async def a_signed_url_needs_a_path(sandbox):
    error = await raises(httpx.HTTPStatusError, sandbox.download_url(""))
    assert error.response.status_code == 400


main()
