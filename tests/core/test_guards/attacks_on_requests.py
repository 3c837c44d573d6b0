"""Attacks on requests that are only passed on, and on MCP connections."""

import json
from collections.abc import Iterator

from msgspec import UNSET

from conductor.core.guards import Context, Violation, answered
from tests.core.test_guards.attack import Attack, Text, answers, denies, makes_up, passes_on
from tests.core.test_guards.samples import SEALED, USES


def sealed() -> Iterator[Attack]:
    """Requests changed, made up, and answered in somebody's place."""
    for method, guard in SEALED.items():
        for spelled in (method, method.upper()):
            changed: dict[str, Text] = {
                "another value": '{"sessionId":"s","path":["/x",{"a":2}]}',
                "a member more": '{"sessionId":"s","path":["/x",{"a":1}],"y":1}',
                "a member less": '{"sessionId":"s"}',
                "a shorter list": '{"sessionId":"s","path":["/x"]}',
                "a member in odd case": '{"sessionId":"s","path":["/x",{"a":1}],"Path":"/y"}',
                "metadata": '{"sessionId":"s","path":["/x",{"a":1}],"_meta":{"a.b/c":1}}',
                "nothing": UNSET,
            }
            for what, after in changed.items():
                before = '{"sessionId":"s","path":["/x",{"a":1}]}'
                yield passes_on(guard, f"{spelled}, {what}", spelled, before, after)
            if spelled == method != "session/cancel":  # its own turns: the engine knows them
                yield makes_up(guard, spelled, spelled, '{"sessionId":"s"}')
            yield answers(guard, f"{spelled}, of its own", spelled, "{}")
            yield answers(
                guard, f"{spelled}, changed", spelled, '{"content":"b"}', '{"content":"a"}'
            )
            yield answers(guard, f"{spelled}, respelled", spelled, "1.1", "1.10")


def connections() -> Iterator[Attack]:
    """MCP connections of others used, served and stolen."""
    for method, (name, other) in USES.items():
        for address in ("theirs", "nobody's", "their-connection", "", "MINE"):
            held = json.dumps({name: address, other: 1})
            yield makes_up("mcp-connections", f"{method} {address}", method, held)
            yield answers("mcp-connections", f"{method} {address}", method, "{}", None, held)
            yield answers(
                "mcp-connections", f"{method} {address}, changed", method, "{}", "[]", held
            )
            changed = json.dumps({name: address, other: 2})
            yield passes_on("mcp-connections", f"{method} {address}", method, held, changed)
            taken_over = json.dumps({name: "mine", other: 1})
            yield passes_on(
                "mcp-connections", f"{method} {address}, turned", method, held, taken_over
            )
            yield passes_on(
                "mcp-connections", f"{method} {address}, turned away", method, taken_over, held
            )
        unclear: dict[str, Text] = {
            "no address": "{}",
            "nothing": UNSET,
            "no text": f'{{"{name}":["mine"]}}',
            "two spellings": f'{{"{name}":"mine","{name.upper()}":"theirs"}}',
        }
        for what, params in unclear.items():
            yield makes_up("mcp-connections", f"{method}, {what}", method, params)
            yield answers("mcp-connections", f"{method}, {what}", method, "{}", None, params)
    new, theirs, more = "mcp/something_new", '{"serverId":"theirs"}', '{"serverId":"theirs","a":1}'
    yield answers("mcp-connections", f"{new} of others", new, "{}", None, theirs)
    yield passes_on(
        "mcp-connections", f"{new} of others", new, theirs, '{"serverId":"theirs","a":1}'
    )
    both = '{"serverId":"mine","connectionId":"their-connection"}'
    yield makes_up("mcp-connections", "one own, one not", "mcp/message", both)
    for name in ("connectionId", "connection_id"):
        result = f'{{"{name}":"their-connection"}}'
        yield answers(
            "mcp-connections", f"a stolen {name}", "mcp/connect", result, None, '{"acpId":"mine"}'
        )
    for method in ("mcp/connect", "_mcp/connect"):
        for what, result in {
            "a connection of a component's": '{"connectionId":"tools-demo:1/1"}',
            "one that looks so": '{"connection_id":"T00LS_DEMO.1"}',
            "a server of a component's": '{"connectionId":"tools-demo:2"}',
            "a URL of a component's": '{"connectionId":"acp:context:2"}',
            "two": '{"connectionId":"new","connection_id":"conn-1"}',
        }.items():
            asked = '{"acpId":"mine"}'
            yield answers("mcp-connections", f"{method}, {what}", method, result, None, asked)
            yield answers(
                "mcp-connections", f"{method}, {what}", method, result, "{}", '{"acpId":"theirs"}'
            ).having(mcp="others")
    relayed, more = '{"connectionId":"k"}', '{"connectionId":"k","connection_id":"conn-1"}'
    yield answers(
        "mcp-connections", "one more", "mcp/connect", more, relayed, '{"acpId":"theirs"}'
    ).having(mcp="others")
    yield answers("mcp-connections", "no JSON asked", "mcp/message", "{}", None, "{")
    for method in ("mcp/message", "_scp/mcp"):
        name = "name" if method == "_scp/mcp" else "connectionId"
        before, after = (json.dumps({name: one}) for one in ("their-connection", "nobody's"))
        odd = json.dumps({name: "their-connection", name.upper(): "mine"})
        for what, sent in (("turned", after), ("with a look-alike", odd)):
            yield passes_on("mcp-connections", f"{method} {what}", method, before, sent).having(
                mcp="others"
            )
        yield makes_up("mcp-connections", f"{method} of others", method, before).having(
            mcp="others"
        )
    stolen = '{"connectionId":"their-connection"}'
    yield answers(
        "mcp-connections", "a stolen one", "mcp/connect", stolen, "{}", '{"acpId":"theirs"}'
    ).having(mcp="others")


def outcomes() -> Iterator[Attack]:
    """Results that are errors afterwards, and errors that are results."""
    methods = (
        *SEALED,
        *USES,
        "session/prompt",
        "session/new",
        "session/list",
        "initialize",
        "_x/y",
    )
    for method in methods:
        for came, sent in ((b"result", b"error"), (b"error", b"result")):

            def route(
                context: Context, method: str = method, came: bytes = came, sent: bytes = sent
            ) -> Violation | None:
                given = (came, b'{"code":1,"message":""}')
                body = b'{"code":2,"message":"no"}'
                return answered(context, "down", method, UNSET, sent, body, given)

            what = f"answered: {method}, {came.decode()} made {sent.decode()}"
            yield Attack("outcomes", what, route)


def ends() -> Iterator[Attack]:
    """Results of prompts forged."""
    result = {"stopReason": "end_turn", "usage": {"totalTokens": 7}, "messageId": "m"}
    changes: dict[str, dict[str, object]] = {
        "its use": {"usage": {"totalTokens": 1}},
        "its message": {"messageId": "other"},
        "more": {"trusted": True},
        "as cancelled": {"stopReason": "cancelled"},
        "for no reason": {"stopReason": None},
    }
    for what, change in changes.items():
        forged = json.dumps({**result, **change})
        yield answers("agent-state", what, "session/prompt", forged, json.dumps(result))
    done, cancelled = '{"stopReason":"end_turn"}', '{"stopReason":"cancelled"}'
    yield answers("agent-state", "a cancelled one", "session/prompt", done, cancelled)
    for what, own in {"use": '{"usage":{}}', "no text": '{"stopReason":1}'}.items():
        yield answers("agent-state", f"its own, {what}", "session/prompt", own)


def choices() -> Iterator[Attack]:
    """Modes and options of the agent chosen, or said to be chosen, with the grant for own ones."""
    for method, name in (
        ("session/set_mode", "modeId"),
        ("session/set_model", "modelId"),
        ("session/set_config_option", "configId"),
    ):
        asked: dict[str, Text] = {
            "the agent's": f'{{"sessionId":"s","{name}":"bypass"}}',
            "none": '{"sessionId":"s"}',
            "no text": f'{{"sessionId":"s","{name}":1}}',
            "nothing": UNSET,
            "no JSON": "{",
        }
        for what, request in asked.items():
            yield answers("session-mode", f"{method} {what}", method, "{}", None, request).having(
                options=True
            )
            if what != "no JSON":
                yield makes_up("session-mode", f"{method} {what}", method, request).having(
                    options=True
                )
        error = '{"code":-32602,"message":"no"}'
        for what in ("the agent's", "none", "no JSON"):
            yield denies("session-mode", f"{method} {what}", method, error, asked[what]).having(
                options=True
            )
        snake = name.replace("Id", "_id")
        for what, request in {
            "never added": f'{{"sessionId":"s","{name}":"other"}}',
            "in two spellings": f'{{"sessionId":"s","{name}":"mine","{snake}":"bypass"}}',
            "beside another": '{"sessionId":"s","modeId":"mine","modelId":"mine","config_id":"x"}',
            "in another spelling of the session": f'{{"session_id":"s","{name}":"bypass"}}',
        }.items():
            yield makes_up("session-mode", f"{method} {what}", method, request).having(options=True)
            yield answers("session-mode", f"{method} {what}", method, "{}", None, request).having(
                options=True
            )
        own = f'{{"sessionId":"s","{name}":"mine"}}'
        yield makes_up("session-mode", f"{method} even its own", method, own).having(
            options=True, sessions="own"
        )
        if method != "session/set_config_option":
            yield answers("session-mode", f"{method} even its own", method, "{}", None, own).having(
                options=True
            )
        snake_session = own.replace("sessionId", "session_id")
        yield makes_up("session-mode", f"{method}, session_id", method, snake_session).having(
            options=True
        )
        yield (
            makes_up("session-mode", f"{method} its own", method, own)
            .having(options=True)
            .unknown()
        )
        for what, result in {
            "forged options": '{"configOptions":[{"id":"model","currentValue":"ask"}]}',
            "options hidden": '{"configOptions":[]}',
            "more": '{"modes":{}}',
        }.items():
            yield answers("session-mode", f"{method}, {what}", method, result, None, own).having(
                options=True
            )
        yield makes_up("session-mode", f"{method} its own", method, own)
        yield answers("session-mode", f"{method} its own", method, "{}", None, own)
        yield answers("session-mode", f"{method} amended", method, "{}", "[]", own).having(
            options=True
        )
        yield passes_on(
            "session-mode", f"{method} another", method, own, own.replace("mine", "bypass")
        ).having(options=True)


def logins() -> Iterator[Attack]:
    """Errors of the agent's that become a login, or a login of the agent's with other words."""
    busy, login = '{"code":-32603,"message":"busy"}', '{"code":-32000,"message":"log in"}'
    for what, came, sent in (
        ("an error", busy, login),
        ("other words", login, '{"code":-32000,"message":"log in at x.example"}'),
        ("more data", login, '{"code":-32000,"message":"log in","data":{"url":"x"}}'),
        ("no login", login, busy),
    ):

        def route(context: Context, came: str = came, sent: str = sent) -> Violation | None:
            given = (b"error", came.encode())
            return answered(
                context, "down", "session/prompt", UNSET, b"error", sent.encode(), given
            )

        yield Attack("handshake", f"answered: {what} on its way back", route)
