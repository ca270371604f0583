"""The sdist and the wheel: built here, installed where nothing else is, used by a stock client."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from support.archives import unpack
from support.repository import ROOT, repository_files

BUILD = "import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
SMOKE = ROOT / "tools" / "wheel_smoke.py"


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PARTIBUS_")}
    kept.pop("PYTHONPATH", None)
    return kept | more


def build(kind: str, source: Path, dist: Path, **env: str) -> Path:
    dist.mkdir(exist_ok=True)
    built = subprocess.run(
        [sys.executable, "-c", BUILD.format(kind=kind), str(dist)],
        cwd=source,
        env=clean_environment(**env),
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (file,) = dist.iterdir()
    return file


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("packages")
    source = place / "source"
    for file in repository_files():
        target = source / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    # As in a working copy with compiled modules, which belong to one machine.
    (source / "src" / "partibus" / "amqp" / "link.cpython-311-x86_64-linux-gnu.so").touch()
    return build("sdist", source, place / "dist")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On a machine without a C compiler, and with nothing but the sdist."""
    place = tmp_path_factory.mktemp("wheel")
    unpack(sdist, place)
    (source,) = place.iterdir()
    return build("wheel", source, place / "dist", CC="no-such-compiler")


def test_the_sdist_holds_what_a_build_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md"} <= names
    assert {"deploy/Dockerfile", "examples/namespace.toml", "docs/start.md"} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]
    assert not [name for name in names if name.startswith("tests/")]


def test_without_a_compiler_the_wheel_is_one_for_every_machine(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
    assert {"partibus/py.typed", "pyspark_servicebus/py.typed"} <= names
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    assert "Project-URL: Source, https://" in text
    assert "Provides-Extra: java" in text
    assert "Provides-Extra: test\n" not in text


def test_the_wheel_works_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place)
    python = place / "bin" / "python"
    (packages,) = place.glob("lib/*/site-packages")
    # What it depends on comes from here, to be quick; it itself must come from the wheel.
    there = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(there) + "\n", encoding="utf-8")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    install += ["--no-deps", "--no-index", "--ignore-installed", str(wheel)]
    subprocess.run(install, check=True, env=clean_environment())
    ran = subprocess.run(
        [python, SMOKE, "--compiled", "no"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "a message went there and back" in ran.stdout
    where = "import partibus, pathlib; print(pathlib.Path(partibus.__file__).parent)"
    found = subprocess.check_output([python, "-c", where], text=True, env=clean_environment())
    assert found.strip() == str(packages / "partibus")
