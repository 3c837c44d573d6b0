"""Keeps secrets out of prompts, and out of the agent's text, also where chunks split them.

conductor agent 'redact,config.words=["hunter2"]' claude-agent-acp
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redact_settings import Config

from guest_sdk.python import REFUSED, Proxy, ProxyError, Request, Session, Update

KEY_BEGINS = re.compile(r"-----BEGIN[A-Z0-9 -]{0,64}\Z")
KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,64}PRIVATE KEY-----")
LAST_WORD = re.compile(r"\S*")
CONTEXT = 128
"""Characters of shown text that patterns see in front of new text."""
MOST = 4096
"""Characters without white space from which on not all of them are held back."""

CHUNKS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
TEXTS = ("agent_message", "agent_thought", "user_message", "plan", "plan_update", *CHUNKS)
"""Updates of which the conductor shows none whose change it refuses, for `redact` fails closed."""
NOTICES = ("notice", "compaction_summary_chunk")
CALLS = ("tool_call", "tool_call_update")
SUGGESTIONS = "prompt_suggestions_update"
FINISHED = ("completed", "failed", "cancelled")
BESIDE = (
    "usage_update", "available_commands_update", "current_mode_update", "config_option_update",
    "session_info_update", "plan", "plan_update", "plan_removed", "cursor_update",
    "prompt_suggestions_update",
)  # fmt: skip
"""Updates that are no part of the text: a word may go on after them."""
AS_THEY_ARE = (
    "available_commands_update", "config_option_update", "current_mode_update", "cursor_update",
    "plan_removed", "replay_complete", "session_info_update", "session_message",
    "session_message_chunk", "state_update", "subagent_update", "terminal_output_chunk",
    "terminal_update", "tool_call_content_chunk", "usage_update", "compaction_update",
)  # fmt: skip
"""Updates that hold ids and figures, or words that the conductor lets nobody change."""
KINDS = frozenset((*TEXTS, *NOTICES, *CALLS, SUGGESTIONS, *AS_THEY_ARE))
"""The kinds of update of ACP. Of any other the conductor lets nobody change anything."""
MOST_NAMED = 20
"""Other kinds that the log names."""
named: set[str] = set()
META = "_meta"
TERMINAL = ("terminal_output", "data")
"""The member of a tool call's `_meta` with the output of a terminal, piece by piece."""
TITLE = ("conductor.conversation/subconversation", "title")
"""The member of a text's `_meta` with the title of the part of the conversation that holds it."""
KEPT = frozenset(("annotations", META))
"""Members that nobody may change; of `_meta` all but `TERMINAL` and `TITLE`."""
FIXED = frozenset(
    (*KEPT, "sessionUpdate", "type", "toolCallId", "messageId", "kind", "status", "path",
     "terminalId", "mimeType", "data", "blob", "priority", "role", "audience", "cwd",
     "additionalDirectories", "sessionId", "senderSessionId", "recipientSessionId")
)  # fmt: skip
"""Members that are no text for people: others rely on them."""
WORDS = frozenset(("text", "content"))
NOTICE_WORDS = frozenset(("text", "title", "description"))
"""The members of blocks, and of notices, that the conductor lets be changed."""


class Span(NamedTuple):
    """A secret in a text."""

    start: int
    end: int
    name: str


@dataclass
class Held:
    """The text of a session that is not shown yet."""

    text: str = ""
    before: str = ""
    """The text in front of `text`."""
    of: tuple[str, Any] | None = None
    """The kind and the message that the text belongs to."""
    chunk: tuple[Update, Any] | None = None
    """The chunk that waits for more text, with the function that passes it on."""
    in_key: bool = False
    """Whether the text stands within a private key."""
    busy: bool = False
    """Whether a turn of ACP v2 runs."""
    asked: list[Request] = field(default_factory=list)
    """The prompts that the agent has not answered; the turn is that of the oldest."""


proxy = Proxy(
    "redact",
    description="Keeps secrets out of prompts, and out of what the agent shows.",
    config=Config,
    session=Held,
)


# -- whole texts -----------------------------------------------------------------------------------


def spans(text: str) -> list[Span]:
    """The secrets of a text, in order, none over another."""
    found = []
    for name, expression in proxy.config.expressions:
        for match in expression.finditer(text):
            start, end = match.span(1) if match.re.groups and match[1] is not None else match.span()
            if end > start:
                found.append(Span(start, end, name))
    merged: list[Span] = []
    for one in sorted(found, key=lambda span: (span.start, -span.end)):
        if merged and one.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(one.end, merged[-1].end))
        else:
            merged.append(one)
    return merged


def without(text: str, found: Iterable[Span], start: int, end: int) -> str:
    """A part of a text, with the secrets that begin in it, or reach into it, replaced."""
    shown, at = [], start
    for span in found:
        if span.end > at and span.start < end:
            shown += [text[at : max(at, span.start)], replaced(span.name)]
            at = span.end
    return "".join([*shown, text[at:end]])


def replaced(name: str) -> str:
    """The text in place of a secret."""
    proxy.metric.count("redacted", secret=name)
    return str(proxy.config.replacement.replace("{name}", name))


def clean(value: Any, fixed: frozenset[str] = FIXED) -> Any:
    """A JSON value without secrets; `fixed` members stay as they are."""
    if isinstance(value, str):
        return without(value, spans(value), 0, len(value))
    if isinstance(value, list):
        return [clean(one, fixed) for one in value]
    if isinstance(value, dict):
        return {key: one if key in fixed else clean(one, fixed) for key, one in value.items()}
    return value


def reworded(value: Any, words: frozenset[str]) -> Any:
    """The same where only the members with words may be changed."""
    if isinstance(value, list):
        return [reworded(one, words) for one in value]
    if not isinstance(value, dict):
        return value
    changed = dict(value)
    for key, one in value.items():
        if key not in KEPT:
            changed[key] = (
                clean(one) if isinstance(one, str) and key in words else reworded(one, words)
            )
    return changed


def without_secrets(update: dict[str, Any]) -> dict[str, Any]:
    """An update without secrets. The conductor would undo the whole change for anything more than
    it allows, and shows tool calls and notices then as they were. Of a tool call it lets only the
    output be changed, once it is finished: a user approves of what the agent reports. A suggested
    prompt may only vanish."""
    kind = update.get("sessionUpdate")
    if kind in TEXTS:
        return titled(dict(clean(update)))
    if kind in NOTICES:
        return dict(reworded(update, NOTICE_WORDS))
    if kind == SUGGESTIONS and isinstance(update.get("suggestions"), list):
        return update | {"suggestions": [one for one in update["suggestions"] if clean(one) == one]}
    if kind not in CALLS or update.get("status") not in FINISHED:
        return update
    output = {"rawOutput": clean(update["rawOutput"], KEPT)} if "rawOutput" in update else {}
    blocks = update.get("content")
    if isinstance(blocks, list):
        output["content"] = [
            reworded(one, WORDS) if isinstance(one, dict) and one.get("type") == "content" else one
            for one in blocks
        ]
    return update | output


def titled(update: dict[str, Any]) -> dict[str, Any]:
    """A text without secrets in the title of the part of the conversation that it belongs to."""
    found = inside(update, TITLE)
    if found is None:
        return update
    part, title = found
    return update | {META: update[META] | {TITLE[0]: part | {TITLE[1]: clean(title)}}}


def inside(update: dict[str, Any], member: tuple[str, str]) -> tuple[dict[str, Any], str] | None:
    """The object in the `_meta` of an update that has a text for people, and the text."""
    meta = update.get(META)
    holder = meta.get(member[0]) if isinstance(meta, dict) else None
    text = holder.get(member[1]) if isinstance(holder, dict) else None
    return (holder, text) if isinstance(text, str) else None


# -- streamed texts --------------------------------------------------------------------------------


def streamed(update: dict[str, Any]) -> tuple[tuple[str, Any], dict[str, Any], str] | None:
    """The place of the text in an update that is a piece of a longer text: the key of that text,
    and the object and the member that hold the piece. None: the update is no such piece."""
    kind = update.get("sessionUpdate")
    if kind in CHUNKS:
        content = update.get("content")
        if isinstance(content, dict) and content.get("type") == "text":
            found = (kind, update.get("messageId")), content, "text"
            return found if isinstance(content.get("text"), str) else None
    if kind in CALLS:
        terminal = inside(update, TERMINAL)
        if terminal is not None:
            return (kind, update.get("toolCallId")), terminal[0], TERMINAL[1]
    return None


def open_end(text: str, found: list[Span]) -> int:
    """The place from which on the end of a text may become a secret with more text."""
    run = LAST_WORD.match(text[::-1])  # from behind: a search tries at each place of a long word
    at = len(text) - (run.end() if run else 0)
    if len(text) - at > MOST:
        at = len(text) - MOST // 4
    at = min(at, max(0, len(text) - proxy.config.window))
    key = KEY_BEGINS.search(text)
    at = min(at, key.start()) if key else at
    for word in proxy.config.words:
        ends = (n for n in range(min(len(word) - 1, len(text)), 0, -1) if text.endswith(word[:n]))
        at = min(at, len(text) - next(ends, 0))
    for span in reversed(found):
        if span.start < at < span.end:
            at = span.start
    return at


def shown(held: Held, said: str, *, last: bool) -> tuple[str, str]:
    """The text that can be shown now, in two parts: the text held before, and `said`.
    A secret across both parts is replaced in the first."""
    whole, held.text = held.text + said, ""
    if held.in_key:
        closing = KEY_END.search(whole)
        if closing is None:
            held.text = whole[-CONTEXT:]
            return "", ""
        held.in_key, held.before, whole = False, "", whole[closing.end() :]
    text, start = held.before + whole, len(held.before)
    found = spans(text)
    cut = len(text) if last else max(start, open_end(text, found))
    held.text, held.before = text[cut:], text[:cut][-CONTEXT:]
    if found and found[-1].name == "private-key" and found[-1].end == len(text) and not last:
        key = found[-1]
        held.in_key = not KEY_END.search(text, key.start)
        if held.in_key:
            held.text, held.before = text[max(start, key.start) :][-CONTEXT:], ""
            cut = len(text)
    parting = max(start, len(text) - len(said))
    parting = next((one.end for one in found if one.start < parting < one.end), parting)
    parting = min(parting, cut)
    return without(text, found, start, parting), without(text, found, parting, cut)


@proxy.update()
async def said(update: Update, following: Any) -> None:
    held, piece = update.state, streamed(update.update)
    if not proxy.config.updates:
        await following(update)
        return
    if update.kind not in KINDS:
        tell_of(update.kind)
    if update.kind == "state_update":
        held.busy = update.update.get("state") != "idle"
        if not held.busy:
            await finish(update.session)
    elif update.kind not in BESIDE and (piece is None or piece[0] != held.of):
        await finish(update.session)
    if piece is not None:
        update.state.of, holder, member = piece
        text, holder[member] = holder[member], ""  # it is looked at with what comes before it
        update.params["update"] = without_secrets(update.update)
        await streams(update, text, following)
        return
    if update.kind:
        update.params["update"] = without_secrets(update.update)
    await following(update)


def tell_of(kind: str) -> None:
    """Warns, once, of a kind of update that nobody knows."""
    if kind not in named and len(named) < MOST_NAMED:
        named.add(kind)
        proxy.log.warn(
            f"updates of the kind `{kind[:60]}` are shown as they are, with any secrets: they are "
            "no kind that the conductor knows"
        )


async def streams(update: Update, text: str, following: Any) -> None:
    """Shows what can be shown, now that a chunk came; with what cannot yet it waits for the next.

    Every chunk goes on, in order, if need be without text. The conductor compares what goes on with
    the oldest that has not: with one that was left out, a later one might break a rule.
    """
    held = update.state
    before, now = shown(held, text, last=False)
    append(update, now)
    if held.chunk:
        await goes(held.chunk, before)
    waits = held.text or held.in_key
    held.chunk = (update, following) if waits else None
    if not waits:
        await following(update)


def append(update: Update, text: str) -> None:
    """Adds to the text of a chunk."""
    piece = streamed(update.update)
    assert piece is not None
    piece[1][piece[2]] += text


async def goes(chunk: tuple[Update, Any], text: str) -> None:
    """A chunk that has waited goes on, with more text."""
    update, following = chunk
    append(update, text)
    await following(update)


async def finish(session: Session) -> None:
    """Shows the text that was held back: no text follows that could change it."""
    held = session.state
    session.state = Held(busy=held.busy, asked=held.asked)
    if held.chunk:
        await goes(held.chunk, "" if held.in_key else shown(held, "", last=True)[0])


# -- requests --------------------------------------------------------------------------------------


@proxy.request("session/prompt", "session/load", "session/resume")
async def asked(request: Request, following: Any) -> Any:
    if proxy.config.prompts and request.method == "session/prompt" and "prompt" in request.params:
        prompt = request.params["prompt"]
        request.params["prompt"] = clean(prompt)
        refuse_command(prompt, request.params["prompt"])
    if not isinstance(request.params, dict) or not isinstance(request.params.get("sessionId"), str):
        return await following(request)
    result: Any = None
    if not request.state.asked and not request.state.busy:
        await finish(request.session)  # what the agent has said outside of a turn
    request.state.asked.append(request)
    try:
        result = await following(request)
    finally:
        await ended(request, result)
    return result


@proxy.request("session/request_permission", "elicitation/create")
async def asks_user(request: Request, following: Any) -> Any:
    """Shows the agent's text before the agent's question to the user."""
    if proxy.config.updates and getattr(request, "session", None) is not None:
        await finish(request.session)
    return await following(request)


def refuse_command(prompt: Any, cleaned: Any) -> None:
    """A command with a secret goes nowhere: the conductor lets nobody change what the agent does
    by a command, so it would refuse the change, in words for authors. Raises `ProxyError`."""
    first = prompt[0] if isinstance(prompt, list) and prompt else None
    text = first.get("text") if isinstance(first, dict) else None
    command = text.split()[0] if isinstance(text, str) and text.lstrip()[:1] == "/" else ""
    if command.count("/") == 1 and first != cleaned[0]:  # else it is a path
        raise ProxyError(
            f"a secret stands in the command `{command[:80]}`, so it was not sent: what a command "
            "says cannot be changed\nhint: send it without the secret; or begin with another word, "
            "then the secret is taken out and the agent reads the rest as text",
            REFUSED,
        )


async def ended(request: Request, result: Any) -> None:
    """Shows the text that was held back, unless it belongs to another turn, which goes on."""
    state = request.state
    first = state.asked[0] is request
    state.asked.remove(request)
    begun = request.method == "session/prompt" and isinstance(result, dict)
    begun = begun and "stopReason" not in result  # in ACP v2, whose turns end by an update
    if first and not begun and not state.busy:
        await finish(request.session)


if __name__ == "__main__":
    proxy.run()
