// The published SDK's `Image` and `Snapshots`, and sandboxes made from them.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { check, failure, main, published, sdk } from "./checks.mjs";

const { Image, Snapshots } = await published("@opencomputer/sdk/dist/node.js");
const { Sandbox } = sdk;
// Servers may be asked by several versions of Node.js one after the other.
const NAME = `of-node-${process.versions.node}`;
const BYTES = Buffer.from(Array.from({ length: 256 }, (_, index) => index));

/** An image with every kind of step that needs no network. */
function described() {
  const folder = mkdtempSync(join(tmpdir(), "image-"));
  mkdirSync(join(folder, "below"));
  writeFileSync(join(folder, "below/deep.txt"), "deep");
  writeFileSync(join(folder, "bytes"), BYTES);
  const image = Image.base()
    .runCommands(`echo ${NAME} > ~/built`, "echo é && sudo touch /opt/by-root")
    .env({ FLAVOUR: "it's sweet", OTHER: "2" })
    .workdir("/srv/app")
    .addFile("/srv/app/greeting", "hello ☕\n")
    .addLocalFile(join(folder, "bytes"), "/srv/bytes")
    .addLocalDir(folder, "/srv/tree")
    .builderMemory(4096);
  rmSync(folder, { recursive: true });
  return image;
}

async function assertIsAsDescribed(sandbox) {
  const script =
    'echo "$PWD $FLAVOUR $OTHER"; cat ~/built greeting /srv/tree/below/deep.txt; stat -c %U /opt/by-root';
  const { stdout } = await sandbox.exec.run(script);
  assert.equal(stdout, `/srv/app it's sweet 2\n${NAME}\nhello ☕\ndeeproot\n`);
  assert.deepEqual(Buffer.from(await sandbox.files.readBytes("/srv/bytes")), BYTES);
}

check("an image is built once and says how it goes", ["B1"], async () => {
  const image = described();
  const logs = [[], []];
  for (const lines of logs) {
    const sandbox = await Sandbox.create({ image, onBuildLog: (line) => lines.push(line), timeout: 600 });
    assert.equal(sandbox.status, "running");
    await assertIsAsDescribed(sandbox);
    await sandbox.kill();
  }
  assert.ok(logs[0].length > logs[1].length && logs[1].length > 0, JSON.stringify(logs));
});

check("a step that fails is named with what it said", ["B1"], async () => {
  const image = Image.base().runCommands("true").runCommands("echo no such luck >&2; exit 4");
  const { message } = await failure(Sandbox.create({ image }));
  assert.match(message, /^Build failed: .*step 2.*4/);
  assert.match(message, /no such luck/);
});

check("what cannot be is refused before the stream", ["B1"], async () => {
  assert.match((await failure(Sandbox.create({ snapshot: "no-such-snapshot" }))).message, /: 400 /);
});

check("snapshots are built, awaited, listed, used and deleted", ["B1", "B22"], async () => {
  const [image, snapshots, logs] = [described(), new Snapshots(), []];
  const building = snapshots.create({ name: NAME, image, onBuildLogs: (line) => logs.push(line) });
  const awaited = await snapshots.waitUntilReady(NAME, { pollIntervalMs: 100, timeoutMs: 50_000 });
  const created = await building;
  assert.deepEqual([created.name, created.status, created.id], [NAME, "ready", awaited.id]);
  assert.equal(awaited.status, "ready");
  assert.ok(created.checkpointId && logs.length > 0);
  assert.deepEqual(created.manifest.steps, image.toJSON().steps);
  assert.match((await failure(snapshots.create({ name: NAME, image }))).message, /409/);
  assert.ok((await snapshots.list()).some((each) => each.name === NAME));
  const sandbox = await Sandbox.create({ snapshot: NAME });
  await snapshots.delete(NAME);
  await assertIsAsDescribed(sandbox);
  await sandbox.kill();
  await snapshots.delete(NAME);
  assert.match((await failure(snapshots.get(NAME))).message, /404/);
});

await main();
