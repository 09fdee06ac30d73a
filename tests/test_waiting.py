"""Loops of tests sleep while a condition does not hold, and miss nothing that makes it hold."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from tests.waiting import first_of, turns, until


class Flag:
    """A condition, and how often somebody has looked whether it holds."""

    def __init__(self) -> None:
        self.up = False
        self.looks = 0

    def raise_it(self) -> None:
        self.up = True

    def __call__(self) -> bool:
        self.looks += 1
        return self.up


async def test_the_loop_sleeps_until_something_happens() -> None:
    flag, loop, asleep = Flag(), asyncio.get_running_loop(), threading.Event()

    def elsewhere() -> None:
        assert asleep.wait(10.0)
        loop.call_soon_threadsafe(flag.raise_it)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    loop.call_later(0.01, asleep.set)
    await until(flag)
    thread.join()
    assert flag.looks < 20


@pytest.mark.parametrize("before", range(5))
async def test_what_happens_in_any_turn_is_seen(before: int) -> None:
    flag, loop = Flag(), asyncio.get_running_loop()

    async def later() -> None:
        await turns(before)
        loop.call_soon(loop.call_soon, flag.raise_it)

    task = asyncio.create_task(later())
    await until(flag)
    await task


async def test_what_comes_while_somebody_looks_is_seen() -> None:
    flag, loop = Flag(), asyncio.get_running_loop()
    here, there = socket.socketpair()

    def read() -> None:
        here.recv(1)
        flag.raise_it()

    with here, there:
        loop.add_reader(here, read)
        loop.call_later(0.01, there.send, b"x")
        await until(flag)
        loop.remove_reader(here)


async def test_several_wait_each_for_its_own_condition() -> None:
    one, other, both = Flag(), Flag(), []

    async def waits(flag: Flag) -> None:
        await until(flag)
        both.append(flag)

    tasks = [asyncio.create_task(waits(flag)) for flag in (one, other)]
    await turns(5)
    other.raise_it()
    await until(lambda: both == [other])
    one.raise_it()
    await asyncio.gather(*tasks)
    assert both == [other, one]


async def test_an_error_of_a_condition_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await until(lambda: 1 / 0)


async def test_the_first_to_end_cancels_the_others() -> None:
    flag, never = Flag(), Flag()
    asyncio.get_running_loop().call_soon(flag.raise_it)
    await first_of(until(never), until(flag))
    looks = never.looks
    await turns(10)
    assert never.looks == looks


async def test_an_error_of_the_first_to_end_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await first_of(until(Flag()), until(lambda: 1 / 0))
