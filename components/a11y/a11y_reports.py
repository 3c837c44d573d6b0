"""Reads the output of accessibility checkers: axe and pa11y as JSON, ESLint as JSON or text."""

import contextlib
import itertools
import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from a11y_topics import RULES, TECHNIQUES

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PLUGIN = "jsx-a11y/"
_ROW = re.compile(rf"\s+(\d+):(\d+)\s+(error|warning)\s+(\S.*?)\s+{_PLUGIN}([\w-]+)\s*")
_OTHER_ROW = re.compile(r"\s+\d+:\d+\s+(?:error|warning)\s+\S.*")
_UNIX = re.compile(r"(\S.*?):(\d+):(\d+): (\S.*)")
_UNIX_RULE = re.compile(rf"(.*) \[(Error|Warning)/{_PLUGIN}([\w-]+)\]")
_CODE = re.compile(r"WCAG2(A{1,3})\.Principle\d\.Guideline\d_\d+\.((\d)_(\d+)_(\d+)\..*)")
_TAG = re.compile(r"wcag(\d)(\d)(\d+)")
_ADDRESS = re.compile(r"\s*\((https?://[^\s)]+)\)$")
_MOST = 4000
"""Characters of one line, or of one text in JSON, that are looked at."""
_DEPTH = 6
"""How deep in JSON results are looked for."""

LEVELS = ("critical", "serious", "error", "moderate", "warning", "minor", "notice", "to be checked")
"""How grave findings are, the gravest first."""


class Place(NamedTuple):
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int


class Element(NamedTuple):
    """An element of a page."""

    html: str
    selector: str
    said: str
    """The fault of this element, as the checker says."""


@dataclass
class Finding:
    """All that a checker found by one rule."""

    rule: str
    level: str
    said: str
    topic: str = ""
    """Empty if the rule is not known."""
    criteria: list[str] = field(default_factory=list)
    address: str = ""
    """Where the checker's makers explain the rule."""
    elements: list[Element] = field(default_factory=list)
    places: list[tuple[Place, str]] = field(default_factory=list)
    """The places in files, with the checker's words about each."""


@dataclass
class Report:
    """An output."""

    found: dict[tuple[str, str], Finding] = field(default_factory=dict)
    """Findings by rule and level."""
    others: int = 0
    """How many findings of ESLint are of other rules."""
    checked: bool = False
    """Whether the text is the output of a checker."""

    def of(self, rule: str, level: str, said: str) -> Finding:
        """The finding by a rule, a new one if there is none."""
        if (rule, level) not in self.found:
            topic, criteria = RULES.get(rule, ("", ""))
            self.found[rule, level] = Finding(rule, level, said, topic, criteria.split())
        return self.found[rule, level]

    @property
    def findings(self) -> list[Finding]:
        """The gravest first."""
        return sorted(self.found.values(), key=lambda one: LEVELS.index(one.level))


def read(output: str) -> Report:
    """All findings of an output."""
    output = _COLOUR.sub("", output)
    report = Report()
    held = _json(output)
    if held is None:
        _text(output, report)
    else:
        _walk(held, report, _DEPTH)
    return report


def _json(output: str) -> Any:
    """The JSON in an output, after lines that a package manager puts in front."""
    for begin in itertools.islice(re.finditer(r"^[\[{]", output, re.MULTILINE), 3):
        with contextlib.suppress(ValueError, RecursionError):
            return json.JSONDecoder().raw_decode(output, begin.start())[0]
    return None


def _walk(held: Any, report: Report, depth: int) -> None:
    """Looks for results of the checkers."""
    if depth == 0:
        return
    if isinstance(held, dict):
        if isinstance(held.get("violations"), list):
            _axe(held["violations"], report, "")
            _axe(_list(held.get("incomplete")), report, "to be checked")
        else:
            for inner in held.values():
                _walk(inner, report, depth - 1)
    elif isinstance(held, list):
        if any(isinstance(one, dict) and isinstance(one.get("nodes"), list) for one in held):
            _axe(held, report, "")
            return
        for one in held:
            if isinstance(one, dict) and isinstance(one.get("filePath"), str):
                _eslint(one, report)
            elif isinstance(one, dict) and isinstance(one.get("code"), str):
                _pa11y(one, report)
            else:
                _walk(one, report, depth - 1)


# -- axe -------------------------------------------------------------------------------------------


def _axe(results: list[Any], report: Report, level: str) -> None:
    report.checked = True
    for one in results:
        if not isinstance(one, dict) or not isinstance(one.get("id"), str):
            continue
        finding = report.of(
            one["id"][:100], level or _level(one.get("impact")), _words(one.get("help"))
        )
        finding.address = _words(one.get("helpUrl"))
        tags = (_TAG.fullmatch(_words(tag)) for tag in _list(one.get("tags")))
        finding.criteria = [".".join(tag.groups()) for tag in tags if tag]
        for node in _list(one.get("nodes")):
            if isinstance(node, dict):
                finding.elements.append(_node(node))


def _node(node: dict[str, Any]) -> Element:
    said = [
        _words(check.get("message"))
        for kind in ("any", "all", "none")
        for check in _list(node.get(kind))
        if isinstance(check, dict)
    ]
    target = [_selector(one) for one in _list(node.get("target"))]
    return Element(_words(node.get("html")), " in frame ".join(target[::-1]), "; ".join(said))


def _selector(target: Any) -> str:
    """A selector; one within a shadow tree is a list."""
    return " >> ".join(map(_words, target)) if isinstance(target, list) else _words(target)


def _level(impact: Any) -> str:
    return impact if impact in LEVELS else "moderate"


# -- pa11y -----------------------------------------------------------------------------------------


def _pa11y(one: dict[str, Any], report: Report) -> None:
    report.checked = True
    code, said = one["code"][:200], _words(one.get("message"))
    extras = one.get("runnerExtras")
    extras = extras if isinstance(extras, dict) else {}
    level = one.get("type") if one.get("type") in LEVELS else "error"
    if extras.get("impact") in LEVELS:
        level = extras["impact"]
    if extras.get("needsFurtherReview") is True:
        level = "to be checked"
    address = _ADDRESS.search(said)
    finding = report.of(code, str(level), _ADDRESS.sub("", said))
    finding.address = address[1] if address else ""
    if known := _CODE.fullmatch(code):
        finding.criteria = [f"{known[3]}.{known[4]}.{known[5]}"]
        finding.topic = next(
            (topic for own, topic in TECHNIQUES if re.fullmatch(own, known[2])), ""
        )
    context, selector = _words(one.get("context")), _words(one.get("selector"))
    finding.elements.append(Element(context, selector, _ADDRESS.sub("", said)))


def _topic(technique: str) -> str:
    """The topic of a code of pa11y's own runner, from the criterion on."""
    return next((topic for own, topic in TECHNIQUES if re.fullmatch(own, technique)), "")


# -- ESLint ----------------------------------------------------------------------------------------


def _eslint(one: dict[str, Any], report: Report) -> None:
    report.checked = True
    for message in _list(one.get("messages")):
        if not isinstance(message, dict):
            continue
        rule, line, column = (message.get(name) for name in ("ruleId", "line", "column"))
        if not isinstance(rule, str) or not rule.startswith(_PLUGIN):
            report.others += 1
        elif isinstance(line, int):
            level = "error" if message.get("severity") == 2 else "warning"
            at = Place(one["filePath"][:_MOST], line, column if isinstance(column, int) else 1)
            _placed(report, rule.removeprefix(_PLUGIN), level, _words(message.get("message")), at)


def _text(output: str, report: Report) -> None:
    """Reads the format `stylish`, which is ESLint's own, and `unix`."""
    file = ""
    for line in output.splitlines():
        if _PLUGIN in line:
            _row(line[: 2 * _MOST], file, report)
        elif line and not line[0].isspace():
            file = line[:_MOST]
        elif file and _OTHER_ROW.fullmatch(line[:_MOST]):
            report.others += 1
            report.checked = True


def _row(line: str, file: str, report: Report) -> None:
    # The message is padded with blanks, and the rule stands behind them.
    line = re.sub(r"(?<=\S)\s{2,}", "  ", line)[:_MOST]
    if row := _ROW.fullmatch(line):
        at = Place(file, int(row[1]), int(row[2]))
        _placed(report, row[5], row[3], row[4], at)
    elif (row := _UNIX.fullmatch(line)) and (rule := _UNIX_RULE.fullmatch(row[4])):
        at = Place(row[1], int(row[2]), int(row[3]))
        _placed(report, rule[3], rule[2].lower(), rule[1], at)


def _placed(report: Report, rule: str, level: str, said: str, place: Place) -> None:
    report.checked = True
    report.of(rule, level, said).places.append((place, said))


# -- values of strangers ---------------------------------------------------------------------------


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _words(value: Any) -> str:
    return " ".join(value[:_MOST].split()) if isinstance(value, str) else ""
