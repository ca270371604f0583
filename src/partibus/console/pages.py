"""The pages of the console over HTTP: static files with strict headers, under `/console/`.

Owns the paths, the content security policy and the notice for installations made without Node. The
files are built from `console/` by `make install` and shipped in the wheel; they contain no data:
everything that they show is read under `/$partibus`, where rights are checked. Mounted by the
server, unless the console is off.
"""

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

PREFIX: Final = "/console"
STATIC: Final = Path(__file__).with_name("static")
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Only our own scripts and styles; nothing from elsewhere, nothing in a frame."""
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_LASTING: Final = {"cache-control": "public, max-age=31536000, immutable"}
"""Built files have their digest in their name."""
_ASKED_AGAIN: Final = {"cache-control": "no-cache"}
NOT_BUILT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Partibus console</title></head>
<body><h1>The console is not built</h1>
<p>This copy of Partibus was installed without it. In a working copy, install Node 18 or newer with
npm (on Debian: <code>apt-get install nodejs npm</code>), then run <code>make console</code> and
reload this page. Packages from the package index contain it.</p>
<p>The bus itself works as usual, and so does the command line: <code>partibus --help</code>.</p>
</body></html>
"""


def console_routes(mode: str, static: Path = STATIC) -> list[BaseRoute]:
    """The routes of the pages, and a redirect for browsers that open the root."""
    if mode == "off":
        return []

    async def page(request: Request) -> Response:
        return _file(static, request.path_params.get("path", ""))

    return [
        Route("/", _root, methods=["GET"]),
        Route(PREFIX, _to_console, methods=["GET"]),
        Route(PREFIX + "/{path:path}", page, methods=["GET"]),
    ]


def _file(static: Path, path: str) -> Response:
    index = static / "index.html"
    if not index.is_file():
        return HTMLResponse(NOT_BUILT, 503, HEADERS | _ASKED_AGAIN)
    if not path:
        return FileResponse(index, 200, HEADERS | _ASKED_AGAIN, _TYPES[".html"])
    # Only files listed in the folder: a path that leads elsewhere is in no listing.
    known = {file.relative_to(static).as_posix(): file for file in static.rglob("*")}
    file = known.get(path)
    media_type = None if file is None else _TYPES.get(file.suffix)
    if file is None or media_type is None or not file.is_file():
        return PlainTextResponse("There is no such page; the console is at /console/.\n", 404)
    lasting = _LASTING if path.startswith("assets/") else _ASKED_AGAIN
    return FileResponse(file, 200, HEADERS | lasting, media_type)


async def _to_console(request: Request) -> Response:
    return Response(status_code=307, headers={"location": PREFIX + "/"})


async def _root(request: Request) -> Response:
    """A browser, which asks for HTML, is redirected; programs get the usual answer."""
    if "text/html" in request.headers.get("accept", ""):
        return await _to_console(request)
    return PlainTextResponse(
        "404 GET /: Not Found. Partibus answers /health, /livez and /readyz here.\n", 404
    )
