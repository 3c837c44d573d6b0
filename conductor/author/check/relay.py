"""Stands in the place of a chain's agent, and passes its lines to the checks: `relay.py SOCKET`.

A conductor under check starts it. It needs Python and nothing else: `python -I -S relay.py SOCKET`.
"""

import os
import socket
import sys
import threading


def main(path: str) -> None:
    """Passes bytes both ways until either side ends, as an agent ends with its input."""
    checks = socket.socket(socket.AF_UNIX)
    checks.connect(path)

    def up() -> None:
        while data := os.read(0, 65536):
            checks.sendall(data)
        checks.shutdown(socket.SHUT_WR)
        os._exit(0)

    threading.Thread(target=up, daemon=True).start()
    while data := checks.recv(65536):
        while data:
            data = data[os.write(1, data) :]


if __name__ == "__main__":
    main(sys.argv[1])
