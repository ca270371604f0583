"""Reads a Dockerfile: stages, instructions, and the words that variables stand for.

Owns the syntax that our own file uses, and refuses everything else by line: a step that is not
understood must never be skipped. It executes nothing; `image.building` does.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

KNOWN: Final = (
    *("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL"),
    *("RUN", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
)
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_FLAG: Final = re.compile(r"--([a-z-]+)=(\S+)\s+")


class DockerfileError(ValueError):
    """A Dockerfile that cannot be executed here; the text names the line."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction, with its flags and the rest of its text unchanged."""

    line: int
    keyword: str
    flags: Mapping[str, str]
    text: str

    def words(self) -> list[str]:
        """The exec form as it is, the shell form in words."""
        if self.text.startswith("["):
            words: list[str] = json.loads(self.text)
            return words
        return shlex.split(self.text)


@dataclass(frozen=True, slots=True)
class Stage:
    """From one FROM to the next."""

    base: str
    name: str
    steps: list[Step] = field(default_factory=list)


def parse(text: str, build_args: Mapping[str, str] | None = None) -> list[Stage]:
    """The stages of a Dockerfile, with the names of their bases filled in."""
    before: dict[str, str] = {}
    stages: list[Stage] = []
    for step in _steps(text):
        if step.keyword == "FROM":
            stages.append(_stage(step, before))
        elif stages:
            stages[-1].steps.append(step)
        elif step.keyword == "ARG":
            name, value = argument(step, build_args or {})
            before[name] = value
        else:
            raise DockerfileError(f"line {step.line}: {step.keyword} is before the first FROM")
    if not stages:
        raise DockerfileError("there is no FROM")
    return stages


def read(path: Path, build_args: Mapping[str, str] | None = None) -> list[Stage]:
    """The stages of a file."""
    return parse(path.read_text(encoding="utf-8"), build_args)


def argument(step: Step, build_args: Mapping[str, str]) -> tuple[str, str]:
    """The name and the value of an ARG: the one given to the build, or else its default."""
    name, _, default = step.text.partition("=")
    return name, build_args.get(name, default)


def pairs(step: Step) -> dict[str, str]:
    """The K=V words of ENV and LABEL."""
    found: dict[str, str] = {}
    for word in shlex.split(step.text):
        name, sign, value = word.partition("=")
        if not sign:
            raise DockerfileError(
                f"line {step.line}: {step.keyword} needs NAME=VALUE, not '{word}'"
            )
        found[name] = value
    return found


def filled_in(text: str, values: Mapping[str, str]) -> str:
    """A text with $NAME and ${NAME} replaced; an unknown name stands for nothing."""
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], ""), text)


def _stage(step: Step, values: Mapping[str, str]) -> Stage:
    words = filled_in(step.text, values).split()
    if len(words) == 1:
        return Stage(words[0], "")
    if len(words) == 3 and words[1].upper() == "AS":
        return Stage(words[0], words[2])
    raise DockerfileError(f"line {step.line}: expected FROM IMAGE [AS NAME]")


def _steps(text: str) -> list[Step]:
    found: list[Step] = []
    pending = ""
    began = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        began = number if not pending else began
        pending += line.strip() if not pending else f" {line.strip()}"
        if pending.endswith("\\"):
            pending = pending[:-1].rstrip()
            continue
        found.append(_step(began, pending))
        pending = ""
    if pending:
        raise DockerfileError(f"line {began}: the last line ends with a backslash")
    return found


def _step(line: int, text: str) -> Step:
    keyword, _, rest = text.partition(" ")
    if keyword not in KNOWN:
        raise DockerfileError(f"line {line}: {keyword} is not an instruction supported here")
    flags: dict[str, str] = {}
    rest = rest.strip()
    while keyword in {"COPY", "FROM", "HEALTHCHECK"} and (found := _FLAG.match(rest)):
        flags[found[1]] = found[2]
        rest = rest[found.end() :]
    if "<<" in rest or (keyword in {"RUN", "COPY"} and rest.startswith("--")):
        raise DockerfileError(f"line {line}: {keyword} has a form that is not supported here")
    return Step(line, keyword, flags, rest)
