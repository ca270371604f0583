"""`python -m image build|run`: the image from deploy/Dockerfile, without a container engine."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from image.building import Building, Image
from image.container import Container
from image.debian import BaseError
from image.dockerfile import DockerfileError

ROOT: Final = Path(__file__).resolve().parents[2]
KEPT: Final = ROOT / "build" / "image"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m image", description=__doc__)
    parser.add_argument("verb", choices=["build", "run"])
    parser.add_argument("words", nargs="*", help="for run: instead of the image's own CMD")
    parser.add_argument("--file", type=Path, default=ROOT / "deploy" / "Dockerfile")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where layers are kept")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    arguments = dict(word.partition("=")[::2] for word in given.build_arg)
    try:
        image = Building(ROOT, given.kept.resolve(), arguments).build(given.file)
    except (DockerfileError, BaseError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{image.root}: {_megabytes(image.root)} MB", flush=True)
    return 0 if given.verb == "build" else _run(image, given.words)


def _run(image: Image, words: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="partibus-container-") as directory:
        container = Container(
            image=image, root=Path(directory, "root"), command=words, is_read_only=False
        )
        container.create()
        with container.start() as process:
            try:
                return process.wait()
            except KeyboardInterrupt:
                return process.wait()


def _megabytes(root: Path) -> int:
    sizes = (path.lstat().st_size for path in root.rglob("*") if not path.is_symlink())
    return sum(sizes) // 1_000_000


if __name__ == "__main__":
    sys.exit(main())
