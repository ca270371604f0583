"""What stands in the way of a release is found before anything is built."""

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
    says(monkeypatch, tags="v1.2.3\n")
    return tmp_path


def says(monkeypatch: pytest.MonkeyPatch, *, status: str = "", tags: str = "") -> None:
    """What git would answer."""
    answers = {"status": status, "tag": tags}
    monkeypatch.setattr(release_check, "_git", lambda verb, *_words: answers[verb])


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


def test_a_tree_with_changes(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, status=" M CHANGELOG.md\n", tags="v1.2.3\n")
    with pytest.raises(NotReady, match="not committed"):
        check_tree(is_release=False)


def test_a_commit_without_the_tag(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, tags="v1.2.2\n")
    assert check_tree(is_release=False) == "clean tree, tags: v1.2.2"
    with pytest.raises(NotReady, match=r"git tag v1\.2\.3"):
        check_tree(is_release=True)
