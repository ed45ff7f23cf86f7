// Agents: what they are made of, and what becomes of that.

import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deflateRawSync } from "node:zlib";
import { baseUrl, check, failure, main, oc, scripted, sdk, unused } from "./checks.mjs";

const CLAUDE = "anthropic/claude-sonnet-5";

function claude(more = {}) {
  return oc.agents.create({ name: unused("claude"), prompt: "Help.", model: CLAUDE, ...more });
}

/** A zip archive of one file, written by hand: one local header, one central one, the end. */
function zipped(name, text) {
  const content = Buffer.from(text);
  const data = deflateRawSync(content);
  const path = Buffer.from(name);
  let crc = ~0;
  for (const byte of content) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt16LE(8, 4);
  common.writeUInt32LE(~crc >>> 0, 10);
  common.writeUInt32LE(data.length, 14);
  common.writeUInt32LE(content.length, 18);
  common.writeUInt16LE(path.length, 22);
  const local = Buffer.concat([Buffer.from("PK\x03\x04"), common, path, data]);
  const central = Buffer.concat([
    Buffer.from("PK\x01\x02"),
    Buffer.from([20, 3]),
    common,
    Buffer.alloc(14),
    path,
  ]);
  central.writeUInt32LE((0o100644 << 16) >>> 0, 38);
  const end = Buffer.alloc(22);
  end.write("PK\x05\x06", "latin1");
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(local.length, 16);
  return Buffer.concat([local, central, end]);
}

check("the client needs a key that is one", ["OpenComputer"], async () => {
  const stranger = new sdk.OpenComputer({ apiKey: "osb_nobody", baseUrl, maxRetries: 0 });
  const error = await failure(stranger.agents.list());
  assert.ok(error instanceof sdk.AuthError);
  assert.equal(error.status, 401);
  assert.equal(error.type, "unauthorized");
  assert.equal(typeof error.requestId, "string");
});

check("an agent is made once for a name", ["agents.create", "agents.get"], async () => {
  const wanted = { name: unused("once"), prompt: "Help.", model: CLAUDE, limits: { turnSeconds: 60, turns: 3 } };
  const agent = await oc.agents.create(wanted);
  assert.match(agent.id, /^agt_[0-9a-f]{24}$/);
  assert.equal(agent.runtime, "claude");
  assert.equal(agent.revision, 1);
  assert.equal(agent.activeRevision.number, 1);
  assert.match(agent.promptHash, /^sha256:/);
  assert.equal(agent.limits.turnSeconds, 60);
  assert.ok(!agent.invokeUrl.endsWith("/"));
  assert.equal((await oc.agents.create(wanted)).id, agent.id);
  assert.equal((await oc.agents.get(agent.id)).name, wanted.name);
  const conflict = await failure(oc.agents.create({ ...wanted, prompt: "Do not." }));
  assert.ok(conflict instanceof sdk.ConflictError);
  assert.equal(conflict.code, "name_conflict");
});

check("what cannot be is refused with its name", ["agents.create", "agents.get"], async () => {
  const missing = await failure(oc.agents.get(`agt_${"0".repeat(24)}`));
  assert.ok(missing instanceof sdk.NotFoundError);
  const mismatch = await failure(claude({ model: "openai/gpt-5" }));
  assert.ok(mismatch instanceof sdk.ValidationError);
  assert.equal(mismatch.code, "model_runtime_mismatch");
  const malformed = await failure(claude({ model: 3 }));
  assert.equal(malformed.status, 400);
  assert.equal(malformed.param, "model");
});

check("agents are listed page by page", ["agents.list"], async () => {
  const made = [await claude(), await claude(), await claude()].map((agent) => agent.id);
  // Checks of other areas make agents at the same time.
  const listed = [];
  let page;
  do {
    page = await oc.agents.list({ limit: 2, cursor: page?.nextCursor });
    assert.ok(page.data.length <= 2);
    listed.push(...page.data.map((agent) => agent.id));
  } while (page.nextCursor && !listed.includes(made[0]));
  assert.equal(new Set(listed).size, listed.length);
  assert.deepEqual(listed.filter((id) => made.includes(id)), made.toReversed());
});

check("a change of behaviour is a revision", ["agents.update", "revisions.list", "revisions.get"], async () => {
  const agent = await claude();
  const updated = await oc.agents.update(agent.id, { prompt: "Help more." });
  assert.equal(updated.revision, 2);
  const limited = await oc.agents.update(agent.id, { limits: { tokens: 1000 } });
  assert.equal(limited.revision, 2);
  assert.equal(limited.limits.tokens, 1000);
  const { data } = await oc.agents.revisions.list(agent.id);
  assert.deepEqual(
    data.map(({ number, active }) => [number, active]),
    [
      [2, true],
      [1, false],
    ],
  );
  const first = await oc.agents.revisions.get(agent.id, 1);
  assert.equal(first.prompt, "Help.");
  assert.deepEqual(first.files, []);
  assert.equal((await oc.agents.revisions.get(agent.id, data[0].id)).number, 2);
});

check(
  "a revision can be staged, promoted and rolled back",
  ["deployments.create", "deployments.list", "deployments.get", "revisions.activate", "activations.list"],
  async () => {
    const agent = await claude();
    const input = { type: "inline", prompt: "New.", model: CLAUDE };
    const wanted = { input, activate: false, idempotencyKey: unused("key").replaceAll(" ", "-") };
    const { deployment } = await oc.agents.deployments.create(agent.id, wanted);
    assert.equal(deployment.state, "ready");
    assert.equal(deployment.result, "created");
    assert.equal(deployment.active, false);
    const again = await oc.agents.deployments.create(agent.id, wanted);
    assert.equal(again.deployment.id, deployment.id);
    assert.equal((await oc.agents.get(agent.id)).revision, 1);
    const { activeRevisionId } = await oc.agents.revisions.activate(agent.id, 2);
    assert.equal(activeRevisionId, deployment.revisionId);
    await oc.agents.revisions.activate(agent.id, 1);
    assert.equal((await oc.agents.get(agent.id)).revision, 1);
    assert.equal((await oc.agents.deployments.list(agent.id)).data[0].id, deployment.id);
    assert.equal((await oc.agents.deployments.get(agent.id, deployment.id)).revisionId, activeRevisionId);
    const { data } = await oc.agents.activations.list(agent.id);
    assert.deepEqual(
      data.map((activation) => activation.reason),
      ["activate", "activate", "create"],
    );
  },
);

check("skills come as an archive and go", ["skills.put", "skills.get", "skills.delete"], async () => {
  const agent = await claude();
  const text = "---\nname: greeting\ndescription: How to greet\n---\nSay hello.\n";
  const put = await oc.agents.skills.put(agent.id, zipped("skills/greeting/SKILL.md", text));
  assert.equal(put.state, "ready");
  assert.equal(put.revision.number, 2);
  const { skills, skillBundleDigest } = await oc.agents.skills.get(agent.id);
  assert.match(skillBundleDigest, /^sha256:/);
  assert.equal(skills.length, 1);
  assert.deepEqual([skills[0].name, skills[0].description], ["greeting", "How to greet"]);
  const { files } = await oc.agents.revisions.get(agent.id, 2);
  assert.deepEqual([files.length, files[0].size], [1, text.length]);
  const gone = await oc.agents.skills.delete(agent.id);
  assert.equal(gone.state, "ready");
  assert.deepEqual((await oc.agents.skills.get(agent.id)).skills, []);
  const broken = await failure(oc.agents.skills.put(agent.id, Buffer.from("no archive")));
  assert.ok(broken instanceof sdk.ValidationError);
  assert.equal(broken.code, "invalid_skills");
});

check("a folder is deployed as a whole", ["agents.deploy"], async () => {
  const agent = await claude();
  const folder = await mkdtemp(join(tmpdir(), "agent-"));
  try {
    await mkdir(join(folder, "skills/look"), { recursive: true });
    await writeFile(join(folder, "agent.toml"), `model = "${CLAUDE}"\n[agent]\nid = "${agent.id}"\n`);
    await writeFile(join(folder, "prompt.md"), "From a folder.");
    await writeFile(join(folder, "skills/look/SKILL.md"), "---\nname: look\ndescription: d\n---\nLook.");
    const { deployment } = await oc.agents.deploy(folder);
    assert.equal(deployment.state, "ready");
    assert.equal((await oc.agents.get(agent.id)).prompt, "From a folder.");
    assert.equal((await oc.agents.skills.get(agent.id)).skills[0].name, "look");
  } finally {
    await rm(folder, { recursive: true });
  }
});

check("other runtimes have no skills", ["skills.put"], async () => {
  const agent = await scripted("echo");
  const refused = await failure(oc.agents.skills.put(agent.id, zipped("a/SKILL.md", "---\nname: a\n---\n")));
  assert.equal(refused.code, "not_supported");
});

check(
  "keys go in and never come out",
  [
    "credentials.create",
    "credentials.list",
    "credentials.rotate",
    "credentials.setDefault",
    "credentials.delete",
  ],
  async () => {
    const made = await oc.credentials.create({ provider: "openai", key: "sk-first-of-two-keys-abcd", name: "ci" });
    assert.match(made.id, /^cred_/);
    assert.deepEqual([made.provider, made.last4, made.isDefault], ["openai", "abcd", false]);
    assert.equal((await oc.credentials.rotate(made.id, "sk-second-of-two-keys-wxyz")).last4, "wxyz");
    await oc.credentials.setDefault({ credential: made.id });
    const found = (await oc.credentials.list()).find((each) => each.id === made.id);
    assert.equal(found.isDefault, true);
    assert.ok(!JSON.stringify(found).includes("second"));
    const other = await failure(claude({ credential: made.id }));
    assert.equal(other.code, "credential_mismatch");
    await oc.credentials.delete(made.id);
    assert.ok(!(await oc.credentials.list()).some((each) => each.id === made.id));
  },
);

await main();
