"""The published SDK's secret stores, and sandboxes that use them."""

import re
import uuid

import httpx
from checks import covers, main, raises

from opencomputer import Sandbox, SecretStore

TOKEN = re.compile(r"osb_sealed_[0-9a-f]{32}")


async def refused(call, status):
    error = await raises(httpx.HTTPStatusError, call)
    assert error.response.status_code == status, error.response.text


def fresh_name():
    return f"store {uuid.uuid4()}"


@covers("A36")
async def a_store_is_created_listed_changed_and_deleted():
    name = fresh_name()
    store = await SecretStore.create(name, egress_allowlist=["api.example.com", "*.example.org"])
    assert (store["name"], store["egressAllowlist"]) == (name, ["api.example.com", "*.example.org"])
    assert store["id"] in [each["id"] for each in await SecretStore.list()]
    assert (await SecretStore.get(store["id"])) == store
    await refused(SecretStore.create(name), 409)
    changed = await SecretStore.update(store["id"], name=f"{name} again")
    assert (changed["name"], changed["egressAllowlist"]) == (f"{name} again", store["egressAllowlist"])
    assert (await SecretStore.update(store["id"], egress_allowlist=[]))["egressAllowlist"] == []
    await SecretStore.delete(store["id"])
    await refused(SecretStore.delete(store["id"]), 404)
    await refused(SecretStore.get(store["id"]), 404)


@covers("A37")
async def secrets_are_set_and_listed_without_their_values():
    store = await SecretStore.create(fresh_name())
    await SecretStore.set_secret(store["id"], "KEY", "canary", allowed_hosts=["api.example.com"])
    (listed,) = await SecretStore.list_secrets(store["id"])
    assert (listed["name"], listed["allowedHosts"]) == ("KEY", ["api.example.com"])
    assert "canary" not in str(listed)
    await refused(SecretStore.set_secret(store["id"], "KEY", ""), 400)
    await refused(SecretStore.set_secret(store["id"], "no-name", "x"), 400)
    await SecretStore.delete_secret(store["id"], "KEY")
    await SecretStore.delete_secret(store["id"], "KEY")
    assert await SecretStore.list_secrets(store["id"]) == []
    await SecretStore.delete(store["id"])


@covers("A1", "A4", "A6", "A14")
async def sandboxes_have_tokens_and_forks_layer_a_store_of_their_own():
    base, own = await SecretStore.create(fresh_name()), await SecretStore.create(fresh_name(), ["a.org"])
    await SecretStore.set_secret(base["id"], "KEY", "value")
    await SecretStore.set_secret(own["id"], "OWN", "value", allowed_hosts=["a.org"])
    await refused(Sandbox.create(secret_store=fresh_name()), 400)
    sandbox = await Sandbox.create(secret_store=base["name"])
    token = (await sandbox.exec.run("printf %s $KEY")).stdout
    assert TOKEN.fullmatch(token)
    made = await sandbox.create_checkpoint("base", kind="disk_only")
    fork = await Sandbox.create_from_checkpoint(made["id"], secret_store=own["name"])
    tokens = (await fork.exec.run("echo $KEY $OWN")).stdout.split()
    assert len({token, *tokens}) == 3
    assert all(TOKEN.fullmatch(each) for each in tokens)
    hosts = await fork.get_allowed_hosts()
    assert (hosts["secretStore"], hosts["baseSecretStore"]) == (own["name"], base["name"])
    assert (hosts["egressAllowlist"], hosts["perSecretAllowedHosts"]) == (["a.org"], {"OWN": ["a.org"]})
    await fork.kill(delete_secret_store=True)
    await refused(SecretStore.get(own["id"]), 404)
    await sandbox.kill(delete_secret_store=True)
    await refused(SecretStore.get(base["id"]), 404)


@covers("A14")
async def a_sandbox_without_a_store_may_reach_everything(sandbox):
    hosts = await sandbox.get_allowed_hosts()
    assert hosts["sandboxID"] == sandbox.sandbox_id
    assert (hosts["egressAllowlist"], hosts["perSecretAllowedHosts"]) == ([], {})
    assert "secretStore" not in hosts


main()
