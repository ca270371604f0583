"""One Java machine for all JMS programs of this folder, and the server that they talk to.

The programs are compiled once and run one after the other in the same warm machine; each is a
plain Java program whose first argument is the address of the server.
"""

import base64
import itertools
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from conformance.sdks.drivers import JVM_FLAGS
from support.namespace import ROOT_KEY, ROOT_POLICY, write_namespace
from support.server import ServerProcess

HERE: Final = Path(__file__).parent
JARS: Final = f"{HERE / 'jars'}/*"
TOPICS: Final = 20
_numbers: Final = itertools.count()


class JavaHost:
    """The warm Java machine."""

    def __init__(self, classes: Path) -> None:
        self._process = subprocess.Popen(
            [shutil.which("java") or "java", *JVM_FLAGS, "-cp", f"{classes}:{JARS}", "Host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def run(self, program: str, *arguments: str) -> list[str]:
        """The lines that a program prints; a program that throws fails the test."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join((program, *arguments)) + "\n")
        self._process.stdin.flush()
        verdict, _, text = self._process.stdout.readline().rstrip("\n").partition("\t")
        printed = base64.b64decode(text).decode()
        assert verdict == "ok", f"{program} failed:\n{printed}"
        return printed.splitlines()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaHost]:
    classes = tmp_path_factory.mktemp("classes")
    sources = [str(source) for source in sorted((HERE / "programs").glob("*.java"))]
    subprocess.run(["javac", "-cp", JARS, "-d", str(classes), *sources], check=True)
    host = JavaHost(classes)
    yield host
    host.close()


def jms_url(server: ServerProcess, options: str = "", *, user: str = ROOT_POLICY) -> str:
    """The address of the server for Qpid JMS, with the name and the key of a policy."""
    key = quote(ROOT_KEY, safe="")
    host = f"amqp://localhost:{server.ready.amqp_port}"
    return f"{host}?jms.username={user}&jms.password={key}{options}"


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The queues of every conformance test, and topics beside them."""
    directory: Path = tmp_path_factory.mktemp("jms")
    config = write_namespace(directory / "namespace.toml")
    topics = [f'\n[[topic]]\nname = "topic-{number}"\n' for number in range(TOPICS)]
    config.write_text(config.read_text(encoding="utf-8") + "".join(topics), encoding="utf-8")
    with ServerProcess(directory, config) as process:
        yield process


@pytest.fixture
def topic() -> str:
    """A topic without subscriptions that no other test uses."""
    return f"topic-{next(_numbers)}"


@pytest.fixture
def url(server: ServerProcess) -> str:
    return jms_url(server)
