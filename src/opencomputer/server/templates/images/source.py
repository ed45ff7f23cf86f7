"""Where an image comes from, and the command lines that fetch and unpack it.

`skopeo` copies images from anywhere; `umoci` lays an image's layers over each other. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.templates import DEFAULT_TEMPLATE, template_name

TAG = "image"
"""What the copy is called in its layout."""

_LOCAL = ("oci", "oci-archive", "docker-archive", "dir", "docker-daemon", "containers-storage")
_REGISTRY = "docker"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_POLICY = Path("/etc/containers/policy.json")
_PASSED_ON = (
    # Where credentials of registries are kept.
    "HOME", "XDG_RUNTIME_DIR", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip


class InvalidSource(InvalidInput):
    """This names no image."""

    code = "invalid_image_source"


@dataclass(frozen=True)
class ImageSource:
    """An image as skopeo names it: `docker://alpine:3.20`, `oci:folder:tag`, `oci-archive:file`."""

    transport: str
    rest: str

    def __str__(self) -> str:
        return f"{self.transport}:{self.rest}"

    def at(self, digest: str) -> ImageSource:
        """The same image whatever becomes of its tag. Only registries can be asked for a digest."""
        if self.transport != _REGISTRY or "@" in self.rest:
            return self
        folder, slash, last = self.rest.rpartition("/")
        return ImageSource(self.transport, f"{folder}{slash}{last.partition(':')[0]}@{digest}")


def parse_source(text: str) -> ImageSource:
    """Raises InvalidSource, which says how to name an image."""
    transport, _, rest = text.partition(":")
    if transport == _REGISTRY and not (rest.startswith("//") and rest.strip("/")):
        raise InvalidSource("An image of a registry is named docker://NAME:TAG.")
    if transport not in (_REGISTRY, *_LOCAL):
        raise InvalidSource(
            f"Say where the image is: docker://{text} in a registry, oci:FOLDER:TAG, oci-archive:FILE or "
            "docker-archive:FILE."
        )
    if not rest or any(ord(character) < 32 for character in text):
        raise InvalidSource(f"{transport}: must be followed by where the image is.")
    return ImageSource(transport, rest)


def choose_name(source: ImageSource, given: str | None) -> str:
    """What the template is to be called. Raises InvalidSource when that cannot be a template's name."""
    name = given if given is not None else _name_of(source)
    if not _NAME.fullmatch(name):
        raise InvalidSource(
            f"`{name}` cannot name a template: only lower-case letters, digits, hyphens. Give a --name."
        )
    if template_name(name) != name or (given is None and name == DEFAULT_TEMPLATE):
        raise InvalidSource(f"`{name}` means the {DEFAULT_TEMPLATE} template; give another --name.")
    return name


def _name_of(source: ImageSource) -> str:
    place = source.rest.partition("@")[0]
    if source.transport == "oci" or source.transport.endswith("-archive"):
        place = place.partition(":")[0]
    last = place.rstrip("/").rpartition("/")[2].partition(":")[0]
    last = re.sub(r"(\.tar)?(\.(tar|gz|tgz))?$", "", last)
    return re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:63]


def architecture_of(machine: str) -> str:
    """How images name a processor that the kernel names `machine`."""
    return _ARCHITECTURES.get(machine, machine)


def inspect_arguments(source: ImageSource, architecture: str) -> list[str]:
    """Prints the digest of the image's manifest, or of the list that has one for each architecture."""
    return [*_skopeo(architecture), "inspect", "--no-tags", "--format", "{{.Digest}}", str(source)]


def parse_digest(lines: Sequence[str]) -> str | None:
    """The digest among what skopeo printed; warnings may stand around it."""
    return next((line.strip() for line in reversed(lines) if _DIGEST.fullmatch(line.strip())), None)


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def copy_arguments(source: ImageSource, layout: Path, architecture: str) -> list[str]:
    return [*_skopeo(architecture), "copy", "--quiet", str(source), f"oci:{layout}:{TAG}"]


def _skopeo(architecture: str) -> list[str]:
    """Signatures are checked where the operator has said which ones; without a policy skopeo refuses all."""
    policy = [] if _POLICY.exists() else ["--insecure-policy"]
    return ["skopeo", *policy, "--override-os=linux", f"--override-arch={architecture}"]


def unpack_arguments(layout: Path, root: Path) -> list[str]:
    """`raw`: without the bundle and the list of all files' checksums that nobody needs here."""
    return ["umoci", "raw", "unpack", "--image", f"{layout}:{TAG}", str(root)]


def program_environment(operator: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """What skopeo and umoci find in their environment. Archives are unpacked in `temporary` on the way."""
    chosen = {name: operator[name] for name in _PASSED_ON if operator.get(name)}
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"HOME": "/root", **chosen, "PATH": path, "LC_ALL": "C.UTF-8", "TMPDIR": str(temporary)}
