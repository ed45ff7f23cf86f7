// The published SDK's checkpoints, forks, patches, sleep and restarts.

import assert from "node:assert/strict";
import { check, failure, main, pause, sdk } from "./checks.mjs";

const { Sandbox } = sdk;

/** What a command that must succeed says. */
async function said(sandbox, script) {
  const result = await sandbox.exec.run(script);
  assert.equal(result.exitCode, 0, result.stderr);
  return result.stdout.trim();
}

/** The description of a checkpoint once it is more than processing. */
async function ready(sandbox, checkpoint) {
  for (let round = 0; round < 600; round++) {
    const found = (await sandbox.listCheckpoints()).find((each) => each.id === checkpoint.id);
    if (found.status !== "processing") return found;
    await pause(100);
  }
  assert.fail("the checkpoint is still processing");
}

check("a checkpoint is described, listed and deleted", ["B9"], async (sandbox) => {
  const created = await sandbox.createCheckpoint("first");
  assert.deepEqual([created.name, created.sandboxId], ["first", sandbox.sandboxId]);
  const found = await ready(sandbox, created);
  assert.deepEqual([found.status, found.kind], ["ready", "full"]);
  assert.ok(found.sizeBytes > 0);
  assert.match((await failure(sandbox.createCheckpoint("first"))).message, /: 409 /);
  await sandbox.deleteCheckpoint(created.id);
  await sandbox.deleteCheckpoint(created.id);
});

check("a checkpoint takes a kind and makes room by retention", ["B9"], async (sandbox) => {
  const retentionPolicy = { mode: "delete_oldest", maxCount: 1 };
  for (const name of ["one", "two"]) {
    const options = { kind: "disk_only", promoteToFull: false, retentionPolicy };
    await ready(sandbox, await sandbox.createCheckpoint(name, options));
  }
  const listed = await sandbox.listCheckpoints();
  assert.deepEqual(listed.map((each) => [each.name, each.kind]), [["two", "disk_only"]]);
  await sandbox.deleteCheckpoint(listed[0].id);
});

check("a fork goes on from the checkpoint and apart from its source", ["B3"], async (sandbox) => {
  await sandbox.files.write("/tmp/shared", "before");
  const session = await sandbox.exec.background("exec sleep 4321");
  const created = await sandbox.createCheckpoint("fork me");
  const fork = await Sandbox.createFromCheckpoint(created.id, { envs: { SIDE: "fork" }, timeout: 600 });
  assert.equal(fork.status, "running");
  assert.equal(await said(fork, "pgrep -xc sleep; echo $SIDE; cat /tmp/shared"), "1\nfork\nbefore");
  await fork.files.write("/tmp/shared", "in the fork");
  assert.equal(await sandbox.files.read("/tmp/shared"), "before");
  await fork.kill();
  await session.kill();
  await sandbox.deleteCheckpoint(created.id);
});

check("restore takes everything back and may be repeated", ["B10"], async (sandbox) => {
  await sandbox.files.write("/tmp/state", "then");
  const created = await sandbox.createCheckpoint("to go back to");
  for (const text of ["later", "even later"]) {
    await sandbox.files.write("/tmp/state", text);
    await sandbox.restoreCheckpoint(created.id);
    assert.equal(await said(sandbox, "cat /tmp/state"), "then");
    assert.equal(await sandbox.files.read("/tmp/state"), "then");
  }
  await sandbox.deleteCheckpoint(created.id);
});

check("an unknown checkpoint is not found", ["B3", "B4", "B10"], async (sandbox) => {
  assert.match((await failure(sandbox.restoreCheckpoint("cp-00000000"))).message, /: 404 /);
  assert.match((await failure(Sandbox.createFromCheckpoint("cp-00000000"))).message, /: 404 /);
  assert.match((await failure(Sandbox.listCheckpointPatches("cp-00000000"))).message, /: 404$/);
  await Sandbox.deleteCheckpointPatch("cp-00000000", "pa-00000000");
});

check("patches run in order in every fork", ["B4"], async (sandbox) => {
  const created = await sandbox.createCheckpoint("to patch", { kind: "disk_only" });
  await ready(sandbox, created);
  const script = (number) => ({ script: `echo ${number} >> /tmp/patched`, description: `${number}.` });
  const { patch } = await Sandbox.createCheckpointPatch(created.id, script(1));
  assert.deepEqual([patch.sequence, patch.description, patch.strategy], [1, "1.", "on_wake"]);
  const bad = await Sandbox.createCheckpointPatch(created.id, { script: "exit 3" });
  await Sandbox.createCheckpointPatch(created.id, script(3));
  await Sandbox.deleteCheckpointPatch(created.id, bad.patch.id);
  const listed = await Sandbox.listCheckpointPatches(created.id);
  assert.deepEqual(listed.map((each) => each.sequence), [1, 3]);
  const fork = await Sandbox.createFromCheckpoint(created.id);
  assert.equal(await fork.files.read("/tmp/patched"), "1\n3\n");
  await fork.kill();
  await sandbox.deleteCheckpoint(created.id);
});

check("hibernate and wake keep processes", ["B6"], async (sandbox) => {
  const session = await sandbox.exec.background("exec sleep 4323");
  const pid = await said(sandbox, "pgrep -x sleep");
  await sandbox.hibernate();
  assert.equal(sandbox.status, "hibernated");
  assert.equal(await sandbox.isRunning(), false);
  await sandbox.wake();
  assert.equal(sandbox.status, "running");
  await sandbox.wake({ timeout: 0 });
  assert.equal(await said(sandbox, "pgrep -x sleep"), pid);
  await session.kill();
});

check("a command, a file and a new client wake", ["B2", "B6", "B14", "B20"], async (sandbox) => {
  await sandbox.files.write("/tmp/asleep", "kept");
  await sandbox.hibernate();
  assert.equal(await said(sandbox, "cat /tmp/asleep"), "kept");
  await sandbox.hibernate();
  assert.equal(await sandbox.files.read("/tmp/asleep"), "kept");
  await sandbox.hibernate();
  const connected = await Sandbox.connect(sandbox.sandboxId);
  assert.equal(connected.status, "hibernated");
  await connected.files.write("/tmp/asleep", "written");
  assert.equal(await said(connected, "cat /tmp/asleep"), "written");
});

check("a timeout puts to sleep what nobody uses", ["B6"], async (sandbox) => {
  await sandbox.setTimeout(1);
  for (let round = 0; round < 600 && (await sandbox.isRunning()); round++) await pause(100);
  assert.equal(await sandbox.isRunning(), false);
  await sandbox.setTimeout(0);
  assert.equal(await said(sandbox, "echo awake"), "awake");
});

check("restarts keep the files and end the processes", ["B6"], async (sandbox) => {
  for (const restart of ["reboot", "powerCycle"]) {
    await sandbox.exec.background("exec sleep 4322");
    await sandbox.files.write("/home/sandbox/kept", restart);
    await sandbox[restart]();
    assert.equal(await said(sandbox, "pgrep -xc sleep || cat ~/kept"), `0\n${restart}`);
  }
});

await main();
