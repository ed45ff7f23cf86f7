// Methods of the published SDK whose parts this server does not have yet say so: HTTP 501, nothing else.

import assert from "node:assert/strict";
import { check, main, sdk } from "./checks.mjs";

const { Sandbox, Tags, Usage, Webhooks } = sdk;

async function refused(...promises) {
  for (const outcome of await Promise.allSettled(promises)) {
    assert.equal(outcome.status, "rejected", "this was not refused");
    assert.match(outcome.reason.message, /\b501\b/);
  }
}

check("mounts", ["B21"], async (sandbox) => {
  await refused(sandbox.mounts.list(), sandbox.mounts.remove("/mnt"));
});

check("webhooks", ["B26", "B27"], async () => {
  const webhooks = new Webhooks();
  await refused(webhooks.list(), webhooks.create({ url: "https://example.com" }));
  await refused(webhooks.get("whk_1"), webhooks.delete("whk_1"), webhooks.deliveries.list("whk_1"));
  await refused(Sandbox.create({ webhooks: [{ url: "https://example.com" }] }));
});

check("usage and tags", ["B29"], async (sandbox) => {
  const server = [process.env.OPENCOMPUTER_API_URL, process.env.OPENCOMPUTER_API_KEY];
  const [usage, tags] = [new Usage(...server), new Tags(...server)];
  await refused(usage.bySandbox(), usage.byTag("team"), usage.forSandbox(sandbox.sandboxId));
  await refused(tags.listKeys(), tags.get(sandbox.sandboxId), tags.set(sandbox.sandboxId, { a: "b" }));
});

await main();
