"""Run in a network of its own, where a public address is this machine: what webhooks reach there.

Prints, for each case, the kind of the outcome and the address on which it was received.
"""

from __future__ import annotations

import asyncio
import json

from jobqueued.executors.http import HttpExecutor
from tests.executors.http_support import Names, http_task, read_head

PUBLIC = "8.8.8.8"
DOWN = "9.9.9.9"
ANSWER = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Network:
    """A receiver on every address of the machine."""

    def __init__(self) -> None:
        self.port = 0
        self.reached: list[str] = []

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "0.0.0.0", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def send(self, executor: HttpExecutor, host: str) -> list[str]:
        self.reached.clear()
        payload = json.dumps({"url": f"http://{host}:{self.port}/"}).encode()
        allowed = ("*.example", PUBLIC)
        task = http_task(payload=payload, url_from=("url",), allowed_hosts=allowed)
        outcome = await executor.run(task)
        return [str(outcome.kind), *self.reached]

    async def send_to(self, host: str, *answers: list[str]) -> list[str]:
        executor = HttpExecutor(resolver=Names(*answers))
        try:
            return await self.send(executor, host)
        finally:
            await executor.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reached.append(writer.get_extra_info("sockname")[0])
        await read_head(reader)
        writer.write(ANSWER)
        await writer.drain()
        writer.close()


async def main() -> None:
    network = Network()
    server = await network.start()
    rebinding = Names([PUBLIC], ["127.0.0.1"])
    told = {"public name": await network.send_to("a.example", [PUBLIC])}
    first = HttpExecutor(resolver=rebinding)
    await network.send(first, "a.example")
    await first.close()
    second = HttpExecutor(resolver=rebinding)
    told["the same name, bound to a private address by now"] = await network.send(
        second, "a.example"
    )
    await second.close()
    told |= {
        "public number": await network.send_to(PUBLIC, []),
        "public and private addresses": await network.send_to(
            "a.example", ["127.0.0.1", PUBLIC, "::1"]
        ),
        "public address that is down": await network.send_to("a.example", ["127.0.0.1", DOWN]),
        "mapped private address": await network.send_to("a.example", ["::ffff:127.0.0.1"]),
    }
    server.close()
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main())
