"""A reader that takes nothing is cut, and costs little, however much of its answer is made."""

import asyncio
from typing import Any

from tests.edge.client import small_socket, until
from tests.edge.test_streams import big_answer, post_bytes
from tests.edge.world import running

BUFFER_BYTES, FRAME_BYTES = 65_536, 20_300


async def test_a_reader_is_cut_though_its_end_waits_for_it_already(redis: Any) -> None:
    async with running(redis.url, write_s_max=1.0, socket_send_bytes=16_384) as world:
        loop = asyncio.get_running_loop()
        with small_socket(world.port) as sleeper:
            await loop.run_in_executor(None, sleeper.sendall, post_bytes("sleep", "s"))
            await until(lambda: len(world.machines.submits()) == 1)
            generation_id = world.machines.submits()[0].spec.generation_id
            await big_answer(world, generation_id, 20, 20_000)
            cut = world.parts.metrics.cut.labels("age")
            held: list[int] = []

            def is_cut() -> bool:
                held.append(world.parts.hub._buffers.bytes_held)
                return bool(cut._value.get() == 1)

            await until(is_cut)
            assert 0 < max(held) <= BUFFER_BYTES + FRAME_BYTES, "a page of the log is no buffer"
            await until(lambda: world.parts.metrics.streams._value.get() == 0)
            assert world.parts.hub._buffers.bytes_held == 0
