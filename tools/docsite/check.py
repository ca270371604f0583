"""Checks the built site as a reader sees it: python tools/docsite/check.py build/site.

Every link within the site leads to a page and an anchor that exist, every page can be reached from
the front page by clicking, and no page loads anything from another host. MkDocs checks the links of
the Markdown; this looks at what it made of them.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urldefrag

FRONT: Final = "index.html"
OWN_MACHINERY: Final = ("404.html",)
LOADED: Final = {"script": "src", "img": "src", "link": "href", "iframe": "src"}


@dataclass(slots=True)
class Page(HTMLParser):
    """What one HTML file links to, loads and names."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values and values.get("rel") not in ("canonical",):
            self.loads.append(values[LOADED[tag]])


def read_site(root: Path) -> dict[str, Page]:
    """Every HTML file, by its path in the site."""
    pages: dict[str, Page] = {}
    for path in sorted(root.rglob("*.html")):
        page = Page()
        page.feed(path.read_text(encoding="utf-8"))
        pages[path.relative_to(root).as_posix()] = page
    return pages


def target_of(root: Path, name: str, link: str) -> tuple[str, str] | None:
    """The file and the anchor that a link leads to, or None for another host."""
    address, anchor = urldefrag(link)
    if ":" in address.split("/")[0] or address.startswith("//"):
        return None
    path = (root / name).parent / unquote(address) if address else root / name
    if path.is_dir():
        path = path / FRONT
    return path.resolve().relative_to(root.resolve()).as_posix(), unquote(anchor)


def broken(root: Path, pages: dict[str, Page]) -> Iterator[str]:
    """Links that lead nowhere."""
    for name, page in pages.items():
        if name in OWN_MACHINERY:
            continue
        for link in page.links:
            target = target_of(root, name, link)
            if target is None:
                continue
            path, anchor = target
            if not (root / path).is_file():
                yield f"{name}: {link} leads nowhere"
            elif anchor and path in pages and anchor not in pages[path].anchors | {"__skip"}:
                yield f"{name}: {link} has no such anchor"


def foreign(pages: dict[str, Page]) -> Iterator[str]:
    """What is loaded from another host."""
    for name, page in pages.items():
        yield from (f"{name} loads {what}" for what in page.loads if "//" in what)


def unreachable(root: Path, pages: dict[str, Page]) -> Iterator[str]:
    """Pages that nobody finds by clicking."""
    seen, waiting = {FRONT}, [FRONT]
    while waiting:
        name = waiting.pop()
        targets = (target_of(root, name, link) for link in pages[name].links)
        new = {target[0] for target in targets if target} & pages.keys() - seen
        seen |= new
        waiting += new
    yield from (f"{name} cannot be reached" for name in pages.keys() - seen - {*OWN_MACHINERY})


def main() -> int:
    root = Path(sys.argv[1])
    pages = read_site(root)
    faults = [*broken(root, pages), *foreign(pages), *unreachable(root, pages)]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{root}: {len(pages)} pages, {sum(len(p.links) for p in pages.values())} links.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
