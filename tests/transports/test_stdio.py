"""Standard input that no poller takes: files, and `/dev/null`."""

import asyncio
import os
from pathlib import Path

import pytest

from conductor.transports.stdio import StdioTransport
from tests.transports.ends import Recorder


@pytest.mark.parametrize("content", [None, b"", b'{"a":1}\n{"b":2}\n', b"%d\n" % 7 * 100_000])
def test_it_is_read_to_its_end(tmp_path: Path, content: bytes | None) -> None:
    path = os.devnull
    if content is not None:
        file = tmp_path / "in.jsons"
        file.write_bytes(content)
        path = str(file)

    async def read() -> list[bytes]:
        stdin, (source, sink) = os.open(path, os.O_RDONLY), os.pipe()
        transport, seen = StdioTransport(stdin, sink), Recorder()
        try:
            await transport.open(seen)
            await seen.until(lambda: bool(seen.ends))
            await transport.close(0)
        finally:
            for fd in (stdin, source, sink):
                os.close(fd)
        (how,) = seen.ends
        assert how.clean
        return seen.frames

    assert b"".join(line + b"\n" for line in asyncio.run(read())) == (content or b"")
