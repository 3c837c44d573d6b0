"""The NATS servers of the tests: stored data outlives a crash; a cluster has a leader."""

import asyncio
from pathlib import Path

import nats as client

from tests.harness.process.nats import Nats


def test_a_server_keeps_port_and_store_over_a_crash(nats: Nats) -> None:
    async def keep() -> None:
        connection = await client.connect(nats.url)
        bucket = await connection.jetstream().create_key_value(bucket="b")
        await bucket.put("key", b"value")
        await connection.close()

    async def kept() -> bytes | None:
        connection = await client.connect(nats.url)
        entry = await (await connection.jetstream().key_value("b")).get("key")
        await connection.close()
        return entry.value

    asyncio.run(keep())
    nats.kill()
    nats.start()
    assert asyncio.run(kept()) == b"value"
    assert nats.store.is_dir()


def test_a_cluster_chooses_another_leader(tmp_path: Path) -> None:
    with Nats(tmp_path, nodes=3) as cluster:
        first = cluster.leader()
        cluster.nodes[first].kill()
        cluster.nodes[first].start()
        assert all(node.running for node in cluster.nodes)
        assert cluster.leader() in range(3)
