"""Drives the programs in ../go, ../rust and ../java, with the scenarios of their stock clients.

Owns the processes: a new one for each scenario in Go and Rust, which starts in milliseconds; one
JVM for all scenarios in Java, which reads a line of JSON for each and answers with one. An answer
is the result of the scenario, or the error it threw.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final, Protocol, Self

from support.groups import JAVA_SDK

SCENARIO_SECONDS_MAX: Final = 120
STOP_SECONDS_MAX: Final = 30
PASSWORD: Final = "changeit"
# A small heap and the quick compiler: scenarios are short, and several JVMs may run side by side.
JVM_FLAGS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class Program(Protocol):
    """What runs the scenarios of one language."""

    def run(self, client: str, name: str, given: dict[str, object]) -> dict[str, Any]: ...


class BuiltProgram:
    """The program that `make install` has built of ../go or ../rust."""

    def __init__(self, program: Path, ca: Path) -> None:
        self._program = program
        self._environment = os.environ | {"SSL_CERT_FILE": str(ca)}

    def run(self, client: str, name: str, given: dict[str, object]) -> dict[str, Any]:
        done = subprocess.run(
            [self._program, name, json.dumps(given)],
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=SCENARIO_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return outcome


class JavaProgram:
    """The program of ../java in one JVM, started when the first scenario is asked for."""

    def __init__(self, directory: Path, ca: Path) -> None:
        self._log = directory / "java.log"
        self._trust = directory / "trusted.p12"
        self._ca = ca
        self._process: subprocess.Popen[str] | None = None

    def run(self, client: str, name: str, given: dict[str, object]) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        asked = {"client": client, "name": name, "input": given}
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the JVM ended:\n{self._log.read_text(encoding='utf-8')}"
        outcome: dict[str, Any] = json.loads(line)
        return outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process is None:
            return
        try:
            self._process.communicate(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _start(self) -> "subprocess.Popen[str]":
        self._make_trust()
        built = JAVA_SDK / "build"
        trust = (
            f"-Djavax.net.ssl.trustStore={self._trust}",
            f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
        )
        command = ["java", *JVM_FLAGS, *trust, "-cp", f"{built / 'classes'}:{built / 'lib'}/*"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "conformance.Main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return self._process

    def _make_trust(self) -> None:
        """The development CA as a trust store, made as docs/guides/connecting.md says."""
        command = ["keytool", "-importcert", "-noprompt", "-alias", "partibus"]
        command += ["-file", str(self._ca), "-keystore", str(self._trust), "-storepass", PASSWORD]
        subprocess.run(command, capture_output=True, check=True)


class Sdk:
    """One client of one language, pointed at a server."""

    def __init__(self, client: str, program: Program, connection: str, port: int) -> None:
        self.client = client
        self.connection = connection
        self._program = program
        # Java's administration client drops the port of a connection string.
        self._given: dict[str, object] = {"connection": connection, "port": port}

    def run(self, name: str, **given: object) -> Any:
        """The result of a scenario; the test fails with the scenario's error if it threw."""
        outcome = self._outcome(name, given)
        assert "error" not in outcome, outcome["error"]
        return outcome.get("result")

    def failure(self, name: str, **given: object) -> str:
        """The code of the error that a scenario threw; the test fails if it threw none."""
        outcome = self._outcome(name, given)
        assert "error" in outcome, f"{name} should have failed but gave {outcome}"
        code: str = outcome["error"]["code"]
        assert code, outcome["error"]
        return code

    def _outcome(self, name: str, given: dict[str, object]) -> dict[str, Any]:
        return self._program.run(self.client, name, self._given | given)
