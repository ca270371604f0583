"""The cost of read-only requests of observers, counted where they arrive.

Owns only the wrapper of the application: `domain.observing.cost` has the counter, and decides which
requests these are. Wrapped around the server's application by the service.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

from partibus.domain.observing.cost import is_observer, observing


class ObservedApplication:
    """An application with the processor time of observers counted."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI hands it over."""
        answering = self._application(scope, receive, send)
        if scope["type"] == "http" and is_observer(scope["method"], scope["path"]):
            answering = observing(answering)  # type: ignore[arg-type]  # every one is a coroutine
        await answering
