"""The use cases of `/v3/credentials`: keys for models come in here and leave encrypted."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from opencomputer.server.contracts.agents import AgentTables
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.models import ModelProvider
from opencomputer.server.contracts.secrets import Keyring
from opencomputer.server.domain.errors import Conflict, NotFound, SecretUnreadable
from opencomputer.server.domain.sessions.agents import Agent, AgentChange, Deployer, Reason
from opencomputer.server.domain.sessions.credentials import (
    KEYLESS,
    CredentialPlace,
    ModelCredential,
    check_credential_name,
    check_key,
    check_matches,
    check_provider,
    last4,
    resolve,
)
from opencomputer.server.domain.sessions.errors import NoCredential
from opencomputer.server.domain.sessions.naming import new_model_credential_id
from opencomputer.server.domain.sessions.session import MANAGED
from opencomputer.wire.ids import OrgId

_ATTEMPTS = 20


@dataclass(frozen=True)
class NewCredential:
    provider: str
    key: str
    name: str | None = None
    is_default: bool = False


class Credentials:
    """Implements ModelKeys. No key ever leaves it but to who asks for a model on a session's behalf."""

    def __init__(self, tables: AgentTables, keyring: Keyring, models: ModelProvider, clock: Clock) -> None:
        self._store = tables.credentials
        self._agents = tables.agents
        self._keyring = keyring
        self._models = models
        self._clock = clock

    @property
    def managed(self) -> Collection[str]:
        """The providers whose models need no key of the organisation's."""
        return KEYLESS | self._models.providers if self._models.available else KEYLESS

    async def create(self, org_id: OrgId, wanted: NewCredential) -> ModelCredential:
        """Raises InvalidInput and Unsupported."""
        name = None if wanted.name is None else check_credential_name(wanted.name)
        credential = self.made(org_id, wanted.provider, wanted.key)
        credential = replace(credential, name=name, is_default=wanted.is_default)
        await self._store.add(credential)
        return credential

    async def list(self, org_id: OrgId) -> Sequence[ModelCredential]:
        """Oldest first."""
        return await self._store.list(org_id)

    async def rotate(self, org_id: OrgId, credential_id: str, key: str) -> ModelCredential:
        """Sessions that run with it use the new key from their next request for a model on."""
        rotated = self.rotated(await self._require(org_id, credential_id), key)
        if not await self._store.rotate(rotated):
            raise _unknown()
        return rotated

    async def set_default(self, org_id: OrgId, credential_id: str, provider: str | None) -> ModelCredential:
        """Make it the default of its provider. Raises CredentialMismatch when that is not `provider`."""
        credential = await self._require(org_id, credential_id)
        if provider is not None:
            check_matches(credential, check_provider(provider), field="provider")
        now = self._clock.now()
        if not await self._store.set_default(credential, now):
            raise _unknown()
        return replace(credential, is_default=True, updated_at=now)

    async def delete(self, org_id: OrgId, credential_id: str, deployer: Deployer) -> None:
        """Agents that use it go back to the organisation's default. Running sessions fail their next turn."""
        for _ in range(_ATTEMPTS):
            credential = await self._require(org_id, credential_id)
            users = await self._agents.using(org_id, credential.id)
            deleted = await self._store.delete(credential.id, [self._freed(each, deployer) for each in users])
            if deleted is None:
                raise _unknown()
            if deleted:
                return
        raise Conflict("agents that use it are being changed; try again")

    async def key(self, org_id: OrgId, credential: str) -> str | None:
        """See ModelKeys. Also None when no key of the keyring opens it."""
        found = await self._store.get(org_id, credential)
        if found is None:
            return None
        try:
            return self._keyring.decrypt(found.ciphertext, CredentialPlace(org_id, found.id))
        except SecretUnreadable:
            return None

    # For agents

    def made(self, org_id: OrgId, provider: str, key: str) -> ModelCredential:
        """A new credential, which nothing keeps yet."""
        check_provider(provider)
        now = self._clock.now()
        credential_id, key = new_model_credential_id(), check_key(key)
        ciphertext = self._keyring.encrypt(key, CredentialPlace(org_id, credential_id))
        return ModelCredential(
            id=credential_id,
            org_id=org_id,
            provider=provider,
            name=None,
            last4=last4(key),
            ciphertext=ciphertext,
            is_default=False,
            created_at=now,
            updated_at=now,
        )

    def rotated(self, credential: ModelCredential, key: str) -> ModelCredential:
        """The same with another key, which nothing keeps yet."""
        key = check_key(key)
        place = CredentialPlace(credential.org_id, credential.id)
        return replace(
            credential,
            last4=last4(key),
            ciphertext=self._keyring.encrypt(key, place),
            updated_at=self._clock.now(),
        )

    async def attached(self, org_id: OrgId, credential: str | None) -> ModelCredential | None:
        """The credential that an agent names; None for MANAGED, and for one that is not there any more."""
        if credential is None or credential == MANAGED:
            return None
        return await self._store.get(org_id, credential)

    async def chosen(self, org_id: OrgId, credential: str, provider: str) -> str:
        """A credential as a user chose it for a model. Raises NoCredential and CredentialMismatch."""
        if credential == MANAGED:
            return credential
        found = await self._store.get(org_id, credential)
        if found is None:
            raise NoCredential('credential: must be "managed" or the id of a credential', field="credential")
        check_matches(found, provider)
        return found.id

    async def has_key(self, credential: ModelCredential, key: str) -> bool:
        present = await self.key(credential.org_id, credential.id)
        return present is not None and hmac.compare_digest(present.encode(), check_key(key).encode())

    async def resolve(self, org_id: OrgId, agent: Agent, provider: str) -> str:
        """What a session of this agent uses. Raises NoCredential and ManagedUnavailable."""
        own = await self.attached(org_id, agent.credential)
        default = await self._store.default(org_id, provider)
        return resolve(provider, agent.credential, own, default, self.managed)

    def _freed(self, agent: Agent, deployer: Deployer) -> AgentChange:
        after = replace(agent, credential=None, version=agent.version + 1, updated_at=self._clock.now())
        return AgentChange(after, agent.version, Reason.CREDENTIAL_DELETED, deployer)

    async def _require(self, org_id: OrgId, credential_id: str) -> ModelCredential:
        credential = await self._store.get(org_id, credential_id)
        if credential is None:
            raise _unknown()
        return credential


def _unknown() -> NotFound:
    return NotFound("there is no such credential")
