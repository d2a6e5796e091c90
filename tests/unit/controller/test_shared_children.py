"""Many jobs need the same child at once: one request, whose outcome all of them get, and which none can cancel."""

from __future__ import annotations

import asyncio

import pytest

from railhead.controller.shared_children import RECENT_SECONDS, Place, SharedChildren

PLACE = Place("default", "driver")


class Server:
    """Answers as soon as the test has set the answer."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked = 0
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.shared = SharedChildren(lambda: self.now)

    async def make(self) -> str:
        self.asked += 1
        return await self.answer

    async def ask(self, jobs: int, place: Place = PLACE) -> list[asyncio.Task[str]]:
        tasks = [asyncio.create_task(self.shared.find(place, self.make)) for _ in range(jobs)]
        await self.turn()
        return tasks

    async def turn(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_jobs_that_need_a_child_at_once_send_one_request() -> None:
    server = Server()
    jobs = await server.ask(40)
    server.answer.set_result("uid")
    assert await asyncio.gather(*jobs) == ["uid"] * 40
    assert server.asked == 1


async def test_another_namespace_has_a_request_of_its_own() -> None:
    server = Server()
    server.answer.set_result("uid")
    await server.ask(2)
    await server.ask(2, Place("other", "driver"))
    assert server.asked == 2


async def test_a_known_child_is_looked_for_again_after_a_moment() -> None:
    server = Server()
    server.answer.set_result("uid")
    await server.ask(1)
    server.now += RECENT_SECONDS - 0.1
    await server.ask(1)
    assert server.asked == 1
    server.now += 0.2
    await server.ask(1)
    assert server.asked == 2


async def test_all_jobs_get_the_error_and_the_next_one_asks_again() -> None:
    server = Server()
    jobs = await server.ask(3)
    server.answer.set_exception(ValueError("refused"))
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    assert [str(each) for each in outcomes] == ["refused"] * 3
    with pytest.raises(ValueError, match="refused"):
        await server.shared.find(PLACE, server.make)
    assert server.asked == 2


async def test_a_cancelled_job_takes_nothing_from_the_others() -> None:
    server = Server()
    first, second = await server.ask(2)
    first.cancel()
    await server.turn()
    server.answer.set_result("uid")
    assert await second == "uid"
    assert first.cancelled()


async def test_what_was_found_before_a_deletion_counts_for_nothing_after_it() -> None:
    server = Server()
    jobs = await server.ask(1)
    server.shared.forget(PLACE)
    server.answer.set_result("uid")
    await asyncio.gather(*jobs)
    await server.ask(1)
    assert server.asked == 2
