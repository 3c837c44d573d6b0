"""JSON with comments and odd formatting, for the tests of editors' settings."""

import json
from typing import Any, Final

from hypothesis import strategies as st

FIXTURES: Final = {
    "absent": None,
    "bom": '\ufeff{\n  "theme": "One Dark"\n}\n',
    "comments only": "// Zed settings\n// nothing yet",
    "comments only, with a line end": "/* nothing */\n",
    "commented braces": '{ // {"agent_servers": {}}\n  /* } */ "a": "}{" // ]\n}\n',
    "comment behind the last member": '{\n  "theme": "One Dark" // mine\n}\n',
    "comment in an empty list of agents": '{\n  "agent_servers": { // none\n  }\n}\n',
    "block comment in an empty list of agents": '{"agent_servers": { /* none */ }}',
    "crlf": '{\r\n  // mine\r\n  "theme": "One Dark",\r\n}\r\n',
    "deep": '{"a": ' + '{"b": [' * 60 + "1" + "]}" * 60 + "}",
    "duplicates": '{"agent_servers": {"A": {"command": "x"}}, "agent_servers": {"B": {}}}',
    "empty": "",
    "empty object": "{}",
    "four spaces": '{\n    "theme": "One Dark",\n    "agent_servers": {\n    }\n}',
    "lines without indentation": '{\n"theme": "One Dark",\n"agent_servers": {}\n}\n',
    "no final newline": '{\n  "theme": "One Dark"\n}',
    "null": '{\n  "agent_servers": null, // none\n}\n',
    "one line": '{"theme":"One Dark","agent_servers":{"Other":{"command":"other","args":[]}}}',
    "one line with blanks": '{ "theme": "One Dark", "agent_servers": { } }\n',
    "others": (
        '// mine\n{\n\t"agent_servers": { // agents\n\t\t// the first\n\t\t"Other": {\n'
        '\t\t\t"command": "other", /* , */\n\t\t},\n\t},\n}\n\n\n'
    ),
    "spaces only": " \n\n\t",
    "tabs": '{\n\t"theme": "One Dark",\n\t"font": {\n\t\t"size": 12,\n\t},\n}\n',
    "three spaces": '{\n   "theme": "One Dark"\n}\n',
    "unicode": '{"größe \\u00e4 \\ud83d\\ude00": "日本 😀 \\"//\\" /*"}\n',
}
"""Settings as users have them; every one is read by Zed."""

WRONG: Final = {
    "a colon is missing": ('{"a" 1}', "1:6"),
    "a comma too many": ('{"a": 1,,}', "1:9"),
    "a comment without an end": ("{\n /* oh", "2:2"),
    "a string without an end": ('{\n  "a": "x\n}', "2:8"),
    "a word": ("{\n\n\t\tagent: 1}", "3:3"),
    "deeper than anything": ("[" * 100_000, "1:201"),
    "more behind the end": ('{} {"a": 1}', "1:4"),
    "no end": ('{"a": [1, 2', "1:12"),
    "no value": ('{"a": }', "1:7"),
    "not JSON at all": ("theme = dark\n", "1:1"),
    "wrong bracket": ('{"a": [1}', "1:9"),
}
"""Texts that no editor reads, and where they are wrong."""

_KEYS = st.text(max_size=6) | st.sampled_from(["agent_servers", "Conductor", "//", '"', "/*"])
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
DATA = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=12,
)

_TRIVIA: st.SearchStrategy[str] = st.lists(
    st.sampled_from([" ", "\t", "\n", "\r\n", '// a { " comment\n', "/* a\n ] block */", "/**/"]),
    max_size=3,
).map("".join)


@st.composite
def texts(draw: st.DrawFn, data: Any) -> str:
    """A way to write data down, with comments, odd blanks and trailing commas."""
    if isinstance(data, (dict, list)):
        slots: list[str] = []
        for each in data.items() if isinstance(data, dict) else data:
            if isinstance(data, dict):
                name = f"{json.dumps(each[0])}{draw(_TRIVIA)}:{draw(_TRIVIA)}"
                slots.append(f"{name}{draw(texts(each[1]))}")
            else:
                slots.append(draw(texts(each)))
        whole = ",".join(f"{draw(_TRIVIA)}{slot}{draw(_TRIVIA)}" for slot in slots)
        if slots:
            whole += draw(st.sampled_from(["", ",", ", // last\n"]))
        return f"{{{whole}}}" if isinstance(data, dict) else f"[{whole}]"
    return json.dumps(data, ensure_ascii=draw(st.booleans()))


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, Any]:
    """A file of settings, and its value."""
    data = draw(st.dictionaries(_KEYS, DATA, max_size=4))
    if draw(st.booleans()):
        data["agent_servers"] = draw(st.dictionaries(_KEYS, DATA, max_size=3) | st.none())
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return f"{bom}{draw(_TRIVIA)}{draw(texts(data))}{draw(_TRIVIA)}", data
