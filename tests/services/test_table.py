"""The table of services, and everything that must agree with it."""

import datetime
from pathlib import Path

from conductor.core.policy.scopes import check
from conductor.core.service_table import ALWAYS_GRANTED, CALLS, LOCAL, SERVICES, SHOWN_GRANTS, TABLE
from conductor.services.local import LocalServices
from guest_sdk.python.pretend import Services as PretendServices
from guest_sdk.python.services import NAMES
from tests.services.test_executor import Office


def test_every_call_has_one_function_at_its_performer(tmp_path: Path) -> None:
    local = LocalServices(lambda *_: None).functions.keys()
    executor = Office(tmp_path).executor.functions.keys()
    assert local == LOCAL
    assert executor == CALLS.keys() - LOCAL


def test_names_are_unique_and_a_service_is_granted_in_one_form() -> None:
    assert len({call.name for call in TABLE}) == len(TABLE)
    for service in SERVICES:
        grants = {call.grant for call in CALLS.values() if call.service == service}
        assert len(grants) == 1
        assert grants.pop().partition(":")[0] in (service, "")


def test_every_service_can_be_granted() -> None:
    examples = {
        "web": "web:api.example.com",
        "read": "read:**/AGENTS.md",
        "write": "write:notes",
    }
    assert examples.keys() == SHOWN_GRANTS.keys()
    for service in SERVICES:
        check(examples.get(service, service))


def test_the_python_sdk_names_every_service_and_pretends_no_other_call() -> None:
    assert set(NAMES) == SERVICES - ALWAYS_GRANTED
    now = datetime.datetime(2025, 10, 8, tzinfo=datetime.UTC)
    heard: list[dict[str, object]] = []
    pretend = PretendServices(heard.append, now, None, {}, None)
    for call in TABLE:
        pretend.asked({"id": call.name, "method": call.name})
    missing = {str(answer["id"]) for answer in heard if "no service" in str(answer.get("error"))}
    assert missing == {"config"}  # `Proxy` answers that itself
