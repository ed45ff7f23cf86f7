"""Everything `http` may call, in one frozen bundle that the composition root fills."""

from __future__ import annotations

from dataclasses import dataclass

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.templates import TemplateCatalogue
from opencomputer.server.services.access import Access
from opencomputer.server.services.device_logins import DeviceLogins
from opencomputer.server.services.sandboxes.agents import Agents
from opencomputer.server.services.sandboxes.audit import Audit
from opencomputer.server.services.sandboxes.checkpoints import Checkpoints
from opencomputer.server.services.sandboxes.commands import Commands
from opencomputer.server.services.sandboxes.diffs import Diffs
from opencomputer.server.services.sandboxes.egress import Egress
from opencomputer.server.services.sandboxes.file_urls import FileUrls
from opencomputer.server.services.sandboxes.forks import Forks
from opencomputer.server.services.sandboxes.gateway import ModelGateway
from opencomputer.server.services.sandboxes.hibernation import Hibernation
from opencomputer.server.services.sandboxes.images import Images
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.server.services.sandboxes.live import LiveSandboxes
from opencomputer.server.services.sandboxes.logs import Logs
from opencomputer.server.services.sandboxes.named_snapshots import NamedSnapshots
from opencomputer.server.services.sandboxes.patches import Patches
from opencomputer.server.services.sandboxes.pool import Pool
from opencomputer.server.services.sandboxes.power import Power
from opencomputer.server.services.sandboxes.preview_door import PreviewDoor
from opencomputer.server.services.sandboxes.preview_grants import PreviewGrants
from opencomputer.server.services.sandboxes.previews import Previews
from opencomputer.server.services.sandboxes.reach import Reach
from opencomputer.server.services.sandboxes.restores import Restores
from opencomputer.server.services.sandboxes.scaling import Scaling
from opencomputer.server.services.sandboxes.sealing import Sealings
from opencomputer.server.services.sandboxes.sessions import Sessions
from opencomputer.server.services.sandboxes.tags import SandboxTags
from opencomputer.server.services.sandboxes.usage_reports import UsageReports
from opencomputer.server.services.sandboxes.webhook_services import WebhookServices
from opencomputer.server.services.secret_stores import SecretStores
from opencomputer.server.services.sessions.facade import DurableServices


@dataclass(frozen=True)
class Presentation:
    """How this server shows itself. `public_url` None: as the caller addressed it."""

    public_url: str | None
    sandbox_domain: str
    region: str
    disk_cap_mb: int
    memory_cap_mb: int | None = None


@dataclass(frozen=True)
class PreviewServices:
    records: Previews
    grants: PreviewGrants
    door: PreviewDoor


@dataclass(frozen=True)
class UsageServices:
    reports: UsageReports
    tags: SandboxTags


@dataclass(frozen=True)
class Services:
    access: Access
    device_logins: DeviceLogins
    lifecycle: Lifecycle
    reach: Reach
    live: LiveSandboxes
    pool: Pool
    commands: Commands
    sessions: Sessions
    agents: Agents
    checkpoints: Checkpoints
    forks: Forks
    restores: Restores
    hibernation: Hibernation
    power: Power
    scaling: Scaling
    patches: Patches
    diffs: Diffs
    usage: UsageServices
    audit: Audit
    logs: Logs
    file_urls: FileUrls
    previews: PreviewServices
    webhooks: WebhookServices
    images: Images
    snapshots: NamedSnapshots
    secret_stores: SecretStores
    sealings: Sealings
    egress: Egress
    templates: TemplateCatalogue
    gateway: ModelGateway
    clock: Clock
    presentation: Presentation
    durable: DurableServices
