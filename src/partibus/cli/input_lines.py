"""Lines from standard input or a file, without blocking the connection.

Owns the reading: a pipe is read as its bytes come, so that heartbeats and confirmations go on
while a slow program writes; a file is simply read. Called by `send`.
"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, Final

LINE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Above the largest message of any profile."""


async def lines_of(file: Path | None) -> AsyncIterator[tuple[int, bytes]]:
    """Numbered lines without their ends; None is standard input."""
    number = 0
    async for line in _raw_lines(file):
        number += 1
        line = line.rstrip(b"\r\n")
        if line.strip():
            yield number, line


async def _raw_lines(file: Path | None) -> AsyncIterator[bytes]:
    if file is not None:
        with file.open("rb") as stream:
            for line in stream:
                yield line
        return
    source = sys.stdin.buffer
    if _is_pipe(source):
        reader = await _pipe_reader(source)
        while line := await reader.readline():
            yield line
    else:
        for line in source:
            yield line


def _is_pipe(stream: BinaryIO) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False  # a replacement without a file behind it
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _pipe_reader(stream: BinaryIO) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, stream)
    return reader
