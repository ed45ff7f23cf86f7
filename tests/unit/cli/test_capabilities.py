"""Every command and option that the contract of `oc` names is there, found in the commands themselves."""

from __future__ import annotations

from typing import Any, cast

import pytest
import typer.main

from opencomputer.cli.arguments import prepared
from opencomputer.cli.root import application

# One row for each command: how it is typed, and its options. `=` names a default that the contract fixes. The
# words of a command are those a person types, short forms and other names included.
COMMANDS = """
create: --timeout=0 --cpu=0 --memory=0 --env --metadata --secret-store --preview-auth --preview-auth-token
create: --template --snapshot --disk --burst
sandbox create: --timeout=0 --cpu=0 --memory=0 --env --metadata --secret-store --preview-auth --burst
ls
list
sandbox list
sandbox ls
sandbox get
sandbox kill: --delete-secret-store
sandbox hibernate
sandbox wake: --timeout
sandbox reboot
sandbox power-cycle
sandbox set-timeout
sandbox scale
sandbox autoscale: --on --off --min --max
sandbox lock
sandbox unlock
sandbox lock-status
sandbox allowed-hosts

exec sb-1: --cwd --timeout=0 --env --wait=False --detach=False
exec list
exec attach
exec kill: --signal=9
shell: --shell

checkpoint create: --name --kind=full --promote-to-full --retention-policy=none --retention-max-count
checkpoint list
checkpoint restore
checkpoint spawn: --timeout=0 --secret-store
checkpoint delete
checkpoint publish
checkpoint unpublish
cp create: --name --kind
cp list
cp spawn: --timeout
fork: --secret-store
patch create: --script --description
patch list
patch delete
preview create: --port --domain
preview list
preview delete
preview rotate-auth
mounts add: --path --remote --backend --cred --config-file --opt --command --env --secret --read-write=False
mounts list
mounts rm
mounts remove
mount list
template list
template ls
template get
template delete
templates list
snapshot ls
snapshot get
snapshot delete
snapshots list
secret-store create: --name --egress-allowlist
secret-store list
secret-store ls
secret-store get
secret-store update: --name --egress-allowlist
secret-store delete
secret set: --from-stdin --allowed-hosts
secret list
secret ls
secret delete
secret rm

logs: --no-tail --since --until --grep --source --limit
login: --no-browser=False --force=False
whoami
logout: --local=False
config set
config show
update: --check --yes
completion

agent create: --prompt --model --runtime --credential --core --secret --no-wait=False --display-name
agent list: --hosted
agent ls: --hosted
agent get: --agent --hosted
agent update: --agent --prompt --prompt-file --model --credential --limits
agent delete: --yes --hosted
agent status: --agent
agent init: --name --model=anthropic/claude-sonnet-5 --runtime=claude
agent build: --dir=. --target=cloudflare --output --check-only
agent deploy: --agent --no-activate --idempotency-key --timeout=180 --verbose
agent revisions: --agent
agent revisions get: --agent
agent versions: --agent
agent rollback: --agent
agent activations: --agent
agent link: --agent --path --branch=main --no-deploy --wait --timeout=180
agent unlink: --agent --yes
agent deployments: --agent
agent deployment: --agent --wait --timeout=180 --logs
agent invoke: --data --file --stdin --idempotency-key
agent hooks: --agent --include-revoked --cursor --limit
agent hook create: --agent --expires-at
agent hook get: --agent
agent hook revoke: --agent --yes
agent schedules: --agent
agent schedule create: --agent --cron --input --tz --overlap=skip
agent schedule get: --agent
agent schedule pause: --agent
agent schedule resume: --agent
agent schedule delete: --agent
agent schedule rm: --agent
agent schedule fire: --agent
agent schedule runs: --agent --limit
agent secret list: --agent
agent secret ls: --agent
agent secret set: --agent --from-stdin
agent secret delete: --agent
agent secret rm: --agent

agent connect: --bot-token --no-wait
agent disconnect: --yes
agent channels
agent install: --no-wait
agent uninstall: --yes
agent packages
agent events: --limit=50 --before
agent send: --conversation
agent chat
agent restart
agent logs: --tail=300
agent operations
agent instances bot
agent instances create
agent instances get
agent instances delete
agent run: --input --wait

session create: --agent --input --source --model --key --metadata --webhook --limits --follow
session create: --idempotency-key
session start: --agent --input
session list: --agent --status --key --limit --cursor
session ls
session get
session result
session cancel
session archive
session logs: --follow --after --level --type --turn
session steer: --idempotency-key
session send
session attach: --level
session turns
session token: --scope --ttl
session watch: --wake-on=checks --repo --pr --intent
session watches
session watch-list
session unwatch
session webhooks ses_1
session webhooks add: --secret --level --type
session webhooks rm
session webhooks deliveries
session webhooks redeliver
credential add: --provider --key --name --default
credential list
credential remove
credential rotate: --key
credential set-default
repo add
repo list
repo get
webhook create: --event-type --name --sandbox
webhook list
webhook get
webhook update
webhook secret
webhook test
webhook delete
webhook deliveries
webhook redeliver
usage: --by-tag --from --to
tags get
tags set
"""
ROWS = [row for row in COMMANDS.splitlines() if row]
GLOBAL = ("--json", "--quiet", "--no-color", "--api-key", "--api-url", "--sessions-api-url", "--version")


@pytest.fixture(scope="module")
def root() -> Any:
    return typer.main.get_command(application())


def command_of(root: Any, words: list[str]) -> Any:
    """The command that these words run; what follows its name is not looked at."""
    command = root
    for word in prepared(words):
        below: dict[str, Any] | None = getattr(command, "commands", None)
        if below is None:
            return command
        assert word in below, f"{word} of `oc {' '.join(words)}` is missing"
        command = below[word]
    is_group = getattr(command, "commands", None) and not command.invoke_without_command
    assert not is_group, f"`oc {' '.join(words)}` does nothing by itself"
    return command


def options_of(command: Any) -> dict[str, Any]:
    """The options by each of their names, with their defaults."""
    return {name: option for option in command.params for name in [*option.opts, *option.secondary_opts]}


@pytest.mark.parametrize("row", ROWS)
def test_a_command_of_the_contract_is_there_with_its_options(root: Any, row: str) -> None:
    words, _, options = row.partition(":")
    known = options_of(command_of(root, words.split()))
    for wanted in options.split():
        name, has_default, default = wanted.partition("=")
        assert name in known, f"`oc {words}` has no {name}"
        if has_default:
            found = cast(object, known[name].default)
            assert str(getattr(found, "value", found)).removesuffix(".0") == default


@pytest.mark.parametrize("name", GLOBAL)
def test_an_option_of_the_contract_is_there_for_all_commands(root: Any, name: str) -> None:
    assert name in options_of(root)
