"""A hook of MkDocs: links from a page to files outside of docs/ lead to the repository.

Pages are read in the repository too, where `../CONTRIBUTING.md` is the right link. In the site that
file does not exist, so the link becomes the address of the file in the repository. A file that does
not exist is left as it is, and so becomes a warning of MkDocs.
"""

import posixpath
import re
from pathlib import Path
from typing import Any, Final

LINK: Final = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)(?=[)#])")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Called by MkDocs with the text of each page."""
    docs = Path(config["docs_dir"])
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        if not target.startswith("../"):
            return match[1]
        path = target.removeprefix("../")
        if not (docs.parent / path).exists():
            return match[1]
        return f"{config['repo_url']}/blob/main/{path}"

    return LINK.sub(replaced, markdown)
