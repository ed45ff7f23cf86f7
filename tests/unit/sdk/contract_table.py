"""The rows of the contract: see test_contract.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_AT = "api_key=None, api_url=None"
_CALLBACKS = "on_stdout=None, on_stderr=None, on_exit=None, on_scrollback_end=None"
_START = (
    f"(command, args=None, env=None, cwd=None, timeout=None, max_run_after_disconnect=None, {_CALLBACKS})"
)
_CONFIGURE = (
    "model=None, system_prompt=None, allowed_tools=None, permission_mode=None, max_turns=None, cwd=None, "
    "mcp_servers=None"
)
_PAGE = "from_=None, to=None, filter=None, sort=None, limit=None, cursor=None"

_SANDBOX: Mapping[str, str] = {
    "Sandbox.create": (
        f'(template="base", timeout=0, {_AT}, envs=None, metadata=None, burst=None, sandbox_family=None, '
        "disk_mb=None, memory_mb=None, secret_store=None, image=None, snapshot=None, on_build_log=None, "
        "preview_auth=None, cpu_count=None, webhooks=None)"
    ),
    "Sandbox.connect": f"(sandbox_id, {_AT})",
    "Sandbox.create_from_checkpoint": f"(checkpoint_id, timeout=0, {_AT}, envs=None, secret_store=None)",
    "Sandbox.list": f"({_AT})",
    "Sandbox.create_checkpoint_patch": f'(checkpoint_id, script, description="", {_AT})',
    "Sandbox.list_checkpoint_patches": f"(checkpoint_id, {_AT})",
    "Sandbox.delete_checkpoint_patch": f"(checkpoint_id, patch_id, {_AT})",
    "Sandbox.kill": "(delete_secret_store=False)",
    "Sandbox.is_running": "()",
    "Sandbox.set_timeout": "(timeout)",
    "Sandbox.hibernate": "()",
    "Sandbox.wake": "(timeout=None)",
    "Sandbox.reboot": "()",
    "Sandbox.power_cycle": "()",
    "Sandbox.scale": "(memory_mb)",
    "Sandbox.set_autoscale": "(enabled, *, min_memory_mb=None, max_memory_mb=None)",
    "Sandbox.get_autoscale": "()",
    "Sandbox.set_scaling_lock": "(locked)",
    "Sandbox.get_scaling_lock": "()",
    "Sandbox.get_allowed_hosts": "()",
    "Sandbox.create_checkpoint": "(name, kind=None, promote_to_full=None, retention_policy=None)",
    "Sandbox.list_checkpoints": "()",
    "Sandbox.restore_checkpoint": "(checkpoint_id)",
    "Sandbox.delete_checkpoint": "(checkpoint_id)",
    "Sandbox.create_preview_url": "(port, domain=None, auth_config=None)",
    "Sandbox.list_preview_urls": "()",
    "Sandbox.delete_preview_url": "(port)",
    "Sandbox.rotate_preview_auth_token": "()",
    "Sandbox.get_preview_domain": "(port)",
    "Sandbox.download_url": "(path, *, expires_in=3600)",
    "Sandbox.upload_url": "(path, *, expires_in=3600)",
    "Sandbox.close": "()",
}

_INSIDE: Mapping[str, str] = {
    "Agent.start": f"(prompt=None, {_CONFIGURE}, on_event=None, on_error=None)",
    "Agent.attach": "(session_id, on_event=None, on_error=None, on_exit=None, on_scrollback_end=None)",
    "Agent.list": "()",
    "AgentSession.send_prompt": "(text)",
    "AgentSession.interrupt": "()",
    "AgentSession.configure": f"({_CONFIGURE}, resume=None)",
    "AgentSession.wait": '(until="idle")',
    "AgentSession.collect_events": "()",
    "AgentSession.kill": "(signal=9)",
    "AgentSession.close": "()",
    "AgentEvent.get": "(key, default=None)",
    "AgentEvent.keys": "()",
    "Filesystem.read": "(path)",
    "Filesystem.read_bytes": "(path)",
    "Filesystem.read_stream": "(path)",
    "Filesystem.write": "(path, content)",
    "Filesystem.write_stream": "(path, stream)",
    "Filesystem.list": '(path="/")',
    "Filesystem.make_dir": "(path)",
    "Filesystem.remove": "(path)",
    "Filesystem.exists": "(path)",
    "Exec.run": "(command, timeout=60, env=None, cwd=None, *, client_timeout=None)",
    "Exec.start": _START,
    "Exec.background": _START,
    "Exec.attach": f"(session_id, {_CALLBACKS})",
    "Exec.shell": "(cwd=None, env=None)",
    "Exec.reattach_shell": "(session_id)",
    "Exec.list": "()",
    "Exec.kill": "(session_id, signal=9)",
    "ExecSession.send_stdin": "(data)",
    "ExecSession.kill": "(signal=9)",
    "ExecSession.close": "()",
    "Shell.run": "(cmd, on_stdout=None, on_stderr=None)",
    "Shell.close": "()",
    "Pty.create": "(cols=80, rows=24, on_output=None, *, shell=None)",
    "PtySession.send": "(data)",
    "PtySession.recv": "()",
    "PtySession.resize": "(cols, rows)",
    "PtySession.close": "()",
    "Mounts.add": (
        "(path, remote, backend=None, creds=None, rclone_config=None, read_only=True, mount_options=None)"
    ),
    "Mounts.add_command": "(path, command, env=None, secrets=None, read_only=True)",
    "Mounts.list": "()",
    "Mounts.remove": "(path)",
}

_BUILDS: Mapping[str, str] = {
    "Image.base": "()",
    "Image.apt_install": "(packages)",
    "Image.pip_install": "(packages)",
    "Image.run_commands": "()",
    "Image.env": "(vars)",
    "Image.workdir": "(path)",
    "Image.add_file": "(remote_path, content)",
    "Image.add_local_file": "(local_path, remote_path)",
    "Image.add_local_dir": "(local_path, remote_path)",
    "Image.builder_memory": "(mb)",
    "Image.to_dict": "()",
    "Image.cache_key": "()",
    "Snapshots": f"({_AT})",
    "Snapshots.create": "(name, image, on_build_logs=None)",
    "Snapshots.list": "()",
    "Snapshots.get": "(name)",
    "Snapshots.delete": "(name)",
    "Snapshots.wait_until_ready": "(name, *, timeout=None, poll_interval=1.0)",
    "Snapshots.close": "()",
    "Template": f"({_AT})",
    "Template.build": "(name, dockerfile)",
    "Template.list": "()",
    "Template.get": "(name)",
    "Template.delete": "(name)",
}

_ACCOUNT: Mapping[str, str] = {
    "SecretStore.create": f"(name, egress_allowlist=None, {_AT})",
    "SecretStore.list": f"({_AT})",
    "SecretStore.get": f"(store_id, {_AT})",
    "SecretStore.update": f'(store_id, name="", egress_allowlist=None, {_AT})',
    "SecretStore.delete": f"(store_id, {_AT})",
    "SecretStore.set_secret": f"(store_id, name, value, allowed_hosts=None, {_AT})",
    "SecretStore.list_secrets": f"(store_id, {_AT})",
    "SecretStore.delete_secret": f"(store_id, name, {_AT})",
    "Usage": f"({_AT})",
    "Usage.by_sandbox": f"(*, {_PAGE})",
    "Usage.by_tag": f"(tag_key, *, {_PAGE})",
    "Usage.for_sandbox": "(sandbox_id, *, from_=None, to=None)",
    "Tags": f"({_AT})",
    "Tags.list_keys": "()",
    "Tags.get": "(sandbox_id)",
    "Tags.set": "(sandbox_id, tags)",
    "Webhooks": f"({_AT})",
    "Webhooks.create": (
        "(url, *, name=None, secret=None, event_types=None, sandbox_id=None, enabled=None, "
        "idempotency_key=None)"
    ),
    "Webhooks.list": "()",
    "Webhooks.get": "(webhook_id)",
    "Webhooks.get_secret": "(webhook_id)",
    "Webhooks.delete": "(webhook_id)",
    "Webhooks.test": "(webhook_id)",
    "WebhookDeliveries.list": "(webhook_id)",
    "WebhookDeliveries.get": "(webhook_id, delivery_id)",
    "WebhookDeliveries.redeliver": "(webhook_id, delivery_id)",
}

_ELSEWHERE: Mapping[str, str] = {
    "Browser.create": (
        f"(*, {_AT}, name=None, tags=None, stealth=None, headless=None, gpu=None, timeout_seconds=None, "
        "profile=None, extensions=None, proxy_id=None, viewport=None, kiosk_mode=None, start_url=None, "
        "chrome_policy=None, telemetry=None, recording=None)"
    ),
    "Browser.connect": f"(browser_id, *, {_AT})",
    "Browser.delete": "()",
    "Browser.close": "()",
    "BrowserProfile.create": f"(*, {_AT}, name=None)",
    "BrowserProfile.list": f"(*, {_AT})",
    "BrowserProfile.connect": f"(id_or_name, *, {_AT})",
    "BrowserProfile.check_auth": "(homepage, user=None, mode=None, compare_fresh=None)",
    "BrowserProfile.delete": "()",
    "BrowserProfile.close": "()",
    "AuthCheck.refresh": "()",
    "HostedAgents": "(api_key=None, base_url=None)",
    "HostedAgents.create": (
        "(id, core=None, *, config=None, secrets=None, model=None, display_name=None, wait=True)"
    ),
    "HostedAgents.list": "()",
    "HostedAgents.get": "(id)",
    "HostedAgents.update": "(id)",
    "HostedAgents.delete": "(id)",
    "HostedAgents.set_secret": "(agent_id, key, value)",
    "HostedAgents.list_secrets": "(agent_id)",
    "HostedAgents.delete_secret": "(agent_id, key)",
    "HostedAgents.connect_channel": "(agent_id, channel)",
    "HostedAgents.disconnect_channel": "(agent_id, channel)",
    "HostedAgents.list_channels": "(agent_id)",
    "HostedAgents.install_package": "(agent_id, package)",
    "HostedAgents.uninstall_package": "(agent_id, package)",
    "HostedAgents.list_packages": "(agent_id)",
    "HostedAgents.create_instance": "(agent_id)",
    "HostedAgents.list_instances": "(agent_id)",
    "HostedAgents.get_instance": "(agent_id, instance_id)",
    "HostedAgents.delete_instance": "(agent_id, instance_id)",
    "HostedAgents.send_message": (
        "(agent_id, instance_id, content=None, *, messages=None, conversation_id=None)"
    ),
    "HostedAgents.create_session": "(agent_id)",
    "HostedAgents.get_session": "(agent_id, session_id)",
    "HostedAgents.delete_session": "(agent_id, session_id)",
    "HostedAgents.get_result": "(agent_id, session_id)",
    "HostedAgents.events": "(agent_id)",
    "HostedAgents.operations": "(agent_id)",
    "HostedAgents.wait_operation": "(agent_id, operation_id)",
    "HostedAgents.restart": "(agent_id)",
    "HostedAgents.logs": "(agent_id)",
}

SIGNATURES: Mapping[str, str] = {**_SANDBOX, **_INSIDE, **_BUILDS, **_ACCOUNT, **_ELSEWHERE}

COROUTINES: Mapping[str, bool] = {
    # Awaited all the same: what they return is.
    "Sandbox.create": False,
    "Sandbox.create_from_checkpoint": False,
    "Sandbox.get_preview_domain": False,
    "AgentSession.send_prompt": False,
    "AgentSession.interrupt": False,
    "AgentSession.configure": False,
    "AgentEvent.get": False,
    "AgentEvent.keys": False,
    **{name: False for name in _BUILDS if name.startswith("Image.")},
}
"""Whether something is a coroutine function, where that is not as for everything that asks the server."""

PROPERTIES: Mapping[str, Sequence[str]] = {
    "Sandbox": (
        *("sandbox_id", "id", "status", "template", "preview_auth_token", "end_at", "domain", "webhooks"),
        *("memory_mb", "cpu_count", "agent", "exec", "files", "pty", "mounts", "commands"),
    ),
    "AgentSession": ("session_id", "sandbox_id", "done"),
    "ExecSession": ("session_id", "sandbox_id", "done"),
    "PtySession": ("session_id", "sandbox_id"),
    "Shell": ("session_id",),
    "Webhooks": ("deliveries",),
    "ScalingLockedError": ("code",),
    "SandboxFamilyLimitError": ("code",),
    "AuthCheck": ("id", "status"),
}

_GB_SECONDS = ("memory_gb_seconds", "disk_overage_gb_seconds")
FIELDS: Mapping[str, Sequence[str]] = {
    "AgentEvent": ("type", "data"),
    "AgentSessionInfo": ("session_id", "sandbox_id", "running", "started_at"),
    "EntryInfo": ("name", "is_dir", "path", "size"),
    "ProcessResult": ("exit_code", "stdout", "stderr"),
    "ExecSessionInfo": (
        *("session_id", "sandbox_id", "command", "args", "running", "exit_code", "started_at"),
        "attached_clients",
    ),
    "MountInfo": ("path", "read_only", "driver", "remote", "backend", "rclone_version", "command", "env"),
    "TemplateInfo": ("template_id", "name", "tag", "status"),
    "UsageTotals": _GB_SECONDS,
    "UsageSandboxItem": ("sandbox_id", *_GB_SECONDS, "tags", "tags_last_updated_at", "alias", "status"),
    "UsageTagItem": ("tag_key", "tag_value", *_GB_SECONDS, "sandbox_count"),
    "UsageUntaggedBucket": (*_GB_SECONDS, "sandbox_count"),
    "UsageBySandboxResponse": ("from_", "to", "total", "items", "next_cursor"),
    "UsageByTagResponse": ("from_", "to", "group_by", "total", "untagged", "items", "next_cursor"),
    "SandboxUsagePoint": (
        *("ts", "memory_allocated_gb_seconds", "memory_used_gb_seconds", "uptime_seconds"),
        *("allocated_memory_mb", "used_memory_mb_avg", "used_memory_mb_peak"),
    ),
    "SandboxUsageTotals": (
        *("memory_allocated_gb_seconds", "memory_used_gb_seconds", "uptime_seconds"),
        *("memory_allocated_peak_mb", "memory_used_peak_mb"),
    ),
    "SandboxUsageResponse": ("sandbox_id", "from_", "to", "totals", "points", "alias"),
    "TagKeyInfo": ("key", "sandbox_count", "value_count"),
    "WebhookDestination": (
        *("id", "name", "url", "event_types", "sandbox_id", "enabled", "has_secret", "created_at"),
        "updated_at",
    ),
    "WebhookAttempt": ("id", "status", "response_status_code", "timestamp"),
    "WebhookTest": ("ok", "event_type", "message_id"),
    "Browser": (
        *("id", "provider", "provider_session_id", "status", "cdp_ws_url", "webdriver_ws_url"),
        *("live_view_url", "base_url", "headless", "stealth", "gpu", "timeout_seconds", "created_at"),
        *("updated_at", "deleted_at"),
    ),
}

EXPORTS = (
    *("Sandbox", "Browser", "BrowserProfile", "ScalingLockedError", "PlanLimitError"),
    *("SandboxFamilyLimitError", "Agent", "AgentEvent", "AgentSession", "AgentSessionInfo", "Filesystem"),
    *("Exec", "ProcessResult", "ExecSession", "ExecSessionInfo", "Image", "Mounts", "MountInfo", "Pty"),
    *("PtySession", "Shell", "ShellBusyError", "ShellClosedError", "Template", "SecretStore", "Snapshots"),
    *("Usage", "Tags", "EntryInfo", "ExecTimeoutError", "ImageStep", "Templates", "TemplateInfo"),
    *("Webhooks", "OpenComputer", "Session", "ClientSession", "connect_session", "verify_webhook"),
    *("WebhookVerificationError", "OpenComputerError", "AuthError", "NotFoundError", "ConflictError"),
    *("ValidationError", "RateLimitError", "HostedAgents", "UsageSandboxItem", "UsageTagItem"),
    *("UsageTotals", "UsageUntaggedBucket", "UsageBySandboxResponse", "UsageByTagResponse"),
    *("SandboxUsageResponse", "SandboxUsagePoint", "SandboxUsageTotals", "TagKeyInfo", "__version__"),
)
