"""How a Dockerfile is read, what COPY sees, and that ours is made as it should be."""

import os
from pathlib import Path

import pytest
from image.building import Image, configure
from image.debian import BaseError, base_root
from image.dockerfile import DockerfileError, Step, filled_in, parse, read
from image.ignoring import copy_context, digest_of, is_ignored

from support.repository import ROOT

OURS = ROOT / "deploy" / "Dockerfile"
IGNORE = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8")


def test_stages_steps_and_continued_lines() -> None:
    text = "ARG BASE=debian:x\nFROM ${BASE} AS one\nRUN a \\\n # why\n  && b\nFROM scratch\n"
    one, two = parse(text + "COPY --from=one --chown=1:2 /a /b\n")
    assert (one.base, one.name, two.base, two.name) == ("debian:x", "one", "scratch", "")
    assert (one.steps[0].keyword, one.steps[0].text, one.steps[0].line) == ("RUN", "a && b", 3)
    assert dict(two.steps[0].flags) == {"from": "one", "chown": "1:2"}
    assert two.steps[0].words() == ["/a", "/b"]


def test_an_argument_of_the_build_wins_over_its_default() -> None:
    assert parse("ARG BASE=a\nFROM $BASE\n", {"BASE": "b"})[0].base == "b"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "there is no FROM"),
        ("RUN true\n", "line 1: RUN is before"),
        ("FROM a\nADD b c\n", "line 2: ADD is not an instruction"),
        ("FROM a\nRUN --mount=type=cache x\n", "line 2: RUN has a form"),
        ("FROM a\nRUN <<EOF\n", "line 2: RUN has a form"),
        ("FROM a AS\n", "line 1: expected FROM"),
        ("FROM a\nRUN b \\\n", "line 2: the last line ends with"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(DockerfileError, match=complaint):
        parse(text)


def test_how_an_image_is_started() -> None:
    image = Image(Path())
    for keyword, text in [
        ("ENV", 'A=1 B="$A 2"'),
        ("USER", "5:6"),
        ("ENTRYPOINT", '["x"]'),
        ("CMD", '["y", "z"]'),
        ("HEALTHCHECK", 'CMD ["h"]'),
        ("EXPOSE", "1 2"),
        ("VOLUME", "/v"),
        ("STOPSIGNAL", "SIGINT"),
    ]:
        configure(image, Step(1, keyword, {}, text), {})
    assert (image.env["A"], image.user, image.ports, image.volumes) == ("1", "5:6", [1, 2], ["/v"])
    assert (image.entrypoint, image.cmd, image.healthcheck) == (["x"], ["y", "z"], ["h"])
    assert image.stop_signal == "SIGINT"
    assert filled_in("${A}-$B-$C", {"A": "1", "B": "2"}) == "1-2-"


@pytest.mark.parametrize(
    ("name", "ignored"),
    [
        ("pyproject.toml", False),
        ("src/partibus/py.typed", False),
        ("src/partibus/amqp/link.so", True),
        ("src/partibus/__pycache__/a.pyc", True),
        ("CHANGELOG.md", True),
        ("tests/a.py", True),
    ],
)
def test_what_the_build_sees(name: str, ignored: bool) -> None:
    assert is_ignored(name, IGNORE) is ignored


def test_copying_from_the_context(tmp_path: Path) -> None:
    context, target = tmp_path / "context", tmp_path / "target"
    (context / "src").mkdir(parents=True)
    (context / "src" / "a.py").write_text("a")
    (context / "src" / "a.so").write_text("b")
    (context / "README.md").write_text("c")
    before = digest_of(context, ["src"], IGNORE)
    (context / "src" / "a.so").write_text("changed")
    assert digest_of(context, ["src"], IGNORE) == before
    (context / "src" / "a.py").write_text("changed")
    assert digest_of(context, ["src"], IGNORE) != before
    copy_context(context, ["src"], target / "src", False, IGNORE)
    copy_context(context, ["README.md"], target, True, IGNORE)
    found = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert found == {"src/a.py", "README.md"}
    with pytest.raises(FileNotFoundError, match="nothing in the build context"):
        copy_context(context, ["gone"], target, True, IGNORE)


def test_a_base_that_cannot_be_had_is_refused(tmp_path: Path) -> None:
    assert base_root("scratch", tmp_path) is None
    with pytest.raises(BaseError, match="without a registry"):
        base_root("python:3.13", tmp_path)


STOPPED_HALF_WAY = """\
#!/bin/sh
mkdir -p "$3/proc"
mount -t tmpfs none "$3/proc"
touch "$3/proc/seen"
exit 1
"""


@pytest.mark.group("image")
def test_a_base_that_was_not_finished_leaves_nothing_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "bin" / "debootstrap"
    command.parent.mkdir()
    command.write_text(STOPPED_HALF_WAY)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    with pytest.raises(BaseError, match="debootstrap failed"):
        base_root("debian:trixie", tmp_path)
    (mounted,) = tmp_path.glob("*.new/proc")
    assert not mounted.is_mount()


def test_our_image_has_no_root_and_no_shell() -> None:
    *_, last = read(OURS)
    assert last.base == "scratch"
    image = Image(Path())
    for step in last.steps:
        configure(image, step, {})
    assert "RUN" not in {step.keyword for step in last.steps}
    assert image.user == "10001:10001"
    assert (image.entrypoint, image.cmd) == (["partibus"], ["serve", "--emulator"])
    assert image.volumes == ["/var/lib/partibus"] == [image.env["PARTIBUS_DATA"]]
    assert image.ports == [5672, 5671, 5300]
