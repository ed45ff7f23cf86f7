// Preview URLs with the published SDK: records, the token, and a program that is reached by its name.

import assert from "node:assert/strict";
import http from "node:http";
import { check, main, sdk } from "./checks.mjs";

const { Sandbox } = sdk;
const SERVE = "mkdir -p site && cd site && echo hello from inside > index.html && exec python3 -m http.server 8000";

// Ask the server for what a name leads to, wherever that name would resolve to.
function visit(hostname, headers = {}) {
  return new Promise((resolve, reject) => {
    const options = { headers: { Host: hostname, ...headers } };
    http.get(process.env.OPENCOMPUTER_API_URL, options, async (answer) => {
      let text = "";
      for await (const piece of answer) text += piece;
      resolve({ status: answer.statusCode, text });
    }).on("error", reject);
  });
}

check("a port is reached by its name", ["B11"], async (sandbox) => {
  await sandbox.exec.start("sh", { args: ["-c", SERVE] });
  const record = await sandbox.createPreviewURL({ port: 8000 });
  assert.equal(record.hostname, sandbox.getPreviewDomain(8000));
  assert.equal((await visit(record.hostname)).text, "hello from inside\n");
  assert.deepEqual((await sandbox.listPreviewURLs()).map((each) => each.port), [8000]);
  await sandbox.deletePreviewURL(8000);
  assert.deepEqual(await sandbox.listPreviewURLs(), []);
});

check("a token opens until it is rotated", ["B1", "B11"], async () => {
  const sandbox = await Sandbox.create({ previewAuth: { token: "auto" } });
  try {
    const host = sandbox.getPreviewDomain(8000);
    const first = sandbox.previewAuthToken;
    assert.ok(first);
    await sandbox.exec.start("sh", { args: ["-c", SERVE] });
    assert.equal((await visit(host)).status, 401);
    assert.equal((await visit(host, { Authorization: `Bearer ${first}` })).status, 200);
    await sandbox.rotatePreviewAuthToken();
    assert.equal((await visit(host, { Authorization: `Bearer ${first}` })).status, 401);
    assert.equal((await visit(host, { "X-OC-Preview-Token": sandbox.previewAuthToken })).status, 200);
  } finally {
    await sandbox.kill();
  }
});

await main();
