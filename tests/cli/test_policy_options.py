"""What is said of a component's policy behind a comma, and as a JSON object."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from conductor.core.policy.rule_syntax import PolicyWords
from conductor.core.policy.rules import GRANT_NAMES, Grants
from conductor.errors import UsageError
from conductor.spec import catalog, component_options, syntax

NONE = Grants()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("turns=within", Grants(turns="within")),
        ("turns=within,turns=unprompted", Grants(turns="unprompted")),
        ("commands=review+plan", Grants(commands=("review", "plan"))),
        ("commands=a,commands=b+a", Grants(commands=("a", "b"))),
        ("commands=*", Grants(commands=("*",))),
        ("permission=narrow", Grants(permission="narrow")),
        ("mcp=others", Grants(mcp="others")),
        ("sessions=own", Grants(sessions="own")),
        ("options", Grants(options=True)),
        ("options=yes", Grants(options=True)),
        ("texts,options", Grants(options=True, texts=True)),
        ("texts=yes,name=x", Grants(texts=True)),
        ("editor=panel+comment+operation", Grants(editor=("panel", "comment", "operation"))),
        ("methods=_x/*+_y/z", Grants(methods=("_x/*", "_y/z"))),
        (
            "capabilities=/fs/readTextFile+/terminal",
            Grants(capabilities=("/fs/readTextFile", "/terminal")),
        ),
    ],
)
def test_what_is_granted_by_name(options: str, named: Grants) -> None:
    spec = catalog.resolve(f"passthrough,{options}")
    assert spec.policy == PolicyWords("full", (), named)


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ("profile=observer", PolicyWords("observer")),
        (
            "profile=none,allow=down:session/prompt:carry+answer,allow=up:session/update:copy",
            PolicyWords("none", ("down:session/prompt:carry+answer", "up:session/update:copy")),
        ),
        (
            "profile=none,allow=up:session/update[tool_call]:copy",
            PolicyWords("none", ("up:session/update[tool_call]:copy",)),
        ),
        ("on_violation=fail", PolicyWords("full", on_violation="fail")),
        ("fails=closed", PolicyWords("full", fails="closed")),
        ("ids=kept", PolicyWords("full", ids="kept")),
        ("hold=1.5", PolicyWords("full", hold=1.5)),
        ("hold=500ms", PolicyWords("full", hold=0.5)),
    ],
)
def test_the_rest_of_a_policy(options: str, policy: PolicyWords) -> None:
    assert catalog.resolve(f"passthrough,{options}").policy == policy


def test_the_same_as_an_object() -> None:
    held: dict[str, Any] = {
        "component": "passthrough",
        "profile": "filter",
        "allow": ["down:session/prompt:answer", "up:session/update:originate"],
        "turns": "within",
        "commands": ["review", "plan"],
        "editor": "panel+comment",
        "options": True,
        "fails": "closed",
        "hold": 30,
    }
    assert catalog.resolve(json.dumps(held)).policy == PolicyWords(
        "filter",
        ("down:session/prompt:answer", "up:session/update:originate"),
        Grants(
            turns="within", commands=("review", "plan"), editor=("panel", "comment"), options=True
        ),
        fails="closed",
        hold=30.0,
    )


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("profile=all", "profiles are: none, observer, context"),
        ("turns=always", "`turns` is within or unprompted, not `always`"),
        ("turns=", "`turns` is within or unprompted"),
        ("permission=wide", "`permission` is narrow, not `wide`"),
        ("mcp=own", "`mcp` is others, not `own`"),
        ("editor=panel+door", "operation or log or read or terminal or widget or ask, not `door`"),
        ("commands=/review", "commands are named without their slash: review+plan"),
        ("methods=x/y", "extension methods start with `_`"),
        ("capabilities=fs", "capabilities are pointers: /fs/readTextFile"),
        ("options=no", "is given as `options` alone, or as `options=yes`"),
        ("fails=half", "must be closed or open"),
        ("ids=new", "is `kept`, or left out"),
        ("hold=long", "a time is a number of seconds"),
        ("allow=up:session/update:write", "right `write` must be copy, carry, answer, amend"),
        ("allow=up:session/update:copy+modify", "right `modify` must be"),
        ("allow=sideways:x:copy", "direction `sideways` must be down or up"),
        (
            "allow=up:session/request_permission:carry",
            "no more than `copy` is to be had: with `permission=narrow`",
        ),
        ("allow=up:other/method:copy", "not to be had: goes past"),
    ],
)
def test_what_cannot_be(option: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        catalog.resolve(f"passthrough,{option}")
    assert said in refused.value.text
    assert option.split("=", maxsplit=1)[0] in refused.value.text
    assert "conductor help component" in refused.value.hint or "`?" in refused.value.hint


def test_every_named_grant_is_an_option() -> None:
    assert set(GRANT_NAMES) <= set(component_options.NAMES)


def test_words_that_may_stand_alone_end_a_component_like_others() -> None:
    assert syntax.split("p,options,texts") == ("p", [("options", "yes"), ("texts", "yes")])
    assert syntax.split("p,models") == ("p,models", [])
    assert syntax.split("a,textsb.wasm") == ("a,textsb.wasm", [])


# -- what a program must keep --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("component", "key"),
    [
        ("python p.py,profile=full", "session/prompt"),
        ("python p.py,profile=context,turns=within", "session/prompt"),
        ("py:a:b,profile=context,turns=unprompted", "session/prompt"),
        ("python p.py,profile=none,methods=_x/*", "_x/*"),
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
        "python p.py,profile=filter",
        "python p.py,profile=context,allow=up:session/update:originate+carry",
        "python p.py,profile=none,turns=within",
        "python p.py,profile=none,allow=down:session/cancel:originate",
        "passthrough,profile=full",
    ],
)
def test_all_others_need_not_keep_them(component: str) -> None:
    assert catalog.resolve(component).policy.ids == ""
