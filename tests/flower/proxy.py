"""A TCP proxy on loopback that counts what goes through it, and can be as slow as a phone's link."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

PIECE = 16384


@dataclass
class Proxy:
    """Passes connections on to a port of loopback, inside `with`.

    down, up: bits a second towards whoever connects and away from it, over all connections; 0: as fast as it goes.
    counted: bytes in each direction so far.
    """

    target: int
    down: float = 0.0
    up: float = 0.0
    port: int = 0
    counted: dict[str, int] = field(default_factory=lambda: {"down": 0, "up": 0})

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._free = {"down": 0.0, "up": 0.0}  # when the link has passed on all that it took
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, away = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        with suppress(asyncio.CancelledError):  # the test is over
            await asyncio.gather(self._pass("up", reader, away), self._pass("down", there, writer))

    async def _pass(self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rate = self.up if direction == "up" else self.down
        try:
            while piece := await reader.read(PIECE):
                self.counted[direction] += len(piece)
                if rate:
                    now = self._loop.time()
                    self._free[direction] = max(now, self._free[direction]) + 8 * len(piece) / rate
                    await asyncio.sleep(self._free[direction] - now)
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass  # either side may hang up at any time
        finally:
            writer.close()
