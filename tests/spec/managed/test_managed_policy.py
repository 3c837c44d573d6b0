"""What a managed policy may hold: whatever is wrong with it is an error, and nothing runs."""

from __future__ import annotations

import re

import pytest

from conductor.errors import UsageError
from conductor.spec import catalog
from conductor.spec.managed import bounds, file
from conductor.spec.managed.file import Most
from tests.places import ROOT

PLACE = "/etc/conductor/policy.toml"
CONTACT = 'contact = "a@example.com"\n'

WRONG = {
    # the text, the line that the error names, and words of it
    'contact = "x"\ncontact = "y"': (0, "Cannot overwrite a value"),
    "audit = '/x'": (0, "`contact` is missing"),
    'contact = " "': (1, "nobody would know who to ask"),
    CONTACT + "surprise = 1": (2, "no key `surprise`"),
    CONTACT + "require-sandbox = 'yes'": (2, "`require-sandbox` should be a valid boolean"),
    CONTACT + "agents = []": (2, "`agents` is empty"),
    CONTACT + '[[agents]]\nsource = "claude"': (3, "or an absolute path"),
    CONTACT + '[[agents]]\nsource = "./claude"': (3, "or an absolute path"),
    CONTACT + '[[agents]]\nsource = "bundled"': (3, "a bundled agent is named"),
    CONTACT + '[[agents]]\nsource = "bundled:redact"': (3, "`redact` is no agent"),
    CONTACT + '[[agents]]\nargs = ["x"]': (2, "an entry names a `source`"),
    CONTACT + '[[agents]]\nsource = "/x"\nmost = {}': (4, "no key `most`"),
    CONTACT + '[[components]]\nsource = "bundled:demo"': (3, "`demo` is an agent"),
    CONTACT + '[[components]]\nsource = "bundled:nothing"': (
        3,
        "no component `nothing` is bundled",
    ),
    CONTACT + '[[components]]\nsource = "/opt/../home/**"': (3, "is no glob"),
    CONTACT + '[[components]]\nsource = "/opt/x**"': (3, "`**` is a whole part"),
    CONTACT + '[[components]]\nsha256 = "abc"': (3, "`components.sha256`"),
    CONTACT + '[[components]]\nsigner = "team.pub"': (3, "the absolute path of a public key"),
    CONTACT + '[[components]]\nsource = "bundled"\nmost = {profile = "all"}': (
        4,
        "`profile` cannot be `all`",
    ),
    CONTACT + '[most]\nrights = ["down:session/prompt:answer"]': (3, "there is none"),
    CONTACT + '[most]\nprofile = "none"\nrights = ["down:x"]': (4, "write DIRECTION:METHOD:RIGHT"),
    CONTACT + '[most]\nprofile = "none"\ngrants = ["everything"]': (4, "no grant `everything`"),
    CONTACT + '[most]\nservices = ["files"]': (3, "`files` is granted for something"),
    CONTACT + '[most.limits]\nmemory_bytes = "much"': (3, "a size is a number of bytes"),
    CONTACT + '[[required]]\nsource = "bundled"': (2, "what is required is one component"),
    CONTACT + '[[required]]\nsource = "/opt/*.py"': (2, "what is required is one component"),
    CONTACT + '[[required]]\nsha256 = "' + "0" * 64 + '"': (2, "what is required is one component"),
    CONTACT
    + '[[required]]\nsource = "bundled:redact"\noptions = {on_failure = "restart+bypass"}': (
        4,
        "cannot be bypassed",
    ),
    CONTACT
    + '[[required]]\nsource = "bundled:redact"\nplace = "first"\n'
    + '[[required]]\nsource = "bundled:logging"\nplace = "first"': (7, "cannot both be first"),
    CONTACT + '[[required]]\nsource = "bundled:redact"\noptions = {config = "settings.toml"}': (
        4,
        "`config` is an absolute path",
    ),
    CONTACT + 'audit = "audit.jsonl"': (2, "`audit` is an absolute path"),
    CONTACT + 'audit = "/var/{host}.jsonl"': (2, "only `{user}` is replaced"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_or_contradicts_itself_is_an_error_with_its_line(text: str) -> None:
    line, words = WRONG[text]
    with pytest.raises(UsageError) as refused:
        file.parse(text, PLACE)
    assert words in refused.value.text
    assert PLACE in refused.value.text
    assert not line or f"line {line}:" in refused.value.text
    assert "conductor runs nothing until that is mended: ask " in refused.value.hint
    assert "a@example.com" in refused.value.hint or CONTACT not in text


def test_each_key_is_listed_with_its_value_and_its_line() -> None:
    text = CONTACT + 'require-sandbox = true\n[[agents]]\nsource = "bundled:demo"\n'
    assert list(file.parse(text, PLACE).rows()) == [
        ("contact", '"a@example.com"', f"{PLACE}, line 1"),
        ("require-sandbox", "true", f"{PLACE}, line 2"),
        ("agents[0].source", '"bundled:demo"', f"{PLACE}, line 4"),
    ]


def bounded(most: Most, component: str) -> str:
    """The key of `most` that a component is beyond; empty where it is within."""
    try:
        bounds.bounded(most, catalog.resolve(component))
    except bounds.BeyondError as error:
        return error.key
    return ""


@pytest.mark.parametrize(
    ("held", "wanted", "within"),
    [
        ("files:**", "files:**/*.md", True),
        ("files:**", "files:**", True),
        ("files:**", "files:src/*/a.py", True),
        ("files:**", "files:.env", False),
        ("files:**", "files:**/.git/config", False),
        ("files:docs/**", "files:docs/*.md", True),
        ("files:docs/**", "files:docs/**", True),
        ("files:docs/**", "files:docs", False),
        ("files:docs/**", "files:**/*.md", False),
        ("files:docs/**", "files:*/a.md", False),
        ("files:**/*.md", "files:docs/*.md", True),
        ("files:**/*.md", "files:docs/**/*.md", True),
        ("files:**/*.md", "files:.hidden/*.md", False),
        ("files:**/*.md", "files:**", False),
        ("files:*.md", "files:a.md", False),
        ("files:.env", "files:.env", True),
        ("fetch:*.example.com", "fetch:api.example.com", True),
        ("fetch:*.example.com", "fetch:*.api.example.com", True),
        ("fetch:*.example.com", "fetch:example.com", False),
        ("fetch:*.example.com", "fetch:POST@api.example.com", False),
        ("fetch:POST@example.com", "fetch:POST@example.com", True),
        ("fetch:example.com", "fetch:http://example.com", False),
        ("fetch:example.com", "fetch:example.com:8443", False),
        ("fetch:example.com", "fetch:example.com.evil.org", False),
        ("write:notes", "write:notes/2025", True),
        ("write:notes", "write:notes/.git", False),
        ("write:notes", "write:notesy", False),
        ("write:notes/2025", "write:notes", False),
        ("clock", "clock", True),
        ("clock", "random", False),
    ],
)
def test_a_service_is_within_another(held: str, wanted: str, *, within: bool) -> None:
    most = Most(services=[held])
    assert bounded(most, f"passthrough,grant={wanted}") == ("" if within else "services")


@pytest.mark.parametrize(
    ("most", "component", "key"),
    [
        (Most(profile="context"), "passthrough,profile=context", ""),
        (Most(profile="context"), "passthrough,profile=none", ""),
        (Most(profile="context"), "passthrough,profile=observer", "profile"),
        (Most(profile="context"), "passthrough,profile=full", "grants"),
        (Most(profile="context"), "passthrough,profile=trusted", "profile"),
        (Most(profile="trusted"), "passthrough,profile=trusted", ""),
        (Most(), "passthrough,profile=trusted", ""),
        (Most(profile="context"), "python x.py", "profile"),
        (
            Most(profile="context"),
            "passthrough,profile=context,allow=down:session/prompt:answer",
            "profile",
        ),
        (
            Most(profile="context", rights=["down:session/prompt:answer"]),
            "passthrough,profile=context,allow=down:session/prompt:answer",
            "",
        ),
        (Most(profile="context"), "passthrough,profile=context,texts", "grants"),
        (Most(profile="context", grants=["texts"]), "passthrough,profile=context,texts", ""),
        (
            Most(profile="context", grants=["turns=within"]),
            "passthrough,profile=context,turns=within",
            "",
        ),
        (
            Most(profile="context", grants=["turns=within"]),
            "passthrough,profile=context,turns=unprompted",
            "grants",
        ),
        (Most(profile="context"), "passthrough,profile=context,methods=_x/*", "grants"),
        (Most(services=[]), "datetime", "services"),
        (Most(services=[]), "datetime,deny=*", ""),
        (Most(services=["clock"]), "datetime", ""),
        (Most(limits={"memory_bytes": "16MiB"}), "passthrough,memory=32MiB", "limits"),
        (Most(limits={"memory_bytes": "16MiB"}), "passthrough,memory=16MiB", ""),
        (Most(limits={"memory_bytes": "16MiB"}), "passthrough,profile=context", ""),
    ],
)
def test_a_component_is_within_the_most(most: Most, component: str, key: str) -> None:
    assert bounded(most, component) == key


def test_limits_that_nobody_chose_are_lowered() -> None:
    most = Most(limits={"memory_bytes": "16MiB", "cpu_ms": 5000, "fuel": 10})
    spec = bounds.bounded(most, catalog.resolve("passthrough"))
    assert spec.limits == {"memory_bytes": 16 * 1024**2, "cpu_ms": 1000, "fuel": 10}


def test_the_examples_of_the_page_are_policies() -> None:
    page = (ROOT / "docs" / "managed.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert blocks
    for block in blocks:
        assert file.parse(block, PLACE).file.contact


def test_the_page_has_each_key() -> None:
    page = (ROOT / "docs" / "managed.md").read_text()
    for table in (file.File, file.Allowed, file.Required, file.Most):
        for key in table.__struct_encode_fields__:
            assert re.search(rf"^\| .*`{key}`.* \|", page, re.MULTILINE), key
