"""Every command of `oc` by name: which module of `commands` has it, and a line about it.

With this list `oc` loads just the module of the command that runs. A test compares it with what the modules
add, and says which rows are missing.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command or group directly below `oc`. The summary is the first sentence of its help."""

    name: str
    module: str
    summary: str
    hidden: bool = False


class Section(NamedTuple):
    """Commands that `oc --help` shows below one heading, in this order."""

    title: str
    commands: tuple[Command, ...]


SECTIONS = (
    Section(
        "Sandboxes",
        (
            Command("create", "sandbox", "Create a sandbox."),
            Command("ls", "sandbox", "List the sandboxes that are not stopped."),
            Command("list", "sandbox", "List the sandboxes that are not stopped.", hidden=True),
            Command("get", "sandbox", "Show one sandbox."),
            Command("kill", "sandbox", "End a sandbox for good."),
            Command(
                "sandbox",
                "sandbox",
                "Sandboxes: create, list, get, kill, set-timeout, hibernate, scale and more.",
            ),
            Command("hibernate", "power", "Put a sandbox to sleep, memory and files included."),
            Command("wake", "power", "Wake a sandbox that sleeps."),
            Command("reboot", "power", "Start a sandbox again."),
            Command("power-cycle", "power", "Start a sandbox again on a new machine."),
            Command("scale", "scale", "Give a running sandbox another size."),
            Command("exec", "exec", "Run a command: `oc exec SANDBOX -- COMMAND [ARGS]...`."),
            Command("shell", "shell", "Open a terminal in a sandbox."),
            Command("logs", "logs", "Print what the programs of a sandbox write, and what they will."),
            Command("cp", "copy", "Copy a file or a whole folder into a sandbox or out of it."),
            Command("fork", "fork", "Make copies of a running sandbox."),
            Command("diff", "diff", "List the files that changed in a sandbox."),
            Command("tags", "tags", "Tags of sandboxes: get, set, keys."),
            Command(
                "usage",
                "usage",
                "Show what sandboxes have used: memory and disk, times the seconds they had it.",
            ),
            Command(
                "webhook",
                "webhook",
                "What happens to sandboxes, told to a URL: create, list, update, test, deliveries, …",
            ),
            Command("audit", "audit", "List what a sandbox reached and what it was refused, oldest first."),
        ),
    ),
    Section(
        "Saved states, images, ports and secrets",
        (
            Command(
                "checkpoint",
                "checkpoint",
                "Saved states: create, list, restore, delete, spawn, publish, unpublish.",
            ),
            Command("patch", "patch", "Scripts for forks of a checkpoint: create, list, delete."),
            Command("preview", "preview", "Ports of sandboxes under host names of their own."),
            Command("image", "image", "Images: build, list."),
            Command("snapshot", "snapshot", "Named snapshots: create, list, get, delete."),
            Command("snapshots", "snapshot", "Named snapshots: create, list, get, delete.", hidden=True),
            Command("mounts", "mounts", "Storage mounted in a sandbox: add, list, rm."),
            Command("mount", "mounts", "Storage mounted in a sandbox: add, list, rm.", hidden=True),
            Command("secret-store", "secret_store", "Secret stores: create, list, get, update, delete."),
            Command("secret", "secret", "Secrets of a store: set, list, delete."),
        ),
    ),
    Section(
        "Agents and sessions",
        (
            Command(
                "agent", "agent", "Durable agents, and agents in a sandbox (run, attach, ls SANDBOX, kill)."
            ),
            Command(
                "session", "durable_session", "Durable sessions: create, list, attach, logs, steer, result, …"
            ),
            Command(
                "mcp", "mcp", "Serve sandboxes as tools to an MCP client, over standard input and output."
            ),
            Command("repo", "repo", "Repositories that sessions may work on: add, list, get."),
            Command("credential", "credential", "Keys for models: add, list, rotate, set-default, remove."),
        ),
    ),
    Section(
        "You and this client",
        (
            Command(
                "login",
                "login",
                "Get a key for this machine: somebody with a key of the organisation approves it on a page.",
            ),
            Command("logout", "login", "End the login: revoke its key, and forget it."),
            Command("whoami", "login", "Show whose key applies, and where."),
            Command("keys", "keys", "API keys: create, list, revoke."),
            Command("config", "config", "Saved settings: set, show, and profiles of several servers."),
            Command(
                "completion",
                "completion",
                "Print the script that teaches a shell to complete `oc`, for its start-up file.",
            ),
            Command("update", "update", "Show the command that installs the newest version."),
        ),
    ),
    Section(
        "A node on this machine",
        (
            Command("serve", "serve", "Run a node on this machine until it is told to stop."),
            Command(
                "service", "service", "The node of this machine as a service: install, status, remove, unit."
            ),
            Command("doctor", "doctor", "Look at everything a node needs on this machine."),
            Command(
                "template",
                "template",
                "What sandboxes start from: list, get, delete; on this machine: build, import, rm.",
            ),
            Command(
                "templates",
                "template",
                "What sandboxes start from: list, get, delete; on this machine: build, import, rm.",
                hidden=True,
            ),
            Command(
                "backup", "backup", "Backups of a node on this machine: create, verify, list, prune, restore."
            ),
            Command(
                "orgs",
                "orgs",
                "Organisations of a node on this machine: create, revoke-hook.",
            ),
            Command(
                "keyring",
                "keyring",
                "Keys that secrets are encrypted with, of a node on this machine: rotate, forget.",
            ),
        ),
    ),
)
