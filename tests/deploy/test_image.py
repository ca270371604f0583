"""The image, built from its Dockerfile and brought up by compose files, with a stock SDK inside."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from image.building import Image

from deploy.built import built_image
from support.repository import ROOT

pytestmark = [pytest.mark.group("image"), pytest.mark.timeout(900)]

HERE = Path(__file__).parent
VENDOR_IMAGE = "mcr.microsoft.com/azure-messaging/servicebus-emulator:latest"
OURS = "partibus:latest"


@pytest.fixture(scope="module", autouse=True)
def image() -> Image:
    """Built here: the networks in which it is used lead nowhere."""
    return built_image()


def up(file: Path, text: str, entity: str, place: Path, **variables: str) -> dict[str, Any]:
    plan = {
        "file": str(file),
        "text": text,
        "image": OURS,
        "entity": entity,
        "place": str(place),
        "variables": variables,
    }
    program = [sys.executable, str(HERE / "in_network.py"), json.dumps(plan)]
    ran = subprocess.run(
        ["unshare", "--net", *program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    seen: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return seen


def check(seen: dict[str, Any]) -> None:
    """What holds for every file: no root, no shell, healthy, and messages survive a restart."""
    for life in (seen["first"], seen["second"]):
        assert life["used"] == "kept"
        assert life["health"] == {"status": "healthy", "message": "Service is healthy."}
        assert life["check"] == 0
        assert life["uid"] == "10001"
        assert life["privileges"] == ["0" * 16, "1"]
        assert life["verb"].startswith("partibus ")
        assert life["shell"] != 0


def test_a_file_for_the_vendors_emulator_needs_another_image_and_no_more(tmp_path: Path) -> None:
    file = HERE / "data" / "vendor-compose.yaml"
    text = file.read_text(encoding="utf-8").replace(VENDOR_IMAGE, OURS)
    given = {"CONFIG_PATH": str(ROOT / "examples" / "emulator.json"), "ACCEPT_EULA": "Y"}
    given |= {"MSSQL_SA_PASSWORD": "A-password-1", "SQL_WAIT_INTERVAL": "15"}
    seen = up(file, text, "orders", tmp_path, **given)
    check(seen)
    assert seen["first"]["emulator"]


def test_our_file_for_the_emulator(tmp_path: Path) -> None:
    file = ROOT / "deploy" / "compose.emulator.yaml"
    seen = up(file, file.read_text(encoding="utf-8"), "orders", tmp_path, EMULATOR_HTTP_PORT="5301")
    check(seen)
    assert seen["first"]["emulator"]


def test_our_file_for_a_bus(tmp_path: Path) -> None:
    file = ROOT / "deploy" / "compose.yaml"
    seen = up(file, file.read_text(encoding="utf-8"), "orders", tmp_path)
    check(seen)
    assert not seen["first"]["emulator"]
    assert "SAS_KEY_VALUE" not in seen["first"]["connection"]


def test_the_image_holds_what_it_should_and_no_more(image: Image) -> None:
    commands = {path.name for path in (image.root / "usr" / "bin").iterdir()}
    assert all(name.startswith("python3") for name in commands), commands
    assert not list(image.root.glob("usr/sbin/*"))
    assert not list(image.root.rglob("pip"))
    megabytes = sum(p.lstat().st_size for p in image.root.rglob("*") if p.is_file()) / 1e6
    assert megabytes < 200
    owners = {path.lstat().st_uid for path in image.root.rglob("*")}
    assert owners == {0, 10001}
