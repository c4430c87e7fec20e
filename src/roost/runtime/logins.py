"""Logins that take time to check, in turn, and fair to those who come from different places.

A random token is checked at once (see `security`). What is left for here is argon2: tokens of older users
files, and every login in vain at a broker that has such a file. It takes tens of milliseconds of a processor,
one at a time, so whoever sends many could keep all others waiting. Hence

- the queue has a bound, and an address a share of it; beyond, the answer is to come again;
- addresses take turns, whatever number each has waiting;
- users that are neighbours, or have logged in before, have a lane of their own, which mostly goes first;
- who has hung up is forgotten.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from roost.broker.messages import Login
    from roost.broker.permissions import Permission
    from roost.runtime.connection import SocketConnection
    from roost.runtime.security import Users
    from roost.runtime.tasks import Tasks

# Logins that wait in a lane, all together and from one address. Even if all of both do, that is less than the
# time in which a connection has to greet.
WAITING_MAX = 64
WAITING_AN_ADDRESS = 16
# Of so many in turn, one is of those who are not preferred, if there are any.
TURN_OF_OTHERS = 5

BUSY = "the broker is busy with other logins"

Waiting: TypeAlias = "tuple[SocketConnection, Login]"


class Lane:
    """Those who wait, by address; addresses take turns."""

    def __init__(self) -> None:
        self._by_address: OrderedDict[str, deque[Waiting]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, address: str, waiting: Waiting) -> bool:
        """False: it is full, or has enough of this address."""
        queue = self._by_address.get(address, ())
        if self._count >= WAITING_MAX or len(queue) >= WAITING_AN_ADDRESS:
            return False
        self._by_address.setdefault(address, deque()).append(waiting)
        self._count += 1
        return True

    def next(self) -> Waiting | None:
        if not self._by_address:
            return None
        address, queue = self._by_address.popitem(last=False)
        self._count -= 1
        waiting = queue.popleft()
        if queue:
            self._by_address[address] = queue  # behind all others
        return waiting

    def forget(self, address: str, connection: SocketConnection) -> None:
        queue = self._by_address.get(address)
        for waiting in queue or ():
            if waiting[0] is connection:
                assert queue is not None
                queue.remove(waiting)
                self._count -= 1
                if not queue:
                    del self._by_address[address]
                return


class Logins:
    """Checks who peers say they are."""

    def __init__(
        self,
        users: Users,
        tasks: Tasks,
        answered: Callable[[SocketConnection, Permission | str], None],
    ) -> None:
        self._users = users
        self._tasks = tasks
        self._answered = answered
        self._preferred, self._others = Lane(), Lane()
        self._turn = 0
        self._is_working = False
        # Not in the pool of others: whoever guesses tokens keeps only those waiting who log in.
        self._threads = ThreadPoolExecutor(1, "login")

    def check(self, connection: SocketConnection, login: Login) -> None:
        """Answers at once, or when it is its turn."""
        answer = self._users.answer_at_once(login.user, login.token)
        if answer is not None:
            self._answered(connection, answer)
            return
        lane = self._preferred if self._users.is_preferred(login.user) else self._others
        if not lane.add(connection.arrival.address, (connection, login)):
            connection.refuse(BUSY, transient=True)
        elif not self._is_working:
            self._is_working = True
            self._tasks.spawn("checking logins", self._work())

    def forget(self, connection: SocketConnection) -> None:
        """It has hung up, or we have."""
        for lane in (self._preferred, self._others):
            lane.forget(connection.arrival.address, connection)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> Waiting | None:
        self._turn += 1
        lanes = [self._preferred, self._others]
        if self._turn % TURN_OF_OTHERS == 0:
            lanes.reverse()
        return lanes[0].next() or lanes[1].next()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while (waiting := self._next()) is not None:
                connection, login = waiting
                try:
                    answer = await loop.run_in_executor(
                        self._threads, self._users.authenticate, login.user, login.token
                    )
                except Exception as error:
                    self._tasks.failed("checking a login", error)
                    connection.refuse("the login could not be checked", transient=True)
                else:
                    if not connection.is_deaf:
                        self._answered(connection, answer)
        finally:
            self._is_working = False
