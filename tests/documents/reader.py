"""A program for namespaces of its own: a new user, who pastes a page into terminals.

Run as `unshare ... python reader.py PAGE CLONE GROUP`. It has a network to itself, so that the
ports are those of the page, and CLONE as its clone of the repository. It does what the page says
from the first block to the last, leaves out the blocks of groups other than GROUP, and ends with
code 1 and the reason where something does not work as written.
"""

import fnmatch
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from documents.page import FILES, PROGRAMS, Block, read_page

SERVER: Final = re.compile(r"^(?:\S*partibus serve|make run)\b")
SERVER_READY: Final = "PARTIBUS READY"
READY_SECONDS_MAX: Final = 120
BLOCK_SECONDS_MAX: Final = 900
BEGIN: Final = "source .venv/bin/activate"
SAMPLE: Final = "make run"
SELF_CONTAINED: Final = ("README.md", "docs/start.md")
"""Pages that tell all of it; every other one begins where docs/start.md ends."""


class Trouble(Exception):
    """Something on the page does not work as it is written."""


class Foreground:
    """A program in a terminal of its own, until Ctrl-C."""

    def __init__(self, script: str, ready_words: str, log: Path) -> None:
        self._log = log
        self._is_ready = threading.Event()
        self._process = subprocess.Popen(
            ["bash", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, args=(ready_words,), daemon=True).start()
        if not self._is_ready.wait(READY_SECONDS_MAX) or self._process.poll() not in (None, 0):
            raise Trouble(f"{ready_words!r} did not come:\n{self.said()}")

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8") if self._log.exists() else ""

    def _read(self, ready_words: str) -> None:
        assert self._process.stdout is not None
        with self._log.open("w", encoding="utf-8") as log:
            for line in self._process.stdout:
                log.write(line)
                log.flush()
                if ready_words in line:
                    self._is_ready.set()
        if self._process.wait() != 0:
            self._is_ready.set()

    def interrupt(self) -> None:
        """Ctrl-C, which a terminal gives to all that runs in it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        self._process.wait(READY_SECONDS_MAX)


class Reader:
    """A user with a shell, in which variables and the directory last from block to block."""

    def __init__(self, clone: Path, blocks: list[Block]) -> None:
        self._clone = clone
        self._blocks = blocks
        self._state = clone.parent / "shell-state"
        self._state.write_text(f"cd {shlex.quote(str(clone))}\n", encoding="utf-8")
        self._server: Foreground | None = None
        self._others: list[Foreground] = []
        self._printed = ""

    def follow(self) -> None:
        """All blocks, in their order."""
        try:
            for before, block in zip([None, *self._blocks], self._blocks, strict=False):
                self._do(block, before)
        finally:
            for program in reversed(self._others):
                program.interrupt()
            if self._server is not None:
                self._server.interrupt()

    def begin(self) -> None:
        """What docs/start.md has told: the environment, and the bus unless the page starts one."""
        self.type(BEGIN)
        if not any(SERVER.search(line) for b in self._blocks if b.is_run for line in _lines(b)):
            self.serve(SAMPLE)

    def _do(self, block: Block, before: Block | None) -> None:
        try:
            if block.language == "text" and not block.not_run and before and before.is_run:
                self._compare(block, before)
            elif block.language == "sh" and block.is_run:
                self._shell(block)
            elif block.language in PROGRAMS and block.is_run:
                self._program(block)
            elif block.language in FILES and block.saved_as:
                self._save(block.saved_as, block.text)
        except Trouble as trouble:
            raise Trouble(f"line {block.line}: {trouble}") from None

    def _shell(self, block: Block) -> None:
        if block.ready_words:
            self._others.append(self._foreground(block.text, block.ready_words))
            return
        self._printed = ""
        pending: list[str] = []
        for line in _lines(block):
            if SERVER.search(line):
                self._type_all(pending)
                self.serve(line)
                self._printed = ""
            else:
                pending.append(line)
        self._type_all(pending)

    def _type_all(self, lines: list[str]) -> None:
        if lines:
            self._printed += self.type("\n".join(lines))
            lines.clear()

    def type(self, script: str) -> str:
        """Paste lines into the shell; gives what it printed."""
        keep = f"{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} >{shlex.quote(str(self._state))}"
        done = subprocess.run(
            ["bash", "-c", f"set -e\n. {shlex.quote(str(self._state))}\n{script}\n{keep}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BLOCK_SECONDS_MAX,
            check=False,
        )
        if done.returncode != 0:
            raise Trouble(
                f"exit code {done.returncode} of\n{script}\n{done.stdout}{done.stderr}"
                + (f"\nThe server:\n{self._server.said()}" if self._server else "")
            )
        return done.stdout

    def serve(self, line: str) -> None:
        """Start a server in a terminal of its own, in the place of the one before."""
        if self._server is not None:
            self._server.interrupt()
        self._server = self._foreground(line, SERVER_READY)

    def _foreground(self, script: str, ready_words: str) -> Foreground:
        log = self._state.with_name(f"terminal-{len(self._others)}.log")
        return Foreground(f". {shlex.quote(str(self._state))}\n{script}", ready_words, log)

    def _program(self, block: Block) -> None:
        name = block.saved_as or f"program.{PROGRAMS[block.language]}"
        self._save(name, block.text)
        later = [b for b in self._blocks if b.language == "sh" and b.line > block.line]
        if not any(Path(name).stem in b.text for b in later if b.is_run):
            command = {"python": "python", "js": "node"}[block.language]
            if "VIRTUAL_ENV" not in self._state.read_text() and command == "python":
                command = ".venv/bin/python"
            self._printed = self.type(f"{command} {shlex.quote(name)}")

    def _save(self, name: str, text: str) -> None:
        path = self._clone / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _compare(self, block: Block, before: Block) -> None:
        if not before.is_exact:
            return
        if before.language == "sh" and SERVER.search(_lines(before)[-1]):
            self._compare_server(block)
            return
        wanted = [line.rstrip() for line in block.text.splitlines()]
        printed = [line.rstrip() for line in self._printed.splitlines()]
        if len(wanted) != len(printed) or not all(map(_fits, printed, wanted)):
            raise Trouble(f"the page says\n{block.text}\nand it printed\n{self._printed}")

    def _compare_server(self, block: Block) -> None:
        """Its READY line ends as the page says."""
        assert self._server is not None
        said = self._server.said()
        if not any(_fits(line, f"...{block.text.strip()}") for line in said.splitlines()):
            raise Trouble(f"the page says\n{block.text}\nand the server printed\n{said}")


def _fits(printed: str, wanted: str) -> bool:
    pattern = re.sub(r"([\[\]?*])", r"[\1]", wanted).replace("...", "*")
    return fnmatch.fnmatchcase(printed, pattern)


def _lines(block: Block) -> list[str]:
    """The lines of a shell block, those that end with a backslash with their rest."""
    return re.sub(r"\\\n\s*", " ", block.text).splitlines() if block.language == "sh" else []


def chosen(blocks: list[Block], group: str) -> list[Block]:
    """The blocks without those that need another group."""
    return [
        replace(b, not_run="another group") if b.group not in ("", group) else b for b in blocks
    ]


def main() -> int:
    name, clone, group = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    page = Path(clone, name)
    reader = Reader(Path(clone), chosen(read_page(page), group))
    try:
        if name not in SELF_CONTAINED:
            reader.begin()
        reader.follow()
    except Trouble as trouble:
        print(f"{name}, {trouble}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
