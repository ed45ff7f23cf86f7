"""Making somebody else's root file system fit for machines: the user, its home, names, certificates.

Nothing of the image is ever run on the host; files are read and written, and that inside the image only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.domain.egress import RESOLVER_ADDRESS
from opencomputer.server.templates.images import accounts
from opencomputer.server.templates.images.config import ImageConfig
from opencomputer.server.templates.images.rooted import RootedTree

GENERATION = 1
"""Part of every hash: raised when another template is made from the same image."""

_HOST_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_OTHER_BUNDLES = ("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem")
_CERTIFICATE_FOLDERS = ("/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors")
_CERTIFICATE_VARIABLES = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
)  # fmt: skip
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
_MOUNT_POINTS = {
    "/.oc": 0o755, "/dev": 0o755, "/proc": 0o555, "/sys": 0o555, "/run": 0o755,
    "/tmp": 0o1777, "/var/tmp": 0o1777,
}  # fmt: skip

_FILES: Mapping[str, str] = {
    "/etc/hostname": "sandbox\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n",
    "/etc/machine-id": "",
    "/etc/resolv.conf": f"nameserver {RESOLVER_ADDRESS}\noptions timeout:3 attempts:2\n",
}
_LOGIN_SCRIPT = """\
# /etc/profile replaces PATH in login shells; put ours back. Other variables count only where none is set.
PATH=$(sed -n 's/^PATH=//p' /etc/opencomputer/environment)
export PATH
while IFS='=' read -r oc_name oc_value; do
    case $oc_name in '' | '#'* | *[!A-Za-z0-9_]*) continue ;; esac
    eval "[ -n \\"\\${$oc_name+set}\\" ]" || export "$oc_name=$oc_value"
done < /etc/opencomputer/environment
unset oc_name oc_value
"""
_SUDO = """\
#!/bin/sh
# Where the machine's kernel honours set-user-ID bits this ends in /usr/bin/sudo, else PID 1 does the work.
exec /.oc/bin/python3 -I -S /.oc/lib/opencomputer_inside/sudo/client.py "$@"
"""
_SUDO_RULE = """\
# The user of a sandbox may do everything in it; the sandbox is the boundary, not the user.
Defaults env_file=/etc/opencomputer/environment
sandbox ALL=(ALL:ALL) NOPASSWD: ALL
"""


@dataclass(frozen=True)
class Furniture:
    """What is brought in besides. `trust_host`: the host's authorities where the image has none."""

    certificates: Sequence[Path]
    trust_host: bool


def furnish(tree: RootedTree, config: ImageConfig, furniture: Furniture) -> list[str]:
    """Returns what does not work in machines of this image, in words. Raises BuildFailed."""
    notes = _shells(tree)
    for path, mode in _MOUNT_POINTS.items():
        tree.make_folder(path, mode=mode)
    for path, text in _FILES.items():
        tree.write(path, text)
    notes += _add_user(tree)
    if config.workdir is not None:
        tree.make_folder(config.workdir, owner=accounts.UID)
    trusts = _add_certificates(tree, furniture)
    if not trusts:
        notes.append("no certificate authorities: programs cannot check whom they talk to")
    _add_environment(tree, config, trusts=trusts)
    _add_sudo(tree)
    if not tree.exists("/usr/local/bin/claude-agent-wrapper"):
        notes.append("no claude-agent-wrapper: agents do not run in sandboxes of this template")
    return notes


def _shells(tree: RootedTree) -> list[str]:
    if not tree.is_program("/bin/sh"):
        return ["no /bin/sh: programs can be run, but no shell commands and no terminals"]
    if not tree.is_program("/bin/bash"):
        return ["no bash: commands and terminals use /bin/sh, and the SDK's persistent shell does not work"]
    return []


def _add_user(tree: RootedTree) -> list[str]:
    shell = "/bin/bash" if tree.is_program("/bin/bash") else "/bin/sh"
    passwd = accounts.with_user(tree.read("/etc/passwd"), shell)
    home = accounts.home_of(passwd)
    tree.rewrite("/etc/passwd", passwd)
    tree.rewrite("/etc/group", accounts.with_group(tree.read("/etc/group")))
    if tree.exists("/etc/shadow"):
        tree.rewrite("/etc/shadow", accounts.with_shadow(tree.read("/etc/shadow")))
    tree.make_folder(home, owner=accounts.UID)
    if tree.exists("/workspace"):
        return [f"/workspace is the image's own and not another name of {home}"]
    tree.link("/workspace", home)
    return []


def _add_certificates(tree: RootedTree, furniture: Furniture) -> bool:
    """Whether there is a bundle of authorities at the usual place now."""
    extra = {path.name: path.read_text(errors="replace").strip() for path in furniture.certificates}
    present = [path for path in (_BUNDLE, *_OTHER_BUNDLES) if tree.locate(path).is_file()]
    for place in {tree.locate(path): path for path in present}.values():
        text = tree.read(place)
        missing = [certificate for certificate in extra.values() if certificate not in text]
        if missing:
            tree.rewrite(place, "\n".join([text.rstrip("\n"), *missing, ""]))
    for folder in _CERTIFICATE_FOLDERS if extra else ():
        if folder == _CERTIFICATE_FOLDERS[0] or tree.is_folder(folder):
            for name, certificate in extra.items():
                tree.write(f"{folder}/opencomputer-host-{name}", certificate + "\n")
    if _BUNDLE in present:
        return True
    if present:
        tree.write(_BUNDLE, tree.read(present[0]))
    elif furniture.trust_host and _HOST_BUNDLE.is_file():
        tree.write(_BUNDLE, _HOST_BUNDLE.read_text(errors="replace"))
    else:
        return False
    return True


def _add_environment(tree: RootedTree, config: ImageConfig, *, trusts: bool) -> None:
    """What `sudo` and login shells give to programs; others get the image's from the node, too."""
    variables = {"PATH": _PATH}
    if trusts:
        variables |= dict.fromkeys(_CERTIFICATE_VARIABLES, _BUNDLE)
    variables |= config.environment
    lines = [f"{name}={value}" for name, value in variables.items() if "\n" not in name + value]
    head = "# What every process in this machine finds in its environment unless it is told otherwise.\n"
    tree.write("/etc/opencomputer/environment", head + "\n".join(lines) + "\n")
    if tree.is_folder("/etc/profile.d"):
        tree.write("/etc/profile.d/opencomputer.sh", _LOGIN_SCRIPT)


def _add_sudo(tree: RootedTree) -> None:
    if tree.is_program("/bin/sh") and not tree.exists("/usr/local/bin/sudo"):
        tree.write("/usr/local/bin/sudo", _SUDO, mode=0o755)
    if tree.is_folder("/etc/sudoers.d"):
        tree.write("/etc/sudoers.d/sandbox", _SUDO_RULE, mode=0o440)
