"""Questions to the endpoint, its answers, and the time for which an answer holds."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from guest_sdk.python import Proxy, ProxyError

Verdict = Literal["allow", "narrow", "deny"]
LARGEST = 256 * 1024
"""Characters of a question. A longer question is refused: padding could hide the important part."""
ANSWER = 64 * 1024
"""Bytes of an answer."""
KEPT = 256
"""Decisions that are kept."""
PARTS = ("principal", "action", "resource")
WORDS = 200
"""Characters of a reason."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    url: str = ""
    format: Literal["opa", "cedar"] = "opa"
    deadline: float = 2.0
    failure: Literal["closed", "open"] = "closed"
    cache: int = 60

    def __post_init__(self) -> None:
        if not 0.1 <= self.deadline <= 30 or not 0 <= self.cache <= 86_400:
            raise ValueError("`deadline` is 0.1 to 30 seconds, `cache` 0 to 86,400")
        if self.url and not self.url.startswith(("http://", "https://", "unix:/")):
            raise ValueError("`url` begins with `http://`, `https://` or `unix:/`")


class Decision(NamedTuple):
    """The decision of the endpoint, and the reason, for the user."""

    verdict: Verdict
    reason: str


class FailedError(Exception):
    """The endpoint has not decided."""


class Endpoint:
    """Asks, and remembers the last decisions."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, Decision]] = {}
        """The decisions by their questions, each with its time in milliseconds; the oldest
        first."""

    async def decision(self, config: Config, question: dict[str, Any]) -> Decision:
        """The decision about a question; where the endpoint fails, as the settings say."""
        body = json.dumps(written(config.format, question), ensure_ascii=True)
        if len(body) > LARGEST:
            return Decision("deny", f"it is too long to ask about: {len(body):,} characters")
        key = hashlib.sha256(f"{config.url}\n{body}".encode()).hexdigest()
        try:
            now = await Proxy.clock.unix_ms() if config.cache else 0
            when, known = self._kept.get(key, (0, None))
            if known is not None and 0 <= now - when < config.cache * 1000:
                return known
            found = await asked(config, body)
        except (FailedError, ProxyError) as error:
            Proxy.log.warn(f"the endpoint has not decided: {error}")
            why = clean(str(error).partition("\n")[0])
            if config.failure == "open":
                return Decision("allow", "")
            return Decision("deny", f"the endpoint has not decided: {why}")
        if config.cache:
            self._kept.pop(key, None)
            self._kept[key] = (now, found)
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        return found


def written(format_: str, question: dict[str, Any]) -> dict[str, Any]:
    """A question as the endpoint takes it."""
    if format_ == "opa":
        return {"input": question}
    context = dict(question["context"])
    if "arguments" in context:  # Cedar knows neither null nor numbers with a point
        context["arguments"] = json.dumps(context["arguments"], ensure_ascii=False)
    return {part: uid(question[part]) for part in PARTS} | {"context": context}


def uid(entity: dict[str, str]) -> str:
    """An entity as Cedar writes it, `Tool::"bash"`."""
    return f"{entity['type']}::{json.dumps(entity['id'], ensure_ascii=False)}"


async def asked(config: Config, body: str) -> Decision:
    """Asks the endpoint. Raises `FailedError`, `ProxyError`."""
    got = await Proxy.fetch(
        config.url,
        method="POST",
        headers={"Content-Type": "application/json", "Accept": "application/json"},
        body=body,
        max_bytes=ANSWER,
        timeout=config.deadline,
    )
    if got.status != 200:
        raise FailedError(f"it answered with the status {got.status}")
    if got.truncated:
        raise FailedError(f"its answer has more than {ANSWER:,} bytes")
    try:
        return read(got.json())
    except ValueError as error:
        raise FailedError(f"its answer is no JSON: {error}") from None


WORDS_OF: dict[str, Verdict] = {"allow": "allow", "deny": "deny", "narrow": "narrow"}


def read(answer: Any) -> Decision:
    """A decision: `true`, `"deny"`, `{"decision": "Allow", "reason": "…"}`, each also in `result`.

    Raises `FailedError` for anything else: an answer that is not understood allows nothing.
    """
    held = answer["result"] if isinstance(answer, dict) and "result" in answer else answer
    said, reason = held, ""
    if isinstance(held, dict):
        said = held.get("decision", held.get("allow"))
        reason = held["reason"] if isinstance(held.get("reason"), str) else ""
    if isinstance(said, bool):
        return Decision("allow" if said else "deny", clean(reason))
    verdict = WORDS_OF.get(said.lower()) if isinstance(said, str) else None
    if verdict is None:
        raise FailedError("its answer holds no decision: allow, deny or narrow")
    return Decision(verdict, clean(reason))


def clean(words: str) -> str:
    """Words of others, in one line."""
    said = " ".join("".join(one if one.isprintable() else " " for one in words).split())
    return said if len(said) <= WORDS else f"{said[:WORDS]}…"
