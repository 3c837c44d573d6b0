"""Attacks on the user's right to say no."""

import json
from collections.abc import Iterator

from msgspec import UNSET

from tests.core.test_guards.attack import Attack, Text, answers, makes_up, passes_on
from tests.core.test_guards.samples import (
    ALLOW,
    ALWAYS,
    ALWAYS_YES,
    ASKED,
    NEVER,
    NO,
    REJECT,
    SELECTED,
    TWINS,
    UNKNOWN_KIND,
    V1,
    V2,
    YES,
    Object,
)

METHOD = "session/request_permission"


def asks(what: str, before: Object, **changes: object) -> Attack:
    """A permission request with some members changed; `None` takes one out."""
    after = {k: v for k, v in {**before, **changes}.items() if v is not None}
    return passes_on("permission-widening", what, METHOD, json.dumps(before), json.dumps(after))


def widened() -> Iterator[Attack]:
    """Permission requests changed on their way, with the grant to narrow them or not."""
    for attack in _widened():
        yield attack
        yield attack.having(permission="narrow")
    narrowed = json.dumps({**V1, "options": [REJECT]})
    yield passes_on("permission-widening", "narrowed", METHOD, json.dumps(V1), narrowed)


def _widened() -> Iterator[Attack]:
    for version, request in (("v1", V1), ("v2", V2)):
        changed: dict[str, object] = {
            "an added option": [ALLOW, ALWAYS, REJECT, NEVER, {**ALLOW, "optionId": "z"}],
            "a renamed option": [{**ALLOW, "name": "No"}, ALWAYS, REJECT, NEVER],
            "another kind": [ALLOW, ALWAYS, {**REJECT, "kind": "allow_once"}, NEVER],
            "another id": [ALLOW, ALWAYS, {**REJECT, "optionId": "y"}, NEVER],
            "a member more": [{**ALLOW, "Kind": "reject_once"}, ALWAYS, REJECT, NEVER],
            "another order": [ALWAYS, ALLOW, REJECT, NEVER],
            "one twice": [ALLOW, ALLOW, REJECT],
            "no refusal left": [ALLOW, ALWAYS],
            "no refusal of just this left": [ALLOW, ALWAYS, NEVER],
            "nothing but a refusal for ever left": [NEVER],
            "none left": [],
            "only the wider approval left": [ALWAYS, REJECT, NEVER],
            "no list": {},
            "none at all": None,
        }
        for what, options in changed.items():
            yield asks(f"{version}, {what}", request, options=options)
        yield asks(f"{version}, other session", request, sessionId="other")
        yield asks(f"{version}, metadata", request, _meta={"k": 1, "a.b/c": 2})
        yield asks(f"{version}, an unknown member", request, autoApprove=True)
        yield asks(f"{version}, odd case", request, Options=[ALLOW])
    for name in ("toolCall", "title", "description", "subject"):
        yield asks(f"{name} added or changed in v1", V1, **{name: {"title": "ls"}})
        yield asks(f"{name} added or changed in v2", V2, **{name: {"title": "ls"}})
    text = json.dumps(V1)
    respelled = text.replace("1.5", "1.50")
    yield passes_on("permission-widening", "a number respelled", METHOD, text, respelled)
    only = {"options": [ALLOW, NEVER]}
    yield asks("the last refusal, for ever", only, options=[ALLOW])
    yield asks(
        "an unknown kind counts as wide",
        {"options": [ALLOW, UNKNOWN_KIND, REJECT]},
        options=[UNKNOWN_KIND, REJECT],
    )


def given() -> Iterator[Attack]:
    """Permissions given in the user's place, with the grant to refuse them or not."""
    for attack in (*_given(), *given_by_confusion()):
        yield attack
        yield attack.having(permission="narrow")
    yield answers("permission-answers", "refused", METHOD, NO, None, ASKED)


def _given() -> Iterator[Attack]:
    for what, result in {
        "allow_once": YES,
        "allow_always": ALWAYS_YES,
        "an option nobody offered": SELECTED % "zz",
        "odd case of the option": SELECTED % "N",
        "no object": "null",
        "an empty result": "{}",
        "a text outcome": '{"outcome":"cancelled"}',
        "allowed in odd case": '{"outcome":{"outcome":"Selected","optionId":"n"}}',
        "a number as option": '{"outcome":{"outcome":"selected","optionId":1}}',
        "a list as option": '{"outcome":{"outcome":"selected","optionId":["n"]}}',
        "both in one": '{"outcome":{"outcome":"cancelled","optionId":"y"}}',
        "two spellings": '{"outcome":{"outcome":"selected","optionId":"n","OptionId":"y"}}',
        "two outcomes": '{"outcome":{"outcome":"cancelled"},"Outcome":{"optionId":"y"}}',
        "metadata": '{"outcome":{"outcome":"cancelled"},"_meta":{"a.b/allow":true}}',
    }.items():
        yield answers("permission-answers", what, METHOD, result, None, ASKED)
        if result != YES:
            yield answers(
                "permission-answers",
                f"{what}, to a yes",
                METHOD,
                result,
                YES,
                ASKED,
            )
        if result != NO:
            yield answers(
                "permission-answers",
                f"{what}, to a no",
                METHOD,
                result,
                NO,
                ASKED,
            )


def given_by_confusion() -> Iterator[Attack]:
    """Permissions given by an option that can be taken for another."""
    yield answers("permission-answers", "an id of two options", METHOD, NO, None, TWINS)
    requests: dict[str, Text] = {
        "ambiguous options": ASKED[:-1] + ',"options":[]}',
        "an ambiguous option": '{"options":[{"optionId":"n","kind":"reject_once","kind":"x"}]}',
        "no options": "{}",
        "no list of options": '{"options":{}}',
        "nothing": UNSET,
        "no JSON": "{",
    }
    for what, asked in requests.items():
        yield answers("permission-answers", what, METHOD, NO, None, asked)
    yield answers("permission-answers", "odd case", "Session/Request_Permission", YES, None, ASKED)


def made_up() -> Iterator[Attack]:
    """Permission requests nobody but the component makes."""
    yield makes_up("permission-requests", "v1", METHOD, ASKED)
    yield makes_up("permission-requests", "v2", METHOD, json.dumps(V2))
