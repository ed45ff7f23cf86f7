// The published SDK's sizes, autoscaling and scaling lock.

import assert from "node:assert/strict";
import { check, failure, main } from "./checks.mjs";

check("a sandbox gets another size while it runs", ["B7"], async (sandbox) => {
  const scaled = await sandbox.scale({ memoryMB: 8192 });
  assert.deepEqual([scaled.memoryMB, scaled.cpuPercent], [8192, 200]);
  const result = await sandbox.exec.run("awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo");
  assert.equal(result.stdout.trim(), "8192");
  assert.match((await failure(sandbox.scale({ memoryMB: 2048 }))).message, /400|memoryMB/);
  assert.equal((await sandbox.scale({ memoryMB: 4096 })).memoryMB, 4096);
});

check("autoscaling is set, shown and ended by a scale", ["B7"], async (sandbox) => {
  const range = { enabled: true, minMemoryMB: 4096, maxMemoryMB: 8192 };
  const expected = { sandboxID: sandbox.sandboxId, ...range };
  assert.deepEqual(await sandbox.setAutoscale(range), expected);
  assert.deepEqual(await sandbox.getAutoscale(), expected);
  await sandbox.scale({ memoryMB: 4096 });
  assert.equal((await sandbox.getAutoscale()).enabled, false);
});

check("a lock refuses changes", ["B7"], async (sandbox) => {
  await sandbox.setScalingLock(true);
  assert.equal((await sandbox.getScalingLock()).locked, true);
  assert.equal((await failure(sandbox.scale({ memoryMB: 8192 }))).code, "scaling_locked");
  const range = { enabled: true, minMemoryMB: 4096, maxMemoryMB: 8192 };
  assert.equal((await failure(sandbox.setAutoscale(range))).code, "scaling_locked");
  await sandbox.setScalingLock(false);
  assert.equal((await sandbox.getScalingLock()).locked, false);
});

await main();
