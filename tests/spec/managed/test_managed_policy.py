"""The form of a managed policy: any mistake in it is an error, and nothing runs."""

import re

import pytest

from conductor.errors import UsageError
from conductor.spec import catalog
from conductor.spec.managed import bounds, file, options
from conductor.spec.managed.file import Most
from conductor.spec.options import Options
from tests.docs import pages
from tests.places import ROOT

PLACE = "/etc/conductor/policy.toml"
CONTACT = 'contact = "a@example.com"\n'

WRONG = {
    # the text, the line that the error names, and words of it
    'contact = "x"\ncontact = "y"': (2, "Cannot overwrite a value"),
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
    CONTACT + '[[components]]\nsource = "bundled"\nmost = {only = ["all"]}': (
        4,
        "no right `all`",
    ),
    CONTACT + '[most]\nprofile = "none"': (3, "[most] has no key `profile`"),
    CONTACT + '[most]\nonly = ["kv"]': (3, "`kv` is written `storage` now"),
    CONTACT + '[most]\ndeny = ["everything"]': (3, "no right `everything`"),
    CONTACT + '[most]\nonly = ["read"]': (3, "`read` alone is no right"),
    CONTACT + '[most.limits]\nmemory_bytes = "much"': (3, "a size is a number of bytes"),
    CONTACT + '[[required]]\nsource = "bundled"': (2, "a requirement names one component"),
    CONTACT + '[[required]]\nsource = "/opt/*.py"': (2, "a requirement names one component"),
    CONTACT + '[[required]]\nsha256 = "' + "0" * 64 + '"': (2, "a requirement names one component"),
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
    CONTACT + 'audit-content = "all"': (2, "`audit-content` means nothing without `audit`"),
    CONTACT + 'audit = "/var/{host}.jsonl"': (2, "only `{user}` is replaced"),
}


@pytest.mark.proves("a policy that cannot be read")
@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_or_contradicts_itself_is_an_error_with_its_line(text: str) -> None:
    line, words = WRONG[text]
    with pytest.raises(UsageError) as refused:
        file.parse(text.encode(), PLACE)
    assert words in refused.value.text
    assert PLACE in refused.value.text
    assert not line or f"line {line}:" in refused.value.text
    assert "conductor runs nothing until that is mended: ask " in refused.value.hint
    assert "a@example.com" in refused.value.hint or CONTACT not in text


def bounded(most: Most, component: str) -> str:
    """The key of `most` that a component is beyond; empty where it is within."""
    try:
        bounds.bounded(most, catalog.resolve(component))
    except bounds.BeyondError as error:
        return error.key
    return ""


@pytest.mark.proves("no proxy may do more than the")
@pytest.mark.parametrize(
    ("held", "wanted", "within"),
    [
        ("read:**", "read:**/*.md", True),
        ("read:**", "read:**", True),
        ("read:**", "read:src/*/a.py", True),
        ("read:**", "read:.env", False),
        ("read:**", "read:**/.git/config", False),
        ("read:docs/**", "read:docs/*.md", True),
        ("read:docs/**", "read:docs/**", True),
        ("read:docs/**", "read:docs", False),
        ("read:docs/**", "read:**/*.md", False),
        ("read:docs/**", "read:*/a.md", False),
        ("read:**/*.md", "read:docs/*.md", True),
        ("read:**/*.md", "read:docs/**/*.md", True),
        ("read:**/*.md", "read:.hidden/*.md", False),
        ("read:**/*.md", "read:**", False),
        ("read:*.md", "read:a.md", False),
        ("read:.env", "read:.env", True),
        ("web:*.example.com", "web:api.example.com", True),
        ("web:*.example.com", "web:*.api.example.com", True),
        ("web:*.example.com", "web:example.com", False),
        ("web:*.example.com", "web:POST@api.example.com", False),
        ("web:POST@example.com", "web:POST@example.com", True),
        ("web:example.com", "web:http://example.com", False),
        ("web:example.com", "web:example.com:8443", False),
        ("web:example.com", "web:example.com.evil.org", False),
        ("write:notes", "write:notes/2025", True),
        ("write:notes", "write:notes/.git", False),
        ("write:notes", "write:notesy", False),
        ("write:notes/2025", "write:notes", False),
        ("clock", "clock", True),
        ("clock", "random", False),
    ],
)
def test_a_service_is_within_another(held: str, wanted: str, *, within: bool) -> None:
    most = Most(only=[held])
    assert bounded(most, f"passthrough,only={wanted}") == ("" if within else "only")


@pytest.mark.proves("no proxy may do more than the")
@pytest.mark.parametrize(
    ("most", "component", "key"),
    [
        (Most(only=["context"]), "passthrough,only=context", ""),
        (Most(only=["context"]), "passthrough,only=none", ""),
        (Most(only=["context"]), "passthrough,only=observer", "only"),
        (Most(only=["context"]), "passthrough,only=full", "only"),
        (Most(only=["context"]), "passthrough,only=trusted", "only"),
        (Most(only=["trusted"]), "passthrough,only=trusted", ""),
        (Most(), "passthrough,only=trusted", ""),
        (Most(only=["context"]), "python x.py", "only"),
        (
            Most(only=["context"]),
            "passthrough,only=context+answer:prompts",
            "only",
        ),
        (
            Most(only=["context", "answer:prompts"]),
            "passthrough,only=context+answer:prompts",
            "",
        ),
        (Most(only=["context"]), "passthrough,only=context+change:tool-calls", "only"),
        (
            Most(only=["context", "change:tool-calls"]),
            "passthrough,only=context+change:tool-calls",
            "",
        ),
        (
            Most(only=["context", "prompt:within"]),
            "passthrough,only=context+prompt:within",
            "",
        ),
        (
            Most(only=["context", "prompt:within"]),
            "passthrough,only=context+prompt:anytime",
            "only",
        ),
        (Most(only=["context"]), "passthrough,only=context+extension:_x/*", "only"),
        (Most(only=["context"]), "datetime", "only"),
        (Most(only=["context"]), "datetime,deny=clock", ""),
        (Most(only=["context", "clock"]), "datetime", ""),
        (Most(deny=["clock"]), "datetime", "deny"),
        (Most(deny=["web"]), "passthrough,allow=web:a.example", "deny"),
        (Most(deny=["see:prompts"]), "passthrough,only=context", "deny"),
        (Most(deny=["away"]), "passthrough,allow=prompt:anytime", "deny"),
        (Most(deny=["away"]), "passthrough,allow=peer:a", "deny"),
        (Most(deny=["voice"]), "passthrough,only=observer", ""),
        (Most(limits={"memory_bytes": "16MiB"}), "passthrough,memory=32MiB", "limits"),
        (Most(limits={"memory_bytes": "16MiB"}), "passthrough,memory=16MiB", ""),
        (Most(limits={"memory_bytes": "16MiB"}), "passthrough,only=context", ""),
    ],
)
def test_a_component_is_within_the_most(most: Most, component: str, key: str) -> None:
    assert bounded(most, component) == key


def test_who_set_a_forbidden_option_is_named() -> None:
    policy = file.parse(f"{CONTACT}trace = false".encode(), PLACE)
    with pytest.raises(UsageError, match=r"a trace \(a\.toml, line 3\)"):
        options.applied(policy, Options(trace="t", set_by={"trace": "a.toml, line 3"}))
    with pytest.raises(UsageError, match="a trace: not"):
        options.applied(policy, Options(trace="t", set_by={"audit": "a.toml, line 3"}))


def test_limits_that_nobody_chose_are_lowered() -> None:
    most = Most(limits={"memory_bytes": "16MiB", "cpu_ms": 5000, "fuel": 10})
    spec = bounds.bounded(most, catalog.resolve("passthrough"))
    assert spec.limits == {"memory_bytes": 16 * 1024**2, "cpu_ms": 1000, "fuel": 10}


def test_the_examples_of_the_page_are_policies() -> None:
    page = pages.section(pages.read(ROOT / "docs" / "configuration.md"), "Managed policy")
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert blocks
    for block in blocks:
        assert file.parse(block.encode(), PLACE).file.contact


def test_the_page_has_each_key() -> None:
    page = pages.section(pages.read(ROOT / "docs" / "configuration.md"), "Managed policy")
    for table in (file.File, file.Allowed, file.Required, file.Most):
        for key in table.__struct_encode_fields__:
            assert re.search(rf"^\| .*`{key}`.* \|", page, re.MULTILINE), key
