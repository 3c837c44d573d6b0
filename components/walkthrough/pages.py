"""Markdown as HTML: the elements of a walkthrough, and nothing that runs."""

import re
from html import escape

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_ENTRY = re.compile(r"^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_INLINE = (
    (re.compile(r"\*\*(.+?)\*\*"), r"<strong>\1</strong>"),
    (re.compile(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])"), r"<em>\1</em>"),
    (re.compile(r"(?<!\w)_([^_\s][^_]*)_(?!\w)"), r"<em>\1</em>"),
    (re.compile(r"\[([^\]]+)\]\((https?://[^\s()]+)\)"), r'<a href="\2">\1</a>'),
)


def inline(text: str) -> str:
    """The words of a paragraph."""
    parts = re.split(r"(`+)(.+?)\1(?!`)", text)
    out = []
    for at, part in enumerate(parts):
        if at % 3 == 2:
            out.append(f"<code>{escape(part.strip())}</code>")
        elif at % 3 == 0:
            said = escape(part)
            for pattern, made in _INLINE:
                said = pattern.sub(made, said)
            out.append(said)
    return "".join(out)


def html(markdown: str) -> str:
    """Headings, paragraphs, lists, quotes and code."""
    lines, out, at = markdown.split("\n"), [], 0
    while at < len(lines):
        line = lines[at]
        fence = _FENCE.match(line)
        heading = _HEADING.match(line)
        if not line.strip():
            at += 1
        elif fence is not None:
            end = _behind(lines, at, fence[1])
            out.append(f"<pre><code>{escape(chr(10).join(lines[at + 1 : end]))}</code></pre>")
            at = end + 1
        elif heading is not None:
            level = len(heading[1])
            out.append(f"<h{level}>{inline(heading[2])}</h{level}>")
            at += 1
        elif re.fullmatch(r"\s*([-*_])(\s*\1){2,}\s*", line):
            out.append("<hr>")
            at += 1
        else:
            begin, at = at, at + 1
            while at < len(lines) and lines[at].strip() and not _begins(lines[at], lines[begin]):
                at += 1
            out.append(_block(lines[begin:at]))
    return "\n".join(out)


def _behind(lines: list[str], at: int, fence: str) -> int:
    for end in range(at + 1, len(lines)):
        closed = lines[end].strip()
        if len(closed) >= len(fence) and set(closed) == {fence[0]}:
            return end
    return len(lines)


def _begins(line: str, first: str) -> bool:
    """Whether a line begins another block than the one of `first`."""
    if _FENCE.match(line) or _HEADING.match(line):
        return True
    return bool(_ENTRY.match(line)) and not _ENTRY.match(first)


def _block(lines: list[str]) -> str:
    """A list, a quote, or a paragraph."""
    first = _ENTRY.match(lines[0])
    if first is not None:
        entries: list[str] = []
        for line in lines:
            entry = _ENTRY.match(line)
            if entry is not None:
                entries.append(entry[2])
            else:
                entries[-1] += " " + line.strip()
        tag = "ol" if first[1] else "ul"
        return f"<{tag}>" + "".join(f"<li>{inline(one)}</li>" for one in entries) + f"</{tag}>"
    if all(line.lstrip().startswith(">") for line in lines):
        said = " ".join(line.lstrip()[1:].strip() for line in lines)
        return f"<blockquote><p>{inline(said)}</p></blockquote>"
    return f"<p>{inline(' '.join(line.strip() for line in lines))}</p>"
