"""A wire to an address, which a test cuts."""

import contextlib
import select
import socket
import threading
from typing import Self


class Wire:
    """Carries bytes between a port of its own and another one, in a thread."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._waking, self._woken = socket.socketpair()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._orders: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.carried = 0
        """How many connections there have been."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._order("end")
        self._thread.join()
        for one in (self._listening, self._waking, self._woken):
            one.close()

    def cut(self) -> None:
        """Ends all connections; new ones are carried."""
        self._order("cut")

    def _order(self, order: str) -> None:
        self._orders.append(order)
        self._waking.send(b".")

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([self._listening, self._woken, *self._pairs], [], [])
            for one in ready:
                if one is self._listening:
                    self._join()
                elif one is self._woken:
                    self._woken.recv(100)
                    for pair in list(self._pairs):
                        self._drop(pair)
                    if "end" in self._orders:
                        return
                elif one in self._pairs:
                    self._carry(one)

    def _join(self) -> None:
        near, _ = self._listening.accept()
        far = socket.create_connection(("127.0.0.1", self._to))
        self._pairs |= {near: far, far: near}
        self.carried += 1

    def _carry(self, one: socket.socket) -> None:
        try:
            data = one.recv(65536)
            if data:
                self._pairs[one].sendall(data)
                return
        except OSError:
            pass
        self._drop(one)

    def _drop(self, one: socket.socket) -> None:
        other = self._pairs.pop(one, None)
        if other is not None:
            self._pairs.pop(other, None)
            for each in (one, other):
                with contextlib.suppress(OSError):
                    each.close()
