"""Domain objects as the contract shows them. One small function each."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import Request

from opencomputer.server.domain.access import ApiKey
from opencomputer.server.domain.layers import Change
from opencomputer.server.domain.machine import ExitStatus, FileEntry, ProcessRecord
from opencomputer.server.domain.sandbox import TERMINAL, Sandbox, shown
from opencomputer.server.domain.snapshot import Origin, Patch, Snapshot
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.agents import CLAUDE_SESSION_LABEL
from opencomputer.server.services.sandboxes.commands import Progress
from opencomputer.server.services.sandboxes.forks import Forked
from opencomputer.server.services.sandboxes.scaling import Autoscale, Scaled
from opencomputer.wire.agents import AgentView
from opencomputer.wire.api_keys import ApiKeyView
from opencomputer.wire.checkpoints import CheckpointView, SandboxConfig
from opencomputer.wire.diffs import ChangeView
from opencomputer.wire.files import FileEntryView
from opencomputer.wire.ids import SandboxId
from opencomputer.wire.patches import PatchView
from opencomputer.wire.processes import CommandProgress, CommandResult, SessionView
from opencomputer.wire.sandboxes import ForkedView, HibernatedView, SandboxView
from opencomputer.wire.scaling import AutoscaleView, ScaledView

UNKNOWN_EXIT_CODE = -1
_HOST = re.compile(r"[A-Za-z0-9._\[\]:-]+")


def public_origin(request: Request, services: Services) -> str:
    """Scheme and host under which clients reach this server."""
    if services.presentation.public_url:
        return services.presentation.public_url.rstrip("/")
    hosts = (_first(request, "x-forwarded-host"), _first(request, "host"))
    scheme = _first(request, "x-forwarded-proto")
    return "{}://{}".format(
        scheme if scheme in ("http", "https") else request.url.scheme,
        next((host for host in hosts if _HOST.fullmatch(host)), request.url.netloc),
    )


def _first(request: Request, header: str) -> str:
    """Each proxy on the way adds its own value behind the ones before it."""
    return request.headers.get(header, "").split(",")[0].strip()


def sandbox(
    request: Request,
    services: Services,
    row: Sandbox,
    *,
    preview_token: str | None = None,
    warnings: Sequence[str] = (),
) -> SandboxView:
    # One that sleeps is reached as one that runs: it wakes when it is used.
    reachable = row.state not in TERMINAL
    return SandboxView(
        sandbox_id=row.id,
        status=shown(row.state),
        template_id=row.template,
        template=row.template,
        connect_url=f"{public_origin(request, services)}/api" if reachable else None,
        token=services.access.sandbox_token(row.org_id, row.id) if reachable else None,
        sandbox_domain=services.presentation.sandbox_domain,
        region=services.presentation.region,
        cpu_count=row.shape.cpu_count,
        memory_mb=row.shape.memory_mb,
        disk_mb=row.shape.disk_mb,
        timeout=row.timeout_seconds,
        metadata=dict(row.metadata),
        alias=row.alias,
        network_enabled=row.network_enabled,
        created_at=row.created_at,
        started_at=row.started_at,
        stopped_at=row.stopped_at,
        stop_reason=row.stop_reason,
        from_checkpoint_id=row.from_checkpoint,
        patch_error=row.patch_error,
        last_hibernate_error=row.last_hibernate_error,
        recovered=row.recovered,
        preview_auth_token=preview_token,
        warnings=list(warnings) or None,
    )


def forked(request: Request, services: Services, made: Forked) -> ForkedView:
    view = sandbox(request, services, made.sandbox, preview_token=made.preview_token, warnings=made.warnings)
    return ForkedView(**view.model_dump(by_alias=False), memory_restored=made.memory_restored)


def hibernated(row: Sandbox, size_bytes: int | None) -> HibernatedView:
    return HibernatedView(
        sandbox_id=row.id, status=shown(row.state), hibernation_key=row.hibernation, size_bytes=size_bytes
    )


def checkpoint(snapshot: Snapshot) -> CheckpointView:
    return CheckpointView(
        id=snapshot.id,
        sandbox_id=snapshot.sandbox_id or "",
        org_id=snapshot.org_id,
        name=snapshot.name,
        kind=snapshot.kind,
        status=snapshot.state,
        size_bytes=snapshot.size_bytes,
        created_at=snapshot.created_at,
        ready_at=snapshot.ready_at,
        is_public=snapshot.is_public,
        sandbox_config=_sandbox_config(snapshot.origin),
        error_msg=snapshot.error,
        failed_at=snapshot.failed_at,
    )


def _sandbox_config(origin: Origin) -> SandboxConfig:
    return SandboxConfig(
        template_id=origin.template,
        cpu_count=origin.shape.cpu_count,
        memory_mb=origin.shape.memory_mb,
        disk_mb=origin.shape.disk_mb,
        envs=dict(origin.environment),
        metadata=dict(origin.metadata),
        network_enabled=origin.network_enabled,
        workdir=origin.workdir,
    )


def patch(added: Patch) -> PatchView:
    return PatchView(
        id=added.id,
        checkpoint_id=added.checkpoint_id,
        sequence=added.sequence,
        script=added.script,
        description=added.description,
        created_at=added.created_at,
    )


def change(found: Change) -> ChangeView:
    return ChangeView(
        path=found.path, kind=found.kind, size=found.size_bytes, is_directory=found.is_directory
    )


def exit_code(status: ExitStatus) -> int:
    return UNKNOWN_EXIT_CODE if status.code is None else status.code


def signal_name(status: ExitStatus) -> str | None:
    if status.signal is None:
        return None
    try:
        return signals.Signals(status.signal).name
    except ValueError:
        return f"signal {status.signal}"


def _texts(progress: Progress, timeout_seconds: int | None) -> dict[str, Any]:
    stdout = progress.stdout.value().decode(errors="replace")
    stderr = progress.stderr.value().decode(errors="replace")
    if progress.exit is not None and progress.exit.reason == "timeout":
        limit = f" after {timeout_seconds} seconds" if timeout_seconds else ""
        stderr += f"{_line_break(stderr)}the process timed out{limit}\n"
    if progress.exit is not None and progress.exit.error is not None and not stderr:
        stderr = f"{progress.exit.error}\n"
    return {"stdout": stdout, "stderr": stderr, "truncated": progress.truncated or None}


def _line_break(text: str) -> str:
    return "\n" if text and not text.endswith("\n") else ""


def command_result(progress: Progress, timeout_seconds: int | None = None) -> CommandResult:
    """A command that has ended."""
    status = progress.exit or ExitStatus(None)
    return CommandResult(
        exit_code=exit_code(status),
        signal=signal_name(status),
        reason=status.reason,
        **_texts(progress, timeout_seconds),
    )


def command_failure(reason: str) -> CommandResult:
    """A command of which no exit code is known."""
    return CommandResult(exit_code=UNKNOWN_EXIT_CODE, stdout="", stderr=f"{reason}\n")


def command_progress(progress: Progress) -> CommandProgress:
    status = progress.exit
    return CommandProgress(
        running=status is None,
        exit_code=None if status is None else exit_code(status),
        signal=None if status is None else signal_name(status),
        reason=None if status is None else status.reason,
        **_texts(progress, None),
    )


def session(sandbox_id: SandboxId, record: ProcessRecord) -> SessionView:
    return SessionView(
        session_id=record.id,
        sandbox_id=sandbox_id,
        command=record.argv[0] if record.argv else "",
        args=list(record.argv[1:]),
        running=record.exit is None,
        exit_code=None if record.exit is None else exit_code(record.exit),
        started_at=moment(record.started_at),
        attached_clients=record.attached,
    )


def agent(sandbox_id: SandboxId, record: ProcessRecord) -> AgentView:
    return AgentView(
        session_id=record.id,
        sandbox_id=sandbox_id,
        running=record.exit is None,
        started_at=moment(record.started_at),
        claude_session_id=record.labels.get(CLAUDE_SESSION_LABEL),
    )


def file_entry(entry: FileEntry) -> FileEntryView:
    return FileEntryView(
        name=entry.name, is_directory=entry.is_directory, size=entry.size_bytes, path=entry.path
    )


def api_key(key: ApiKey) -> ApiKeyView:
    return ApiKeyView(
        id=key.id,
        name=key.name,
        prefix=key.prefix,
        created_at=key.created_at,
        last_used_at=key.last_used_at,
        revoked_at=key.revoked_at,
    )


def moment(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)


def scaled(made: Scaled) -> ScaledView:
    shape = made.sandbox.shape
    return ScaledView(
        sandbox_id=made.sandbox.id,
        memory_mb=shape.memory_mb,
        cpu_percent=100 * shape.cpu_count,
        autoscale_disabled=made.autoscale_disabled,
    )


def autoscale(sandbox_id: str, settled: Autoscale) -> AutoscaleView:
    return AutoscaleView(
        sandbox_id=sandbox_id,
        enabled=settled.enabled,
        min_memory_mb=settled.bounds.min_memory_mb,
        max_memory_mb=settled.bounds.max_memory_mb,
    )
