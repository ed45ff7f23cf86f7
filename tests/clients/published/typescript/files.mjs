// The published SDK's `files`.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { check, failure, main } from "./checks.mjs";

check("text and bytes come back as they were written", ["B20"], async (sandbox) => {
  const text = "first\n\n☕ ünïcode\r\nlast without end";
  const bytes = Buffer.alloc(1 << 20, Buffer.from(Array.from({ length: 251 }, (_, index) => index)));
  await sandbox.files.write("/tmp/text", text);
  await sandbox.files.write("/tmp/bytes", bytes);
  await sandbox.files.write("/tmp/empty", "");
  assert.equal(await sandbox.files.read("/tmp/text"), text);
  assert.deepEqual(Buffer.from(await sandbox.files.readBytes("/tmp/bytes")), bytes);
  assert.equal(await sandbox.files.read("/tmp/empty"), "");
});

check("a stream of unknown length is written whole", ["B20"], async (sandbox) => {
  const digest = createHash("sha256");
  let number = 0;
  const stream = new ReadableStream({
    pull(controller) {
      if (number === 200) return controller.close();
      const piece = Buffer.alloc(65_536, `${number++} `);
      digest.update(piece);
      controller.enqueue(piece);
    },
  });
  await sandbox.files.write("/tmp/streamed", stream);
  const { stdout } = await sandbox.exec.run("sha256sum < /tmp/streamed");
  assert.equal(stdout.split(" ")[0], digest.digest("hex"));
});

check("names may hold anything but slashes", ["B20"], async (sandbox) => {
  for (const name of ["with space", "a&b=c?d#e", "100%25", "ünï ☕", "quote'\"quote"]) {
    await sandbox.files.write(`/tmp/names/${name}`, name);
    assert.equal(await sandbox.files.read(`/tmp/names/${name}`), name);
  }
  assert.equal((await sandbox.files.list("/tmp/names")).length, 5);
});

check("exists is false for missing paths and folders", ["B20"], async (sandbox) => {
  assert.equal(await sandbox.files.exists("/tmp/missing"), false);
  assert.equal(await sandbox.files.exists("/tmp"), false);
  await sandbox.files.write("/tmp/present", "x");
  assert.equal(await sandbox.files.exists("/tmp/present"), true);
});

check("list, makeDir and remove", ["B20"], async (sandbox) => {
  await sandbox.files.makeDir("/tmp/listed/folder");
  await sandbox.files.makeDir("/tmp/listed/folder");
  await sandbox.files.write("/tmp/listed/file", "12345");
  assert.deepEqual(await sandbox.files.list("/tmp/listed"), [
    { name: "file", isDir: false, size: 5, path: "/tmp/listed/file" },
    { name: "folder", isDir: true, size: 0, path: "/tmp/listed/folder" },
  ]);
  assert.ok((await sandbox.files.list()).some((each) => each.name === "tmp"));
  await sandbox.files.remove("/tmp/listed");
  await sandbox.files.remove("/tmp/listed");
  assert.match((await failure(sandbox.files.list("/tmp/listed"))).message, /: 404$/);
});

check("reading what is no file fails with its status", ["B20"], async (sandbox) => {
  assert.match((await failure(sandbox.files.read("/tmp/missing"))).message, /: 404$/);
  assert.match((await failure(sandbox.files.readBytes("/tmp"))).message, /: 400$/);
});

check("signed URLs give and take files without a key", ["B13"], async (sandbox) => {
  const upload = await sandbox.uploadUrl("/tmp/signed/ünï.txt");
  const download = await sandbox.downloadUrl("/tmp/signed/ünï.txt", { expiresIn: 60 });
  assert.equal((await fetch(download)).status, 404);
  assert.equal((await fetch(upload, { method: "PUT", body: "first and last" })).status, 204);
  assert.equal(await (await fetch(download)).text(), "first and last");
  const part = await fetch(download, { headers: { Range: "bytes=6-8" } });
  assert.deepEqual([part.status, await part.text()], [206, "and"]);
  assert.equal((await fetch(download.replace("&signature=", "&signature=0"))).status, 403);
  assert.equal(await sandbox.files.read("/tmp/signed/ünï.txt"), "first and last");
});

await main();
