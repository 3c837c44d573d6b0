"""Which rights a component uses in its transcripts."""

from pathlib import Path
from typing import Final

import pytest

from conductor.author.rights_used import Uses
from conductor.spec import catalog, paths
from conductor.spec.paths import SCENARIOS

NEW: Final = '{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}'
ASK: Final = (
    '{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}'
)
ANSWERED: Final = '{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}'
SAID: Final = (
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}}'
)
CLOCK: Final = '{"jsonrpc":"2.0","id":1,"method":"clock"}'


def transcript(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


PLAYS: Final = {
    "nothing": ([f"> p{ASK}", f"< s{ASK}", "", f"> s{ANSWERED}", f"< p{ANSWERED}"], []),
    "spelled otherwise": ([f"> p{ASK}", f"< s{ASK.replace(':', ': ')}"], []),
    "changes": ([f"> p{ASK}", f"< s{ASK.replace('[]', '[1]')}"], ["change:prompts"]),
    "answers": ([f"> p{ASK}", f"< p{ANSWERED}"], ["answer:prompts"]),
    "amends": (
        [f"> p{ASK}", f"< s{ASK}", "", f"> s{ANSWERED}", f"< p{ANSWERED.replace('end', 'no')}"],
        ["change:ends"],
    ),
    "changes what is said": ([f"> s{SAID}", f"< p{SAID.replace('hi', 'ho')}"], ["change:replies"]),
    "adds": ([f"> s{SAID}", f"< p{SAID}", f"< p{SAID}"], ["add:replies"]),
    "tools": ([f"> p{NEW}", f"< s{NEW.replace('[]', '[1]')}"], ["serve:tools"]),
    "a service": ([f"> p{ASK}", f"< c{CLOCK}"], ["clock"]),
    "no message": (["> pnone", "< s[]"], []),
}


@pytest.mark.parametrize("what", PLAYS)
def test_what_it_does_takes_a_right(what: str) -> None:
    lines, words = PLAYS[what]
    uses = Uses()
    uses.play(transcript(*lines), "a.txt")
    lacks = uses.lacking(["none"])
    assert [*lacks] == words
    assert all(place.startswith("a.txt:") for place in lacks.values())
    assert uses.lacking(["trusted", "clock"]) == {}
    assert uses.lacking(words) == {}
    assert uses.unused(words) == []
    assert uses.unused(["timer", "stop:turns", "see:titles"]) == [
        "timer",
        "stop:turns",
        "see:titles",
    ]


def test_what_it_gets_is_seen_and_what_does_not_go_on_is_hidden() -> None:
    uses = Uses()
    uses.play(transcript(f"> s{SAID}"), "a.txt")
    assert uses.unused(["see:replies", "change:replies", "see:prompts"]) == ["see:prompts"]
    # No message shows that it claims something.
    assert uses.unused(["claim:*"]) == []


BEYOND: Final = {"a2a": ["web:HOST"], "decide": ["web:HOST"]}
"""Rights that the user allows by the address of a setting: the manifest cannot name the address."""


def test_bundled_components_lack_no_right_that_they_use() -> None:
    lacks = {}
    for name in catalog.bundled():
        folder = Path(paths.components()) / name / SCENARIOS
        manifest = catalog.bundled_manifest(name)
        if manifest is None or not folder.is_dir():
            continue
        uses = Uses()
        for path in folder.glob("*.txt"):
            uses.play(path.read_bytes(), path.name)
        spec = catalog.resolve(name)
        if found := [*uses.lacking((*spec.policy.rights, *(manifest.rights or ())))]:
            lacks[name] = found
    assert lacks == BEYOND
