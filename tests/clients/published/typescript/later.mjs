// Methods of the published SDK whose parts this server does not have yet say so: HTTP 501, nothing else.

import assert from "node:assert/strict";
import { check, main } from "./checks.mjs";

async function refused(...promises) {
  for (const outcome of await Promise.allSettled(promises)) {
    assert.equal(outcome.status, "rejected", "this was not refused");
    assert.match(outcome.reason.message, /\b501\b/);
  }
}

check("mounts", ["B21"], async (sandbox) => {
  await refused(sandbox.mounts.list(), sandbox.mounts.remove("/mnt"));
});

await main();
