"""Runs the peers of the interoperability suite: what one sends, another receives.

Owns the commands of the peers, the compiling of the one in C++, and the server with a queue for
each pair. All messages of a pair go at once, so that a pair costs two processes and not hundreds.
"""

import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from support.groups import JS, PROTON_CPP_LIBRARY
from support.namespace import ROOT_KEY, ROOT_POLICY
from support.server import ServerProcess

HERE: Final = Path(__file__).parent
SECONDS_MAX: Final = 240
PEERS: Final = ("python", "cpp", "rhea")
GROUPS: Final = {"python": "proton", "cpp": "proton-cpp", "rhea": "javascript"}
PAIRS: Final = [(sender, receiver) for sender in PEERS for receiver in PEERS]

Message = list[str]
"""Its lines, in the form of `values`."""


def write_definitions(path: Path) -> Path:
    """A queue for each pair and each kind of messages."""
    names = [f"{kind}-{a}-{b}" for kind in ("small", "large") for a, b in PAIRS]
    made = [
        f'[[queue]]\nname = "{name}"\nmax_message_size_in_kilobytes = 20480\n' for name in names
    ]
    path.write_text("\n".join(made), encoding="utf-8")
    return path


@dataclass(frozen=True, slots=True)
class Bench:
    """The running server, and a place for the compiled peer."""

    server: ServerProcess
    place: Path

    def pass_on(
        self, kind: str, sender: str, receiver: str, messages: list[Message]
    ) -> list[Message]:
        """What the receiver gets of what the sender sends."""
        queue = f"{kind}-{sender}-{receiver}"
        sent = "".join("\n".join([*message, "end", ""]) for message in messages)
        self._run(sender, "send", queue, given=sent)
        got = self._run(receiver, "receive", queue, str(len(messages)))
        return [part.splitlines() for part in got.split("end\n")[:-1]]

    def _run(self, peer: str, mode: str, queue: str, *more: str, given: str = "") -> str:
        access = (str(self.server.ready.amqp_port), ROOT_POLICY, ROOT_KEY)
        done = subprocess.run(
            [*_command(peer, self.place), mode, *access, queue, *more],
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, f"{peer} {mode} {queue}: {done.stderr[-2000:]}"
        return done.stdout


@cache
def _command(peer: str, place: Path) -> tuple[str, ...]:
    if peer == "python":
        return (sys.executable, str(HERE / "peer.py"))
    if peer == "rhea":
        return ("node", str(JS / "peer.mjs"))
    program = place / "peer"
    source = str(HERE / "peer.cpp")
    command = ["g++", "-std=c++17", "-O1", source, "-o", str(program), f"-l{PROTON_CPP_LIBRARY}"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return (str(program),)
