"""Messages on stdout: a line each for people, JSON or bare bodies for programs.

Owns the three formats of a message and the choice between them: people at a terminal get lines, a
pipe gets JSON. Every message is flushed before the next step, so that a message is printed before
it is settled. Called by the verbs that receive or peek.
"""

import json
import shutil
import sys
from typing import Final, Literal

import typer

from partibus.cli.quantities import clock_time, format_bytes
from partibus.client.message import IncomingMessage
from partibus.client.messages.json_form import message_to_json

Look = Literal["text", "json", "body"]
_PREVIEW_MAX: Final = 4096
_MARKS: Final = (
    ("id", "message_id"),
    ("session", "session_id"),
    ("key", "partition_key"),
    ("subject", "subject"),
    ("type", "content_type"),
    ("correlation", "correlation_id"),
    ("reason", "dead_letter_reason"),
    ("description", "dead_letter_error_description"),
)
_ACTIVE: Final = "active"


def chosen_look(json_flag: bool, look: Look | None) -> Look:
    """The format of the options; else the one that suits the output."""
    if json_flag:
        return "json"
    if look is not None:
        return look
    return "text" if sys.stdout.isatty() else "json"


class MessagePrinter:
    """Prints messages in one format and counts them."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.count = 0

    def show(self, message: IncomingMessage) -> None:
        """Print one message and flush the output."""
        self.count += 1
        if self._look == "json":
            sys.stdout.write(json.dumps(message_to_json(message), ensure_ascii=False) + "\n")
        elif self._look == "body":
            _write_body(message)
        else:
            typer.echo(line_of(message, shutil.get_terminal_size().columns))
        sys.stdout.flush()


def _write_body(message: IncomingMessage) -> None:
    body_type, body = message.body()
    if body_type == "data" and isinstance(body, bytes):
        sys.stdout.flush()
        sys.stdout.buffer.write(body + b"\n")
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(json.dumps(message_to_json(message)["body"], ensure_ascii=False) + "\n")


def line_of(message: IncomingMessage, width: int) -> str:
    """One line for people: number, time, the beginning of the body, and other fields."""
    fields = message_to_json(message)
    marks = [f"{word}={fields[name]}" for word, name in _MARKS if fields.get(name) is not None]
    if message.state != _ACTIVE:
        marks.append(message.state)
    if message.delivery_count:
        marks.append(f"delivered={message.delivery_count}")
    marks += [f"{name}={value}" for name, value in fields.get("properties", {}).items()]
    head = f"{message.sequence_number:>6}  {clock_time(message.enqueued_ms)}  {preview(fields)}"
    rest = " ".join(marks)
    if not sys.stdout.isatty():
        return f"{head}  {rest}"
    body = head if len(head) <= width else f"{head[: width - 1]}…"
    left = width - len(body) - 2
    if left <= 0:
        return body
    shown = rest if len(rest) <= left else f"{rest[: left - 1]}…"
    return f"{body}  {typer.style(shown, dim=True)}"


def preview(fields: dict[str, object]) -> str:
    """The beginning of a body in one line; for bytes that are not text only the size."""
    if "body_base64" in fields:
        return f"<{format_bytes(len(str(fields['body_base64'])) * 3 // 4)} of bytes>"
    body = fields.get("body", "")
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    text = " ".join(text[:_PREVIEW_MAX].split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
