"""The check of the built site finds what a reader would stumble over."""

from pathlib import Path

from docsite.check import broken, foreign, read_site, unreachable

PAGES = {
    "index.html": '<a href="guides/a.html#good">a</a><a href="https://example.org/">away</a>',
    "guides/a.html": '<h2 id="good">x</h2><a href="../index.html">home</a>',
}


def site(root: Path, **changes: str) -> Path:
    for name, text in {**PAGES, **changes}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_a_good_site_has_no_faults(tmp_path: Path) -> None:
    pages = read_site(site(tmp_path))
    assert [*broken(tmp_path, pages), *foreign(pages), *unreachable(tmp_path, pages)] == []


def test_a_link_to_nowhere_and_a_wrong_anchor(tmp_path: Path) -> None:
    links = '<a href="b.html">b</a><a href="a.html#bad">a</a><a href="../index.html">home</a>'
    site(tmp_path, **{"guides/a.html": links, "index.html": '<a href="guides/a.html">a</a>'})
    assert list(broken(tmp_path, read_site(tmp_path))) == [
        "guides/a.html: b.html leads nowhere",
        "guides/a.html: a.html#bad has no such anchor",
    ]


def test_a_page_that_nobody_finds(tmp_path: Path) -> None:
    site(tmp_path, **{"guides/lost.html": "<p>lost</p>"})
    assert list(unreachable(tmp_path, read_site(tmp_path))) == [
        "guides/lost.html cannot be reached"
    ]


def test_a_script_of_another_host(tmp_path: Path) -> None:
    script = '<script src="https://cdn.example.org/x.js"></script>'
    site(tmp_path, **{"guides/a.html": script})
    assert list(foreign(read_site(tmp_path))) == [
        "guides/a.html loads https://cdn.example.org/x.js"
    ]
