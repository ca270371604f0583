"""The image that the tests use: built from deploy/Dockerfile, once for all of them.

The hot modules stay interpreted, which is what makes the build a matter of seconds; everything else
is as an engine would build it. Layers are kept below `build/`: a second run has little to do.
"""

from pathlib import Path

from image.building import Building, Image

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "image"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"


def built_image() -> Image:
    """The image, built by whoever asks first."""
    return Building(ROOT, KEPT, {"PARTIBUS_COMPILE": "0"}).build(DOCKERFILE)
