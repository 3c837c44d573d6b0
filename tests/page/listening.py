"""A server that notes whoever connects: nobody should."""

import socket
import threading


class Listener:
    """Notes each connection, and its first bytes."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.connections = 0
        self.requests: list[bytes] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._read, args=(peer,), daemon=True).start()

    def _read(self, peer: socket.socket) -> None:
        with peer:
            if held := peer.recv(4096):
                self.requests.append(held)

    def close(self) -> None:
        """Listens no more."""
        self._socket.close()
