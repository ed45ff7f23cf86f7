// The published SDK's secret stores, and sandboxes that use them.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { check, failure, main, sdk } from "./checks.mjs";

const { Sandbox, SecretStore } = sdk;

check("secret stores keep secrets without showing them", ["B25"], async () => {
  const name = `store ${randomUUID()}`;
  const store = await SecretStore.create({ name, egressAllowlist: ["api.example.com"] });
  assert.deepEqual([store.name, store.egressAllowlist], [name, ["api.example.com"]]);
  assert.ok((await SecretStore.list()).some((each) => each.id === store.id));
  assert.equal((await SecretStore.get(store.id)).name, name);
  const changed = await SecretStore.update(store.id, { egressAllowlist: [] });
  assert.deepEqual([changed.name, changed.egressAllowlist], [name, []]);
  await SecretStore.setSecret(store.id, "KEY", "canary", { allowedHosts: ["api.example.com"] });
  const listed = await SecretStore.listSecrets(store.id);
  assert.deepEqual(listed.map((each) => each.name), ["KEY"]);
  assert.ok(!JSON.stringify(listed).includes("canary"));
  await SecretStore.deleteSecret(store.id, "KEY");
  await SecretStore.delete(store.id);
  await failure(SecretStore.delete(store.id));
});

check("sandboxes have tokens in place of secrets", ["B8", "B25"], async () => {
  const name = `store ${randomUUID()}`;
  const store = await SecretStore.create({ name });
  await SecretStore.setSecret(store.id, "KEY", "value");
  const sandbox = await Sandbox.create({ secretStore: name });
  const { stdout } = await sandbox.exec.run("printf %s $KEY");
  assert.match(stdout, /^osb_sealed_[0-9a-f]{32}$/);
  const hosts = await sandbox.getAllowedHosts();
  assert.equal(hosts.secretStore, name);
  assert.deepEqual(hosts.egressAllowlist, []);
  await sandbox.kill({ deleteSecretStore: true });
  await failure(SecretStore.get(store.id));
});

await main();
