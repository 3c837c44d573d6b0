"""The interface that the agent speaks through, for both versions of ACP.

``demo_acp1`` and ``demo_acp2`` implement it; only the negotiated one is imported.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from demo_flags import Flags
from demo_rpc import INVALID_PARAMS, RpcError

if TYPE_CHECKING:
    from demo_session import Session
    from demo_turn import Turn

INFO = {"name": "demo", "title": "Demo agent", "version": "0.1.0"}
MODES = {"ask": "Ask before acting", "code": "Act without asking"}
OPTIONS = [
    {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "allow-always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
    {"optionId": "reject-always", "name": "Always reject", "kind": "reject_always"},
]

Json = dict[str, Any]


class Protocol:
    """The shapes of one version of ACP. Methods return JSON values; a Turn sends them."""

    number: ClassVar[int]
    methods: ClassVar[Mapping[str, str]]
    """Wire method -> name of the Agent's method that handles it."""

    def initialized(self, flags: Flags) -> Json:
        """The result of ``initialize``."""
        raise NotImplementedError

    def setup(self, flags: Flags, session: "Session") -> Json:
        """The result of setting up a session, but for its id."""
        raise NotImplementedError

    def client(self, initialize: Json) -> Json:
        """The client's capabilities, of the params of ``initialize``."""
        raise NotImplementedError

    def message_id(self, kind: str, number: int) -> str | None:
        """The id of a turn's message of this kind (user, agent, thought); None: has none."""
        raise NotImplementedError

    def insert(self, turn: "Turn") -> None:
        """The prompt enters the conversation."""
        raise NotImplementedError

    def finish(self, turn: "Turn", stop_reason: str) -> None:
        """The turn ends."""
        raise NotImplementedError

    def blocked(self, turn: "Turn", waiting: bool) -> None:
        """The turn begins or ceases to wait for the user."""
        raise NotImplementedError

    def user_updates(self, turn: "Turn") -> list[str]:
        """The update objects, as JSON text, that replay the user's message."""
        raise NotImplementedError

    def plan(self, entries: list[Json]) -> Json:
        """An update with the whole plan."""
        raise NotImplementedError

    def tool_call(self, call: Json, first: bool) -> Json:
        """An update that starts or changes a tool call."""
        raise NotImplementedError

    def commands(self, commands: list[tuple[str, str, str]]) -> Json:
        """An update with the commands: (name, description, hint for its input or "")."""
        raise NotImplementedError

    def permission(self, title: str, call: Json) -> Json:
        """Params of ``session/request_permission``, but for the session id."""
        raise NotImplementedError


def select(params: Json, flags: Flags) -> Protocol:
    """The version of ACP to speak, of the params of ``initialize``: 1 for 1, 2 for 2 and
    above, 1 for 0. Raises RpcError for any other value, or for v2 without ``info``."""
    asked = params.get("protocolVersion")
    if type(asked) is not int or not 0 <= asked <= 0xFFFF:
        raise RpcError(
            INVALID_PARAMS, "initialize.protocolVersion must be a valid ACP protocol version"
        )
    if asked >= 2 and flags.v2:
        if asked == 2 and not isinstance(params.get("info"), dict):
            raise RpcError(INVALID_PARAMS, "initialize.info is required in ACP v2")
        from demo_acp2 import Acp2

        return Acp2()
    from demo_acp1 import Acp1

    return Acp1()
