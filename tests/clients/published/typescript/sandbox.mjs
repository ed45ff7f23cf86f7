// The published SDK's `Sandbox`: create, connect, kill, isRunning, setTimeout; `Templates`; `Tags`; `Usage`.

import assert from "node:assert/strict";
import { check, failure, main, sdk } from "./checks.mjs";

const { Sandbox, Tags, Templates, Usage } = sdk;

check("create answers with a running sandbox", ["B1"], async (sandbox) => {
  assert.match(sandbox.sandboxId, /^sb-[a-z0-9-]+$/);
  assert.equal(sandbox.id, sandbox.sandboxId);
  assert.equal(sandbox.status, "running");
  assert.equal(sandbox.previewAuthToken, "");
  assert.deepEqual(sandbox.webhooks, []);
});

check("create takes envs, metadata and a size", ["B1"], async () => {
  const sandbox = await Sandbox.create({
    envs: { GREETING: "hello there" },
    metadata: { team: "a" },
    cpuCount: 1,
    memoryMB: 4096,
    diskMB: 20480,
    timeout: 600,
  });
  assert.equal((await sandbox.exec.run('echo "$GREETING"')).stdout, "hello there\n");
  await sandbox.kill();
});

check("create refuses a size that is no tier", ["B1"], async () => {
  assert.match((await failure(Sandbox.create({ memoryMB: 1000 }))).message, /: 400 .*memoryMB/);
});

check("create with an unknown key is unauthorised", ["B1"], async () => {
  const error = await failure(Sandbox.create({ apiKey: `osb_${"0".repeat(64)}` }));
  assert.match(error.message, /: 401 /);
});

check("connect reaches the same machine", ["B2"], async (sandbox) => {
  await sandbox.files.write("/tmp/connected", "here");
  const again = await Sandbox.connect(sandbox.sandboxId);
  assert.equal(again.status, "running");
  assert.equal(await again.files.read("/tmp/connected"), "here");
});

check("connect to an unknown sandbox is not found", ["B2"], async () => {
  assert.match((await failure(Sandbox.connect("sb-00000000"))).message, /: 404$/);
});

check("kill ends the sandbox and may be repeated", ["B2", "B5"], async () => {
  const sandbox = await Sandbox.create();
  assert.equal(await sandbox.isRunning(), true);
  await sandbox.kill();
  assert.equal(await sandbox.isRunning(), false);
  await sandbox.kill({ deleteSecretStore: true });
});

check("setTimeout takes any number of seconds", ["B6"], async (sandbox) => {
  await sandbox.setTimeout(3600);
  await sandbox.setTimeout(0);
  assert.match((await failure(sandbox.setTimeout(-1))).message, /: 400$/);
});

check("preview domains are made from the sandbox domain", ["B12"], async (sandbox) => {
  assert.equal(sandbox.getPreviewDomain(3000), `${sandbox.sandboxId}-p3000.localhost`);
});

check("templates can be listed and looked up", ["B24"], async () => {
  const templates = new Templates(
    `${process.env.OPENCOMPUTER_API_URL}/api`,
    process.env.OPENCOMPUTER_API_KEY,
  );
  assert.ok((await templates.list()).some((each) => each.name === "base"));
  const found = await templates.get("base");
  assert.deepEqual([found.templateID, found.name, found.status], ["base", "base", "ready"]);
  assert.match((await failure(templates.get("no-such-template"))).message, /: 404$/);
  assert.match((await failure(templates.build("mine", "FROM debian"))).message, /: 501$/);
});

check("tags are put, read and counted", ["B29"], async (sandbox) => {
  const tags = new Tags(process.env.OPENCOMPUTER_API_URL, process.env.OPENCOMPUTER_API_KEY);
  assert.deepEqual((await tags.get(sandbox.sandboxId)).tags, {});
  const put = await tags.set(sandbox.sandboxId, { "published-typescript": "a" });
  assert.deepEqual(put.tags, { "published-typescript": "a" });
  assert.deepEqual(await tags.get(sandbox.sandboxId), put);
  const keys = await tags.listKeys();
  assert.ok(JSON.stringify(keys).includes("published-typescript"));
});

check("usage is told by sandbox, by tag and minute by minute", ["B29"], async (sandbox) => {
  const usage = new Usage(process.env.OPENCOMPUTER_API_URL, process.env.OPENCOMPUTER_API_KEY);
  const series = await usage.forSandbox(sandbox.sandboxId);
  const sum = series.points.reduce((before, point) => before + point.memoryAllocatedGbSeconds, 0);
  assert.equal(sum, series.totals.memoryAllocatedGbSeconds);
  const everything = await usage.bySandbox({ limit: 500 });
  assert.ok(everything.total.memoryGbSeconds >= sum);
  const byTag = await usage.byTag("no-such-tag", { filter: { "tag:no-such-tag": "" } });
  assert.deepEqual(byTag.items, []);
  assert.equal(byTag.untagged.memoryGbSeconds, byTag.total.memoryGbSeconds);
});

await main();
