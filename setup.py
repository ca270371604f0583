"""Compiles the hot modules with mypyc, from the same source, when partibus is installed.

Owns the lists of what is compiled and what is not; everything else about the distribution is in
pyproject.toml. Compiling only ever makes the server faster, so nothing in here may break an
install: when it is switched off (PARTIBUS_COMPILE=0), when there is no C compiler, or when
anything goes wrong, one line says so and the sources run as they are. An editable install
leaves the compiled modules beside their sources; docs/internals/hot-path.md says how the
list was chosen and how to work with it.
"""

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE: Final = Path("src")
PACKAGE: Final = "partibus"
WHOLE: Final = ("amqp", "cluster", "fragment", "message")
"""Packages that are compiled, but for what INTERPRETED names."""
OTHERS: Final = {
    "client": "head_columns message_columns message_rows property_text",
    "domain": "sequence",
    "domain.observing": "histogram",
    "gateway": "connection meters reading_turns router",
    "gateway.memory": "account",
    "gateway.jms": "browser consumer selecting subscriber",
    "gateway.links": "inbound outbound outcomes session session_source source submission",
    "store": "checksum reading record",
}
"""Of the other packages only what every message passes, as measured."""
INTERPRETED: Final = {
    "amqp.codec.types": "extends int and str, which a compiled class cannot",
    "amqp.conditions": "constants",
    "amqp.sasl": "once a connection",
    "amqp.settings": "a frozen dataclass, once a listener",
    "cluster.channel": "waits for sockets; serialising is msgspec's work",
    "cluster.codes": "constants",
    "cluster.control_hub": "administrative questions, a few a minute",
    "cluster.lane_table": "once a lane that moves",
    "cluster.membership": "once a process",
    "cluster.peers": "once a connection between workers",
    "cluster.node_group": "once a connection between nodes",
    "cluster.peer_certificates": "once a connection between nodes",
    "cluster.tls_transport": "once a connection between nodes",
    "cluster.transport": "once a connection between workers",
    "fragment.queue.browsing": "once a request of the management node",
    "fragment.spec": "a frozen dataclass, once an entity",
    "fragment.upkeep.usage": "once a sweep over idle entities",
    "fragment.upkeep.whole_snapshot": "for copies of a stopped server alone",
    "message.damaged": "for damaged messages alone",
    "message.decimals": "for decimals among application properties alone",
    "message.edits": "for copies that an action changes; the rules that it serves are interpreted",
    "message.forwarded": "called by the courier, which is interpreted",
    "message.trace_context": "for servers that export traces alone",
    "message.view": "read by the rules, which are interpreted",
}
"""What of the packages in WHOLE stays as it is, and why."""
# The commands in which modules are built; the others only ask for metadata.
BUILDING: Final = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}

CHECK: Final = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("partibus"):
            raise
"""


def hot_modules() -> list[str]:
    source = SOURCE / PACKAGE
    files = [file for package in WHOLE for file in sorted((source / package).rglob("[!_]*.py"))]
    whole = [".".join(file.relative_to(source).with_suffix("").parts) for file in files]
    others = [f"{folder}.{name}" for folder, names in OTHERS.items() for name in names.split()]
    return [f"{PACKAGE}.{name}" for name in [*whole, *others] if name not in INTERPRETED]


def source_file(module: str) -> Path:
    return SOURCE.joinpath(*module.split(".")).with_suffix(".py")


def stay_interpreted(reason: object) -> None:
    """Say why, and leave no compiled module behind that would run in place of its source."""
    print(f"{PACKAGE}: the hot modules stay interpreted: {reason}")
    drop_compiled(SOURCE)


def drop_compiled(folder: Path) -> None:
    for pattern in (f"{PACKAGE}__mypyc.*.so", f"{PACKAGE}/**/*.so"):
        for compiled in folder.glob(pattern):
            compiled.unlink(missing_ok=True)


def extensions() -> list[Extension]:
    """What mypyc makes of the hot modules; none when it cannot."""
    if not BUILDING & set(sys.argv):
        return []
    if os.environ.get("PARTIBUS_COMPILE") == "0":
        stay_interpreted("PARTIBUS_COMPILE is 0.")
        return []
    missing = missing_for_c()
    if missing is not None:
        stay_interpreted(f"{missing}.")
        return []
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return translate()
    # mypyc leaves by SystemExit when it finds an error.
    except (Exception, SystemExit) as error:
        first = said.getvalue().strip().partition("\n")[0]
        stay_interpreted(f"mypyc failed: {first or error!r}")
        return []


def missing_for_c() -> str | None:
    """What a C extension would need and is not here; asked first, since translating takes long."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler})"
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    return None if headers.is_file() else f"there are no headers of Python ({headers})"


def translate() -> list[Extension]:
    from mypyc.build import mypycify

    made: list[Extension] = mypycify(
        # The build has none of the packages that we import, and no need of their types.
        [
            "--config-file=",
            "--ignore-missing-imports",
            # Nor has it an interest in what the modules that stay interpreted make of them.
            "--follow-imports=silent",
            *map(str, map(source_file, hot_modules())),
        ],
        opt_level="3",
        debug_level="0",
        multi_file=True,
        group_name=PACKAGE,
    )
    for extension in made:
        # What a newer compiler warns of must not stop anybody's install.
        extension.extra_compile_args = [
            argument for argument in extension.extra_compile_args if argument != "-Werror"
        ]
    return made


class BuildHotModules(build_ext):
    """All hot modules, or none of them: they call each other without looking back."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        where = SOURCE if self.inplace else Path(self.build_lib)
        drop_compiled(where)
        try:
            super().run()
            self._check(where)
        except Exception as error:
            self.extensions = []
            drop_compiled(where)
            stay_interpreted(f"building them failed: {type(error).__name__}.")

    def _check(self, where: Path) -> None:
        """A module that compiles but cannot be imported is worse than a slow one."""
        paths = os.pathsep.join([str(where.resolve()), str(SOURCE.resolve())])
        subprocess.run(  # noqa: S603 - our own interpreter, our own words
            [sys.executable, "-c", CHECK, *hot_modules()],
            check=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        for compiled in where.glob(f"{PACKAGE}/**/*.so"):
            # Newer than every source, so that a source edited later shows.
            os.utime(compiled)


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildHotModules})
