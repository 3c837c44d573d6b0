"""Servers of chains: started, asked for their addresses, ended."""

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks import proctree
from benchmarks.session import ChainError

_READY_S = 60.0
_END_S = 30.0


class Server:
    """A program that serves the agent at addresses, which are the words of its first line with a
    colon. A context manager."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], agent: Path) -> None:
        self._command = list(command)
        self._env = dict(env)
        self._agent = agent
        self.addresses: list[str] = []
        self._said: list[str] = []
        self._ready = threading.Event()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._env,
            text=True,
            start_new_session=True,
        )
        # One that talks much must not wait for somebody to listen.
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        if not self._ready.wait(_READY_S) or not self.addresses:
            said = "".join(self._said[-20:]).strip()
            self._end()
            raise ChainError(f"`{self._command[0]}` does not serve\n{said}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def at(self, scheme: str) -> str:
        """The address of this scheme; a port for WebSockets speaks HTTP too, and the reverse."""
        for address in self.addresses:
            if address.partition(":")[0] == scheme:
                return address
        web = next(one for one in self.addresses if one.startswith(("ws:", "http:")))
        return f"{scheme}:{web.partition(':')[2]}"

    @property
    def pid(self) -> int:
        """The id of the server's process."""
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        """CPU seconds so far of the server and the processes below it, without agents."""
        pid = self._process.pid
        return proctree.cpu_s(pid) + proctree.cpu(pid, self._agent).others

    @property
    def pss_mb(self) -> float:
        """Proportional set size of the server and the processes below it, without agents."""
        pid = self._process.pid
        return proctree.pss_of(pid) + proctree.pss_mb(pid, self._agent).others

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line)
            words = [word for word in line.split() if ":" in word]
            if not self.addresses and words and words[0].startswith(("ws:", "http:")):
                self.addresses = words
                self._ready.set()
        self._ready.set()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


def serving(
    conductor: Sequence[str], chain: Sequence[str], *addresses: str, extra: Sequence[str] = ()
) -> list[str]:
    """The command line of `conductor serve`."""
    listen = [word for address in addresses for word in ("--listen", address)]
    return [*conductor, "serve", *listen, "-c", "serve.owners=none", *extra, *chain]


def token(conductor: Sequence[str], file: Path, principal: str) -> str:
    """A new token of a principal, whose digest is in the file from now on."""
    command = [*conductor, "serve", "token", principal, "--tokens", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    return done.stdout.strip()
