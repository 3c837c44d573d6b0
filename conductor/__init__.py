"""conductor: runs chains of ACP proxies between an editor and a coding agent.

A program of your own can run a chain, and be the editor at its end:

    import asyncio
    import json

    from conductor.spec.catalog import resolve_all
    from conductor.run.launch import plan
    from conductor.run.plan import Options
    from conductor.run.runtime import Runtime
    from conductor.transports.memory import Channel, MemoryTransport

    async def editor(channel: Channel) -> None:
        for method, params in (
            ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
            ("session/new", {"cwd": "/", "mcpServers": []}),
            ("session/prompt", {"sessionId": "demo-1", "prompt": [{"type": "text", "text": "hi"}]}),
        ):
            request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
            channel.send(json.dumps(request).encode())
            while (line := await channel.receive()) is not None:
                message = json.loads(line)
                if message.get("id") == method:
                    break
                print(message["params"]["update"]["content"]["text"], end="")

    options = Options(clock="2026-03-01T12:00:00+01:00")
    specs = resolve_all(["datetime", "demo"])
    planned, guardian = plan(specs, options, agent_last=True, on_stderr=print)
    runtime = Runtime(planned, "agent", MemoryTransport(editor), options, log=print)
    asyncio.run(runtime.run())
    guardian.release()

A client on the other side of this process's standard input and output is a `StdioTransport`.
Components are written as for the command line (docs/cli.md). Everything here runs on one event
loop; nothing of it may be called from another thread.
"""
