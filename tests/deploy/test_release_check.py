"""What stands in the way of a release is found before anything is built."""

import subprocess
from pathlib import Path

import pytest
import release_check
from release_check import NotReady, check_changelog, check_tree


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository that may be released as 1.2.3."""
    (tmp_path / "src" / "partibus").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2026-01-02)\n\n## 1.2.2 (x)\n")
    inside = tmp_path / "src" / "partibus" / "__init__.py"
    inside.write_text('__version__: Final = "1.2.3"\n')
    monkeypatch.setattr(release_check, "ROOT", tmp_path)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    git(tmp_path, "tag", "v1.2.3")
    return tmp_path


def git(place: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=place, check=True)


def commit(place: Path) -> None:
    git(place, "add", ".")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    git(place, *who, "commit", "--quiet", "--message", "a")


def test_a_version_that_is_ready(copy: Path) -> None:
    assert check_changelog(is_release=True) == "version 1.2.3, 2026-01-02"
    assert check_tree(is_release=True) == "clean tree, tags: v1.2.3"


def test_a_version_that_the_changelog_does_not_know(copy: Path) -> None:
    (copy / "CHANGELOG.md").write_text("## 1.2.2 (2026-01-02)\n")
    with pytest.raises(NotReady, match=r"does not begin with version 1\.2\.3"):
        check_changelog(is_release=False)


def test_a_version_that_the_package_does_not_say(copy: Path) -> None:
    (copy / "src" / "partibus" / "__init__.py").write_text('__version__: Final = "1.2.2"\n')
    with pytest.raises(NotReady, match=r"does not say 1\.2\.3"):
        check_changelog(is_release=False)


def test_a_changelog_without_a_date_is_enough_before_the_release(copy: Path) -> None:
    (copy / "CHANGELOG.md").write_text("## 1.2.3 (unreleased)\n")
    assert check_changelog(is_release=False) == "version 1.2.3, unreleased"
    with pytest.raises(NotReady, match="write the date"):
        check_changelog(is_release=True)


def test_a_tree_with_changes(copy: Path) -> None:
    (copy / "CHANGELOG.md").write_text("changed")
    with pytest.raises(NotReady, match="not committed"):
        check_tree(is_release=False)


def test_a_commit_without_the_tag(copy: Path) -> None:
    (copy / "more").touch()
    commit(copy)
    assert check_tree(is_release=False) == "clean tree, tags: none"
    with pytest.raises(NotReady, match=r"git tag v1\.2\.3"):
        check_tree(is_release=True)
