"""Turns a recipe into a template: packages, certificates, the recipe's script, its files, then one rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from opencomputer.server.host.distribution import (
    Distribution,
    extra_certificates,
    read_distribution,
)
from opencomputer.server.templates import sources
from opencomputer.server.templates.catalogue import Template, find_template, make_current
from opencomputer.server.templates.commands import ALONE, BuildFailed, Progress, run
from opencomputer.server.templates.drafts import Workshop, measure, workshop
from opencomputer.server.templates.recipe import Recipe, load_recipe, template_hash

_PASSED_ON = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT", "NPM_CONFIG_REGISTRY",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
_BUILD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CERTIFICATES_IN_ROOT = "usr/local/share/ca-certificates/opencomputer-host"
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_BUNDLE_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


@dataclass(frozen=True)
class BuildOptions:
    """`environment` is the operator's; of it a build sees only where packages come from and proxies."""

    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    trust_host_certificates: bool = True
    rebuild: bool = False


@dataclass(frozen=True)
class _Build:
    """One build on its way. `lock` is the descriptor of the lock that its programs keep open."""

    recipe: Recipe
    host: Distribution
    certificates: Sequence[Path]
    environment: Mapping[str, str]
    progress: Progress
    folder: Path
    lock: int

    @property
    def root(self) -> Path:
        return self.folder / "rootfs"

    def run(self, arguments: Sequence[str], **environment: str) -> None:
        merged = {**self.environment, **environment}
        run(arguments, environment=merged, progress=self.progress, keep_open=(self.lock,))


def expected_hash(recipe: Recipe, options: BuildOptions = BuildOptions()) -> str:
    """The hash a build of this recipe on this host would have now."""
    chosen = extra_certificates() if options.trust_host_certificates else []
    return template_hash(
        recipe, host=str(read_distribution()), certificates=[path.read_bytes() for path in chosen]
    )


def build_template(
    recipe_dir: Path,
    templates_dir: Path,
    progress: Progress,
    options: BuildOptions = BuildOptions(),
) -> Template:
    """Build a recipe's template and make it the current one of its name; the same recipe is built once.

    Waits for a build that is already going on. Raises InvalidRecipe or BuildFailed; then, and when it is
    interrupted, nothing that looks like a template is left behind.
    """
    recipe = load_recipe(recipe_dir)
    wanted = expected_hash(recipe, options)
    with workshop(templates_dir, recipe.name, progress) as shop:
        template = find_template(templates_dir, recipe.name, wanted)
        if template is None or options.rebuild:
            template = _build(recipe, shop, wanted, _Context(progress, options))
        make_current(templates_dir, recipe.name, wanted)
    return template


@dataclass(frozen=True)
class _Context:
    progress: Progress
    options: BuildOptions


def _build(recipe: Recipe, shop: Workshop, wanted: str, context: _Context) -> Template:
    host = read_distribution()
    if not host.is_debian_like:
        raise BuildFailed(
            f"Templates are built from Debian's or Ubuntu's packages; this host is {host.name}."
        )
    with shop.draft(wanted) as folder:
        build = _Build(
            recipe=recipe,
            host=host,
            certificates=extra_certificates() if context.options.trust_host_certificates else [],
            environment=build_environment(context.options.environment),
            progress=context.progress,
            folder=folder,
            lock=shop.lock,
        )
        _install_packages(build)
        _add_certificates(build)
        _customise(build)
        _lay_files(build)
        return _finish(build, shop, wanted)


def build_environment(operator: Mapping[str, str]) -> dict[str, str]:
    """What the programs of a build find in their environment, given the operator's."""
    chosen = {name: operator[name] for name in _PASSED_ON if operator.get(name)}
    return chosen | {
        "PATH": _BUILD_PATH,
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
    }


def bootstrap_arguments(recipe: Recipe, codename: str, sources_file: Path, root: Path) -> list[str]:
    """The command that installs the packages of a recipe into the empty folder `root`."""
    return [
        *ALONE,
        "--mount-proc",
        "mmdebstrap",
        "--mode=root",
        "--format=directory",
        # Only essential packages besides the recipe's own.
        "--variant=minbase",
        "--aptopt=Acquire::Retries \"3\"",
        # Nobody needs a half-built root after a power failure, and gVisor's fsync is slow too.
        "--dpkgopt=force-unsafe-io",
        # Order counts: what is excluded first may be included again after it.
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.exclude),
        *(f"--dpkgopt=path-include={pattern}" for pattern in recipe.include),
        f"--include={','.join(recipe.packages)}",
        codename,
        str(root),
        str(sources_file),
    ]  # fmt: skip


def _install_packages(build: _Build) -> None:
    build.progress(f"> installing {len(build.recipe.packages)} packages of {build.host.name}")
    chosen = sources.for_release(sources.read_host_sources(), build.host.codename)
    if not chosen:
        raise BuildFailed(f"apt on this host has no mirror of {build.host.codename}.")
    sources_file = build.folder / "host.sources"
    sources_file.write_text("\n".join(source.render() for source in chosen))
    build.run(bootstrap_arguments(build.recipe, build.host.codename, sources_file, build.root))


def _add_certificates(build: _Build) -> None:
    folder = build.root / _CERTIFICATES_IN_ROOT
    for path in build.certificates:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / path.name)
    build.progress(f"> trusting {len(build.certificates)} extra certificates of this host")
    build.run(in_root(build.root, ["update-ca-certificates"]))


def _customise(build: _Build) -> None:
    """Run the recipe's script in the new root, with the host's resolver and without starting services."""
    if not build.recipe.script.exists():
        return
    inside = build.root / "customise.sh"
    no_services = build.root / "usr/sbin/policy-rc.d"
    shutil.copyfile("/etc/resolv.conf", build.root / "etc/resolv.conf")
    shutil.copyfile(build.recipe.script, inside)
    no_services.write_text("#!/bin/sh\nexit 101\n")
    no_services.chmod(0o755)
    bundle = dict.fromkeys(_BUNDLE_VARIABLES, _BUNDLE)
    build.run(in_root(build.root, ["/bin/sh", "/customise.sh"]), **bundle, **build.recipe.variables)
    inside.unlink()
    no_services.unlink()


def in_root(root: Path, arguments: Sequence[str]) -> list[str]:
    """The command that runs `arguments` in `root`. Its mounts and processes vanish with it."""
    return [
        *ALONE,
        f"--mount-proc={root}/proc",
        "chroot",
        str(root),
        *arguments,
    ]


def _lay_files(build: _Build) -> None:
    """Copy the recipe's `files/` over the root, as root's, with the modes that the recipe names."""
    files = build.recipe.files
    for source in sorted(files.rglob("*")) if files.is_dir() else []:
        target = build.root / source.relative_to(files)
        if source.is_symlink():
            target.unlink(missing_ok=True)
            target.symlink_to(source.readlink())
        elif source.is_dir():
            if not target.is_dir():
                target.mkdir()
                target.chmod(0o755)
        else:
            target.unlink(missing_ok=True)
            shutil.copyfile(source, target)
            # Version control keeps the execute bit only; the rest of a checkout's modes is chance.
            target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
    for name, mode in build.recipe.modes.items():
        (build.root / name).chmod(mode)


def _finish(build: _Build, shop: Workshop, wanted: str) -> Template:
    for leftover in ("tmp", "var/tmp", "run", "root/.cache", "var/cache/apt"):
        _empty(build.root / leftover)
    template = Template(
        name=build.recipe.name,
        hash=wanted,
        rootfs=shop.home / wanted / "rootfs",
        description=build.recipe.description,
        built_at=datetime.now(UTC),
        size_bytes=measure(build.root).size_bytes,
        package_count=(build.root / "var/lib/dpkg/status")
        .read_text()
        .count("\nStatus: install ok installed"),
        current=True,
    )
    (build.folder / "host.sources").unlink(missing_ok=True)
    shop.publish(build.folder, template)
    return template


def _empty(folder: Path) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
