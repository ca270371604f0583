"""A node that does nothing but hold leases: a process for tests to pause and kill.

Run with the address of a database. Prints its number, then the lanes it holds after each change.
"""

import asyncio
import json
import sys
from contextlib import suppress

from partibus.control.ownership import NodeAddress
from partibus.control.postgres.ownership import PostgresOwnership
from partibus.server.nodes.lane_keeping import RETRY_S


async def hold(dsn: str) -> None:
    node = PostgresOwnership(dsn, NodeAddress("127.0.0.1", 1))
    changed = asyncio.Event()
    node.on_change = changed.set
    await node.start()
    print(json.dumps(node.node), flush=True)
    told: list[int] | None = None
    while True:
        changed.clear()
        for lane in node.owned() - node.wanted():
            await node.release(lane)
        for lane in node.wanted() - node.owned():
            await node.acquire(lane)
        if sorted(node.owned()) != told:
            told = sorted(node.owned())
            print(json.dumps(told), flush=True)
        # A lane that could not be acquired is tried again, as the keeper of lanes does.
        with suppress(TimeoutError):
            async with asyncio.timeout(None if node.wanted() == node.owned() else RETRY_S):
                await changed.wait()


asyncio.run(hold(sys.argv[1]))
