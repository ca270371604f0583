"""Named connections in a file of the user: contexts.

Owns the file `contexts.toml` in the user's configuration directory, readable only by the user, and
which of its contexts is the current one. It must never print anything; secrets are only used for
the connection that a verb opens. Read by `place`, written by `partibus context`.
"""

import json
import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partibus.cli.failures import CommandFailed
from partibus.server.failure import EXIT_NOT_FOUND, EXIT_USAGE

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PRIVATE: Final = 0o600


@dataclass(slots=True, frozen=True, kw_only=True)
class Context:
    """One named connection."""

    connection_string: str = field(repr=False)
    url: str | None = None
    ca_file: str | None = None


@dataclass(slots=True, kw_only=True)
class Contexts:
    """All contexts of the user, and the current one."""

    named: dict[str, Context] = field(default_factory=dict)
    current: str | None = None

    def get(self, name: str) -> Context:
        """A context by its name; a missing one is an error that lists the existing ones."""
        if name in self.named:
            return self.named[name]
        known = ", ".join(sorted(self.named)) or "none"
        raise CommandFailed(
            f"there is no context '{name}'; existing: {known}. Make one with: partibus context"
            " add NAME",
            EXIT_NOT_FOUND,
        )


def contexts_file() -> Path:
    """Where the contexts are kept (XDG)."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "partibus" / "contexts.toml"


def load_contexts() -> Contexts:
    """Read the file; a missing file is like an empty one."""
    file = contexts_file()
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file} is not valid TOML: {error}.", EXIT_USAGE) from error
    try:
        named = {name: Context(**entry) for name, entry in table.get("context", {}).items()}
    except TypeError as error:
        raise CommandFailed(f"{file}: {error}.", EXIT_USAGE) from error
    return Contexts(named=named, current=table.get("current"))


def save_contexts(contexts: Contexts) -> Path:
    """Replace the file atomically, readable by the user only."""
    file = contexts_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(_text(contexts))
    fresh.replace(file)
    return file


def is_private(file: Path) -> bool:
    """Whether only its owner may read the file."""
    return not file.exists() or file.stat().st_mode & 0o077 == 0


def _text(contexts: Contexts) -> str:
    lines = ["# Connections of the partibus command. This file holds keys: keep it private."]
    if contexts.current is not None:
        lines.append(f"current = {json.dumps(contexts.current)}")
    for name, context in sorted(contexts.named.items()):
        lines += ["", f"[context.{json.dumps(name)}]"]
        for key in ("connection_string", "url", "ca_file"):
            value = getattr(context, key)
            if value is not None:
                lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"
