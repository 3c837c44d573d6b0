"""A component's policy behind a comma, and as a JSON object."""

import json
import re
from typing import Any

import pytest

from conductor.core.policy.policy_words import PolicyWords
from conductor.core.policy.rules import Grants
from conductor.errors import UsageError
from conductor.spec import catalog, syntax


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("allow=prompt:within", Grants(turns="within")),
        ("allow=prompt:within+prompt:anytime", Grants(turns="unprompted")),
        ("allow=command:review+command:plan", Grants(commands=("review", "plan"))),
        ("allow=command:a,allow=command:b+command:a", Grants(commands=("a", "b"))),
        ("allow=command:*", Grants(commands=("*",))),
        ("allow=refuse:permissions", Grants(permission="narrow")),
        ("allow=change:mcp", Grants(mcp="others")),
        ("allow=prompt:unseen", Grants(sessions="own")),
        ("allow=offer:modes+change:tool-calls", Grants(options=True, texts=True)),
        ("allow=change:tool-calls,name=x", Grants(texts=True)),
        (
            "allow=show:panel+show:comment+do:operations",
            Grants(editor=("panel", "comment", "operation")),
        ),
        ("allow=extension:_x/*+extension:_y/z", Grants(methods=("_x/*", "_y/z"))),
        (
            "allow=claim:/fs/readTextFile+claim:/terminal",
            Grants(capabilities=("/fs/readTextFile", "/terminal")),
        ),
    ],
)
def test_what_words_give_besides_cells(options: str, named: Grants) -> None:
    spec = catalog.resolve(f"passthrough,only=context,{options}")
    policy = spec.policy.policy()
    assert policy is not None
    assert policy.grants == named


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ("only=observer", PolicyWords(("observer",))),
        ("allow=add:replies,only=observer", PolicyWords(("observer", "add:replies"))),
        (
            "only=answer:prompts+see:updates,allow=see:session/update[tool_call]",
            PolicyWords(("answer:prompts", "see:updates", "see:session/update[tool_call]")),
        ),
        ("deny=serve:tools,only=context", PolicyWords(("change:prompts",))),
        ("only=context+web:a.example+web:b.example,deny=web", PolicyWords(("context",))),
        ("only=observer+prompt:anytime,deny=away", PolicyWords(("observer",))),
        ("on_violation=fail", PolicyWords(("full",), on_violation="fail")),
        ("fails=closed", PolicyWords(("full",), fails="closed")),
        ("ids=kept", PolicyWords(("full",), ids="kept")),
        ("hold=1.5", PolicyWords(("full",), hold=1.5)),
        ("hold=500ms", PolicyWords(("full",), hold=0.5)),
    ],
)
def test_the_rest_of_a_policy(options: str, policy: PolicyWords) -> None:
    assert catalog.resolve(f"passthrough,{options}").policy == policy


def test_the_same_as_an_object() -> None:
    held: dict[str, Any] = {
        "component": "passthrough",
        "only": ["filter", "show:panel"],
        "allow": ["answer:prompts", "command:review"],
        "deny": ["serve"],
        "fails": "closed",
        "hold": 30,
    }
    rights = catalog.resolve(json.dumps(held)).policy.rights
    assert {"show:panel", "answer:prompts", "command:review", "change:prompts"} <= {*rights}
    assert "serve:tools" not in rights
    held["deny"] = []
    assert catalog.resolve(json.dumps(held)).policy == PolicyWords(
        ("filter", "show:panel", "answer:prompts", "command:review"), fails="closed", hold=30.0
    )


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("only=all", "no right `all`"),
        ("only=web", "`web` alone is no right: web:browser, web:panel, web:HOST"),
        ("only=away", "`away` is a set for `deny` alone"),
        ("allow=prompt:always", "no right `prompt:always`"),
        ("allow=see:doors", "no `doors` to see; there are: prompts, replies"),
        ("allow=see:other/method", "no `other/method` to see"),
        ("allow=change:permissions", "is not to be had: with `refuse:permissions`, options may"),
        ("allow=command:/review", "is written `command:NAME`"),
        ("allow=extension:x/y", "is written `extension:_NAME`"),
        ("allow=claim:fs", "is written `claim:POINTER`"),
        ("allow=peer:", "is written `peer:NAME`"),
        ("allow=read:", "`read` is a right to something: read:GLOB"),
        ("deny=none", "`none` has no right to deny"),
        ("fails=half", "must be closed or open"),
        ("ids=new", "is `kept`, or left out"),
        ("hold=long", "a time is a number of seconds"),
    ],
)
def test_what_cannot_be(option: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        catalog.resolve(f"passthrough,{option}")
    assert said in refused.value.text
    assert option.split("=", maxsplit=1)[0] in refused.value.text
    assert "`conductor help " in refused.value.hint or "`?" in refused.value.hint


@pytest.mark.parametrize(
    ("option", "now"),
    [
        ("profile=filter", "only=filter"),
        ("profile=tools", "only=serve:tools"),
        ("grant=clock+kv+files:**", "allow=clock+storage+read:**"),
        ("turns=within", "allow=prompt:within"),
        ("sessions=own", "allow=prompt:unseen"),
        ("editor=panel+terminal", "allow=show:panel+run:commands"),
        ("commands=a+b", "allow=command:a+command:b"),
        ("peers=a", "allow=peer:a"),
    ],
)
def test_an_option_of_before_names_the_words_of_now(option: str, now: str) -> None:
    with pytest.raises(UsageError) as refused:
        catalog.resolve(f"passthrough,{option}")
    assert refused.value.hint == f"write `{now}`; `conductor help rights` lists the words"


def test_a_word_of_before_names_the_word_of_now() -> None:
    for before, now in (
        ("kv", "storage"),
        ("files:**", "read:**"),
        ("up:session/update:copy", "see:updates"),
        ("down:session/prompt:answer", "answer:prompts"),
    ):
        with pytest.raises(UsageError, match=re.escape(f"`{before}` is written `{now}` now")):
            catalog.resolve(f"passthrough,allow={before}")


def test_options_end_a_component() -> None:
    assert syntax.split("p,allow=offer:modes+change:tool-calls") == (
        "p",
        [("allow", "offer:modes+change:tool-calls")],
    )
    assert syntax.split("p,models") == ("p,models", [])
    assert syntax.split("a,textsb.wasm") == ("a,textsb.wasm", [])


# -- what a program must keep --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("component", "key"),
    [
        ("python p.py,only=full", "session/prompt"),
        ("python p.py,only=context+prompt:within", "session/prompt"),
        ("py:a:b,only=context+prompt:anytime", "session/prompt"),
        ("python p.py,only=none+extension:_x/*", "_x/*"),
    ],
)
def test_requests_that_only_ids_tell_apart_take_ids_that_are_kept(component: str, key: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"may pass `{key}` on and send")) as refused:
        catalog.resolve(component)
    assert "`,ids=kept` says that it passes requests on under the ids" in refused.value.hint
    assert catalog.resolve(f"{component},ids=kept").policy.ids == "kept"


@pytest.mark.parametrize(
    "component",
    [
        "python p.py",
        "python p.py,only=filter",
        "python p.py,only=context+add:words+change:words",
        "python p.py,only=none+prompt:within",
        "python p.py,only=none+stop:turns",
        "passthrough,only=full",
    ],
)
def test_all_others_need_not_keep_them(component: str) -> None:
    assert catalog.resolve(component).policy.ids == ""
