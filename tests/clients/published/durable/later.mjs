// Methods of the published client whose parts this server does not have yet say so in the contract's shape.

import assert from "node:assert/strict";
import { apiKey, baseUrl, check, followed, main, oc, scripted, sdk } from "./checks.mjs";

const impatient = new sdk.OpenComputer({ apiKey, baseUrl, maxRetries: 0 });
const AGENT = `agt_${"0".repeat(24)}`;

async function refused(...promises) {
  for (const outcome of await Promise.allSettled(promises)) {
    assert.equal(outcome.status, "rejected", "this was not refused");
    const { status, type, code, message, requestId } = outcome.reason;
    assert.deepEqual([status, type, code], [501, "not_implemented", "not_implemented"]);
    assert.ok(message.length > 10);
    assert.match(requestId, /^req_/);
  }
}

check("repositories", ["deploymentSource", "repository", "repos", "github"], async () => {
  const { agents, repos, github } = impatient;
  const link = { repo: "owner/name", path: "." };
  await refused(
    agents.deploymentSource.link(AGENT, link),
    agents.deploymentSource.get(AGENT),
    agents.deploymentSource.unlink(AGENT),
    agents.repository.review({ repo: "owner/name", path: ".", productionRef: "main" }),
    agents.repository.import({ name: "a", source: {}, review: {}, idempotencyKey: "k" }),
    repos.create({ owner: "owner", repo: "name" }),
    repos.get("repo_1"),
    repos.list(),
    repos.update("repo_1", { name: "x" }),
    github.apps.list(),
    github.apps.register({ mode: "oc_app" }),
    github.apps.update("gha_1", {}),
    github.apps.delete("gha_1"),
    github.apps.createManifestUrl({}),
    github.apps.createManifest({ redirectUrl: "https://example.com" }),
    github.apps.completeManifest({ code: "x" }),
    github.installations.list(),
  );
});

check("sources are none", ["session.listSources"], async () => {
  const agent = await scripted("echo");
  const session = await oc.sessions.create({ agent: agent.id, input: "hello" });
  assert.deepEqual(await session.listSources(), []);
  await followed(session);
});

check("Slack", ["slack"], async () => {
  const { agents } = impatient;
  await refused(
    agents.slackManifest(AGENT),
    agents.connectSlack(AGENT, { appId: "A", botToken: "x", signingSecret: "y" }),
    agents.getSlack(AGENT),
    agents.disconnectSlack(AGENT),
    agents.authorizeManagedSlack(AGENT),
    agents.getManagedSlack(AGENT),
    agents.disconnectManagedSlack(AGENT),
    agents.listManagedSlackConnections(),
  );
});

check("watches", ["session.watches"], async () => {
  const session = new sdk.Session(impatient.sessions.http, { id: "ses_1" });
  await refused(session.watches.list(), session.watches.create({ pr: 1 }), session.watches.delete("wch_1"));
});

check("what the newer generation adds", ["repositoryAccess"], async () => {
  const headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" };
  for (const [method, path] of [
    ["GET", "repository-access"],
    ["PUT", "repository-access"],
  ]) {
    const body = method === "POST" || method === "PUT" ? "{}" : undefined;
    const response = await fetch(`${baseUrl}/agents/${AGENT}/${path}`, { method, headers, body });
    const { error } = await response.json();
    assert.deepEqual([response.status, error.type], [501, "not_implemented"]);
    assert.equal(response.headers.get("x-request-id"), error.request_id);
  }
});

await main();
