"""Executes the stages of a Dockerfile in directories, and returns the last one as an image.

Owns the meaning of the instructions. Steps whose text and inputs have not changed are taken from
the directory of earlier ones, as an engine's cache does. RUN sees the network of this machine, its
certificates and the settings of its package index, which an engine is given by its own
configuration; none of that stays in the image.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from image.debian import base_root
from image.dockerfile import DockerfileError, Stage, Step, argument, filled_in, pairs, read
from image.ignoring import copy_context, digest_of

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INHERITED: Final = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "http_proxy", "https_proxy", "no_proxy")
BOUND: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf")
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
HOST_CERTIFICATES: Final = "/run/host-certificates.crt"


@dataclass(slots=True)
class Image:
    """A root file system and how it is started."""

    root: Path
    env: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    labels: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    workdir: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    cmd: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    stop_signal: str = "SIGTERM"


@dataclass(frozen=True, slots=True)
class Layer:
    """A step that changes files, with all that it depends on, named by a digest of it."""

    key: str
    step: Step | None
    env: Mapping[str, str]
    workdir: str

    @property
    def reads_sources(self) -> bool:
        """Whether it copies files of the repository, and so changes with every edit."""
        step = self.step
        return step is not None and step.keyword == "COPY" and "from" not in step.flags


class Building:
    """One run over a Dockerfile."""

    def __init__(self, context: Path, kept: Path, build_args: Mapping[str, str]) -> None:
        self._context = context
        self._kept = kept
        self._build_args = build_args
        self._ignore = ""
        self._stages: dict[str, Image] = {}
        self._keys: dict[str, str] = {}
        self._used: set[Path] = set()

    def build(self, dockerfile: Path) -> Image:
        """The image of the last stage; its root stays in the directory of kept layers.

        A caller that comes while it is being built waits, and finds it done."""
        layers = self._kept / "layers"
        layers.mkdir(parents=True, exist_ok=True)
        with (self._kept / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            image = self._build(dockerfile)
            for old in set(layers.iterdir()) - self._used:
                shutil.rmtree(old)
        return image

    def _build(self, dockerfile: Path) -> Image:
        ignore = dockerfile.with_name(f"{dockerfile.name}.dockerignore")
        self._ignore = ignore.read_text(encoding="utf-8") if ignore.exists() else ""
        stages = read(dockerfile, self._build_args)
        for stage in stages:
            made = self._build_stage(stage)
        return made

    def _build_stage(self, stage: Stage) -> Image:
        image = Image(Path())
        plan: list[Layer] = [Layer(_digest("from", stage.base), None, {}, "/")]
        arguments: dict[str, str] = {}
        for step in stage.steps:
            if step.keyword == "ARG":
                name, value = argument(step, self._build_args)
                arguments[name] = value
            elif step.keyword in {"RUN", "COPY", "WORKDIR"}:
                plan.append(self._layer(plan[-1].key, image, step, arguments))
            else:
                configure(image, step, arguments)
            if step.keyword == "WORKDIR":
                image.workdir = filled_in(step.text, image.env)
        image.root = self._root_of(stage.base, plan)
        self._stages[stage.name] = image
        self._keys[stage.name] = plan[-1].key
        return image

    def _layer(self, key: str, image: Image, step: Step, arguments: Mapping[str, str]) -> "Layer":
        """What a layer depends on: all before it, the step, and what the step reads."""
        env = image.env | dict(arguments)
        parts = [key, step.keyword, step.text, repr(sorted(step.flags.items()))]
        parts += [repr(sorted(env.items())), image.workdir]
        if step.keyword == "COPY":
            source = step.flags.get("from")
            if source is None:
                parts.append(digest_of(self._context, step.words()[:-1], self._ignore))
            else:
                parts.append(self._keys[source])
        return Layer(_digest(*parts), step, env, image.workdir)

    def _root_of(self, base: str, plan: "list[Layer]") -> Path:
        """Continue from the last kept layer; keep the last one that has no sources yet."""
        kept = [self._kept / "layers" / layer.key[:24] for layer in plan]
        self._used |= set(kept)
        begin = max((n for n, root in enumerate(kept) if root.is_dir()), default=0)
        if kept[-1].is_dir():
            return kept[-1]
        made = self._kept / "layers" / f"new.{os.getpid()}"
        shutil.rmtree(made, ignore_errors=True)
        copy_root(kept[begin] if begin else base_root(base, self._kept), made)
        for number in range(begin + 1, len(plan)):
            layer = plan[number]
            assert layer.step is not None
            if begin < number - 1 and layer.reads_sources and not plan[number - 1].reads_sources:
                copy_root(made, kept[number - 1])
            print(f"{layer.step.keyword} {layer.step.text[:100]}", flush=True)
            self._execute(made, layer)
        return made.rename(kept[-1])

    def _execute(self, root: Path, layer: "Layer") -> None:
        step = layer.step
        assert step is not None
        if step.keyword == "RUN":
            run_in(root, layer.workdir, step.text, layer.env)
        elif step.keyword == "COPY":
            self._copy(root, layer.workdir, step)
        else:
            inside(root, filled_in(step.text, layer.env)).mkdir(parents=True, exist_ok=True)

    def _copy(self, root: Path, workdir: str, step: Step) -> None:
        *sources, place = step.words()
        target = inside(root, str(Path(workdir, place)))
        source = step.flags.get("from")
        if source is None:
            copy_context(self._context, sources, target, place.endswith("/"), self._ignore)
            return
        if source not in self._stages:
            raise DockerfileError(f"line {step.line}: there is no stage named {source}")
        target.mkdir(parents=True, exist_ok=True)
        for name in sources:
            taken = inside(self._stages[source].root, name)
            subprocess.run(["cp", "--archive", "--", f"{taken}/.", target], check=True)
        if "chown" in step.flags:
            subprocess.run(["chown", "--recursive", step.flags["chown"], target], check=True)


def configure(image: Image, step: Step, arguments: Mapping[str, str]) -> None:
    """The instructions that say how an image is started."""
    known = image.env | dict(arguments)
    match step.keyword:
        case "ENV":
            image.env |= {name: filled_in(value, known) for name, value in pairs(step).items()}
        case "LABEL":
            image.labels |= pairs(step)
        case "USER":
            image.user = filled_in(step.text, known)
        case "ENTRYPOINT":
            image.entrypoint = step.words()
        case "CMD":
            image.cmd = step.words()
        case "HEALTHCHECK":
            _, _, command = step.text.partition("CMD ")
            image.healthcheck = Step(step.line, "CMD", {}, command).words()
        case "VOLUME":
            image.volumes += step.words()
        case "EXPOSE":
            image.ports += [int(port) for port in step.words()]
        case "STOPSIGNAL":
            image.stop_signal = step.text


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def inside(root: Path, place: str) -> Path:
    """A path of an image, as a path of this machine."""
    return root / place.lstrip("/")


def copy_root(source: Path | None, target: Path, *, is_read_only: bool = False) -> None:
    """All of a root file system; nothing for `scratch`. One that is only read shares its files with
    the source, where both are on one disk."""
    if source is None:
        target.mkdir()
        return
    is_linked = is_read_only and source.stat().st_dev == target.parent.stat().st_dev
    how = "--link" if is_linked else "--reflink=auto"
    subprocess.run(["cp", "--archive", how, "--", source, target], check=True)


def run_in(root: Path, workdir: str, command: str, given: Mapping[str, str]) -> None:
    """A RUN: by the image's own shell, as root, in its own mount and process namespaces."""
    env = {**given, "DEBIAN_FRONTEND": "noninteractive", "HOME": "/tmp"}  # noqa: S108
    env |= {name: os.environ[name] for name in INHERITED if name in os.environ}
    steps = ["set -e", 'mount -t tmpfs none "$0/run"']
    for place in BOUND:
        if Path(place).exists():
            steps += [f'touch "$0{place}"', f'mount --bind {place} "$0{place}"']
    if CERTIFICATES.exists():
        env["PIP_CERT"] = HOST_CERTIFICATES
        steps += [f'touch "$0{HOST_CERTIFICATES}"']
        steps += [f'mount --bind {CERTIFICATES} "$0{HOST_CERTIFICATES}"']
    steps += ['mount -t proc proc "$0/proc"', 'cd "$0"']
    steps += ['exec chroot "$0" /bin/sh -c \'cd "$0" && eval "$1"\' "$1" "$2"']
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", "; ".join(steps)]
    subprocess.run([*words, root, workdir, command], env=env, check=True)
