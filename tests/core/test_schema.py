"""Every method, kind and member of the schema of ACP (`acp_schema/README.md`) has its row.

Where one has not, these tests name it: give it a row in the table that the test speaks of.
"""

import json
from typing import Final

import pytest
from msgspec import Raw
from msgspec.structs import replace

from conductor.core.aliases import NAMES
from conductor.core.guards import GUARDS, Context, answered, forwarded, originated
from conductor.core.guards.capabilities import PROMISES
from conductor.core.guards.names import CANCEL, KNOWN, is_conductors, is_mcp
from conductor.core.policy.key_table import (
    COMMANDS_KIND,
    KINDS,
    SETUP,
    TEXT_KINDS,
    UPDATE,
    Direction,
    row_of,
    update,
)
from conductor.core.policy.rules import Grants
from conductor.telemetry.names import METHODS
from guest_sdk.python import names
from tests.core.schema import VERSIONS, Json, Samples, changed, members, methods, refers, variants
from tests.core.test_guards.attack import CONTEXT

EVERYTHING: Final = Grants(
    permission="narrow", sessions="own", options=True, texts=True, mcp="", commands=("granted",)
)
"""Grants that open the acts that they name, and nothing else."""

OPEN: Final = {
    "session/prompt": {"prompt"},
    **{method: {"mcpServers"} for method in SETUP},
    "initialize": {"clientCapabilities", "capabilities", "protocolVersion"},
    "session/request_permission": {"options"},
}
"""The members of params that a component may change on their way, within rules of their own. No
method and no member is open but these."""

OPEN_RESULTS: Final = {
    "session/prompt": {"stopReason"},
    "initialize": {"agentCapabilities", "capabilities", "authMethods"},
    "session/request_permission": {"outcome"},
    **{method: {"configOptions"} for method in (*SETUP, "session/set_config_option")},
    "session/list": {"sessions"},
}
"""The open members of results. Options may be added behind the agent's, never changed."""

WORDS: Final = {
    **{kind: {"text", "content"} for kind in TEXT_KINDS},
    "notice": {"text", "title", "description"},
    "compaction_summary_chunk": {"text", "title", "description"},
    "tool_call": {"text", "content", "rawOutput"},
    "tool_call_update": {"text", "content", "rawOutput"},
    "prompt_suggestions_update": {"suggestions"},
    COMMANDS_KIND: {"availableCommands"},
    "config_option_update": {"configOptions"},
}
"""By kind of update: the members whose words a component may change, or whose entries may vanish or
be added to. All other members of all kinds are shown as the agent reports them."""

BLOCKS: Final = {
    "text": True, "image": True, "audio": True, "resource": True, "resource_link": True,
    "skill": False,
}  # fmt: skip
"""Whether a component may add a block of a type to a prompt. A skill is a command."""

SESSION_CAPABILITIES: Final = {"additionalDirectories", "prompt", "systemPrompt"}
"""The capabilities, beside `PROMISES`, that no method of a component's stands for: nobody may claim
them."""

PATHS: Final = {"additionalDirectories", "command", "cwd", "oldPath", "path", "uri"}
"""Members with a path in them: of set-ups and lists (`session-setup`, `own-sessions`), of links in
prompts (`links`), of tool calls, permissions, plans and skills, which stay."""


def raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())


def having(grants: Grants) -> Context:
    return replace(CONTEXT, grants=grants)


CONTEXTS: Final = (having(Grants()), having(EVERYTHING))


@pytest.mark.proves("no method, update or member of")
@pytest.mark.parametrize("version", VERSIONS)
def test_every_method_has_its_row(version: int) -> None:
    for method, side in methods(version):
        if side in ("proxy", "protocol"):
            assert is_conductors(method) or method == CANCEL, method
            continue
        assert method in KNOWN, f"{method}: `conductor/core/guards/names.py`"
        direction = Direction.DOWN if side == "agent" else Direction.UP
        assert row_of(direction, method).keys, f"{method}: `key_table.py:ROWS`"
        assert method in METHODS, f"{method}: `conductor/telemetry/names.py`"
        assert method in names.REQUESTS | names.NOTIFICATIONS, f"{method}: the SDK's names.py"


def test_every_kind_of_update_has_its_row() -> None:
    kinds = {kind for one in VERSIONS for kind in variants(one, "SessionUpdate", "sessionUpdate")}
    assert kinds == KINDS, "`key_table.py:KINDS`"
    assert kinds == names.UPDATES, "the SDK's names.py"
    guarded = {method for guard in GUARDS for rules in guard.rules for method in rules.methods}
    for kind in kinds:
        assert row_of(Direction.UP, update(kind)).keys, f"{kind}: `key_table.py:ROWS`"
        assert update(kind) in guarded, f"{kind}: `conductor/core/guards/table.py`"


@pytest.mark.proves("no method, update or member of")
@pytest.mark.parametrize("version", VERSIONS)
def test_no_member_of_a_request_changes_but_those_that_are_open(version: int) -> None:
    samples = Samples(version)
    for (method, side), types in methods(version).items():
        kind = types.get("Request") or types["Notification"]
        if side in ("proxy", "protocol") or method == UPDATE or is_mcp(method):
            continue
        direction = "down" if side == "agent" else "up"
        for before in samples.of(kind):
            for at, after in changed(before):
                if at[:1] == () or at[0] in OPEN.get(method, ()):
                    continue
                for context in CONTEXTS:
                    found = forwarded(context, direction, method, raw(before), raw(after))
                    assert found is not None, f"{method}: {'/'.join(at)}"


@pytest.mark.proves("no method, update or member of")
@pytest.mark.parametrize("version", VERSIONS)
def test_no_member_of_a_result_changes_but_those_that_are_open(version: int) -> None:
    samples = Samples(version)
    for (method, side), types in methods(version).items():
        if side in ("proxy", "protocol") or "Response" not in types or is_mcp(method):
            continue
        direction = "down" if side == "agent" else "up"
        for before in samples.of(types["Response"]):
            for at, after in changed(before):
                if at[:1] == () or at[0] in OPEN_RESULTS.get(method, ()):
                    continue
                for context in CONTEXTS:
                    upstream = (b"result", bytes(raw(before)))
                    found = answered(
                        context, direction, method, raw({}), b"result", bytes(raw(after)), upstream
                    )
                    assert found is not None, f"{method}: {'/'.join(at)}"


@pytest.mark.proves("no method, update or member of")
@pytest.mark.parametrize("version", VERSIONS)
def test_of_no_update_more_changes_than_its_words(version: int) -> None:
    for before in Samples(version).of("SessionUpdate"):
        kind = before["sessionUpdate"]
        for at, after in changed(before):
            if at and (at[-1] in WORDS.get(kind, ()) or at[0] == "rawOutput"):
                continue
            for context in CONTEXTS:
                given, sent = (raw({"sessionId": "s", "update": one}) for one in (before, after))
                found = forwarded(context, "up", UPDATE, given, sent)
                assert found is not None, f"{kind}: {'/'.join(at)}"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_component_makes_up_no_update_but_words(version: int) -> None:
    for sample in Samples(version).of("SessionUpdate"):
        kind = sample["sessionUpdate"]
        if kind not in TEXT_KINDS:
            for context in CONTEXTS:
                found = originated(context, "up", UPDATE, raw({"sessionId": "s", "update": sample}))
                assert found is not None, kind


@pytest.mark.parametrize("version", VERSIONS)
def test_a_component_makes_up_no_request_but_prompts_and_sessions(version: int) -> None:
    """Such a request has no member but those that the component may choose."""
    samples = Samples(version)
    plain: dict[str, Json] = {
        "session/prompt": {"sessionId": "s", "prompt": [{"type": "text", "text": "a"}]},
        "session/new": {"cwd": "/w", "additionalDirectories": [], "mcpServers": []},
    }
    for (method, side), types in methods(version).items():
        kind = types.get("Request") or types["Notification"]
        if side in ("proxy", "protocol") or method in (UPDATE, "session/cancel") or is_mcp(method):
            continue
        direction = "down" if side == "agent" else "up"
        for sample in samples.of(kind):
            for context in CONTEXTS:
                if method not in plain:
                    found = originated(context, direction, method, raw(sample))
                    assert found is not None, method
                    continue
                for name in sample.keys() - plain[method].keys():
                    more = {**plain[method], name: sample[name]}
                    found = originated(context, direction, method, raw(more))
                    assert found is not None, f"{method}: {name}"
    for method, params in plain.items():
        assert originated(CONTEXTS[1], "down", method, raw(params)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_every_type_of_block_has_its_row(version: int) -> None:
    for type_, held in variants(version, "ContentBlock", "type").items():
        (block, *_) = Samples(version).of(held)
        links = {"uri": "https://example.com/x"}
        if type_ == "resource":
            block = {**block, "resource": {"text": "x", **links}}
        elif "uri" in block:
            block |= links
        before: Json = {"sessionId": "s", "prompt": [{"type": "text", "text": "a"}]}
        after = {**before, "prompt": [*before["prompt"], block]}
        found = forwarded(CONTEXTS[0], "down", "session/prompt", raw(before), raw(after))
        assert (found is None) == BLOCKS[type_], type_


@pytest.mark.parametrize("version", VERSIONS)
def test_every_capability_of_a_session_has_its_row(version: int) -> None:
    (held,) = (one for one in Samples(version).of("SessionCapabilities")[:1])
    place = "/sessionCapabilities" if version == 1 else "/session"
    for name in held:
        known = f"{place}/{name}" in PROMISES
        assert known != (name in SESSION_CAPABILITIES), f"{name}: `capabilities.py:PROMISES`"


def test_every_member_that_names_a_session_or_a_path_has_its_row() -> None:
    for version in VERSIONS:
        for type_, name, held in members(version):
            if refers(held, "SessionId"):
                assert name in NAMES, f"{type_}.{name}: `conductor/core/aliases.py:NAMES`"
            if refers(held, "AbsolutePath"):
                assert name in PATHS, f"{type_}.{name}"


def test_a_skill_is_granted_as_a_command_is() -> None:
    before: Json = {"sessionId": "s", "prompt": [{"type": "text", "text": "a"}]}
    for name, fits in (("granted", True), ("other", False)):
        after = {**before, "prompt": [{"type": "skill", "name": name}, *before["prompt"]]}
        found = forwarded(CONTEXTS[1], "down", "session/prompt", raw(before), raw(after))
        assert (found is None) == fits
