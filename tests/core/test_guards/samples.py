"""Messages as clients, agents and components send them, for the tests of the guards."""

import json
from typing import Any

Object = dict[str, Any]

SETUP = '{"cwd":"/w","mcpServers":[]}'
OPTIONS = '{"claudeCode":{"options":{"mcpServers":{"x":{"command":"sh"}}}}}'
ALLOW: Object = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
ALWAYS: Object = {"optionId": "a", "name": "Always", "kind": "allow_always"}
REJECT: Object = {"optionId": "n", "name": "No", "kind": "reject_once"}
NEVER: Object = {"optionId": "v", "name": "Never", "kind": "reject_always"}
V1: Object = {
    "sessionId": "s",
    "toolCall": {"toolCallId": "t", "title": "rm", "rawInput": {"n": 1.5}},
    "options": [ALLOW, ALWAYS, REJECT, NEVER],
    "_meta": {"k": 1},
}
V2: Object = {
    "sessionId": "s",
    "title": "Run rm",
    "description": "It removes",
    "subject": {"type": "command", "command": "rm", "cwd": "/w"},
    "options": [ALLOW, ALWAYS, REJECT, NEVER],
}
UNKNOWN_KIND: Object = {"optionId": "u", "name": "?", "kind": "allow_forever"}
ASKED = json.dumps(V1)
TWINS = json.dumps({"options": [REJECT, {**ALLOW, "optionId": "n"}]})
SELECTED = '{"outcome":{"outcome":"selected","optionId":"%s"}}'
YES, ALWAYS_YES, NO = (SELECTED % name for name in "yan")
STDIO: Object = {"name": "fs", "command": "mcp-fs", "args": [], "env": []}
HTTP: Object = {"type": "http", "name": "web", "url": "https://x.example", "headers": []}
THEIRS: Object = {"type": "acp", "name": "peer", "serverId": "theirs"}
MINE: Object = {"type": "acp", "name": "mine", "serverId": "mine"}
CLIENT: Object = {
    "cwd": "/w",
    "additionalDirectories": ["/lib"],
    "mcpServers": [STDIO, HTTP],
    "systemPrompt": {"mode": "append", "content": []},
    "x": 1.10,
}
BAD_SERVERS: dict[str, object] = {
    "a command": {"name": "x", "command": "sh", "args": ["-c", "id"], "env": []},
    "a typed command": {"type": "stdio", "name": "x", "command": "/bin/sh"},
    "a command beside an id": {**MINE, "command": "sh"},
    "a command in odd case": {**MINE, "Command": "sh"},
    "a URL": {**HTTP, "name": "x"},
    "a URL beside an id": {**MINE, "url": "https://x"},
    "a URL in odd case": {**MINE, "URL": "https://x"},
    "sse": {"type": "sse", "name": "x", "url": "https://x", "headers": []},
    "acp in odd case": {**MINE, "type": "ACP"},
    "an unknown type": {**MINE, "type": "ws"},
    "no type": {"name": "x", "serverId": "mine"},
    "two ids": {**MINE, "id": "mine"},
    "an id that is no text": {**MINE, "serverId": 1},
    "an empty id": {**MINE, "serverId": ""},
    "no name": {"type": "acp", "serverId": "mine"},
    "an empty name": {**MINE, "name": ""},
    "a name of control characters": {**MINE, "name": "x\x1b[2J"},
    "a taken name": {**MINE, "name": "fs"},
    "a taken name, nearly": {**MINE, "name": "FS "},
    "somebody's id": {**MINE, "serverId": "theirs"},
    "somebody's URL": {"type": "http", "name": "x", "url": "acp:theirs"},
    "a host behind acp:": {"type": "http", "name": "x", "url": "acp://x.example/"},
    "ACP: in odd case": {"type": "http", "name": "x", "url": "ACP:mine"},
    "a newline in the URL": {"type": "http", "name": "x", "url": "acp:mine\n"},
    "a URL that is no text": {"type": "http", "name": "x", "url": ["acp:mine"]},
    "headers": {"type": "http", "name": "x", "url": "acp:mine", "headers": [{"name": "a"}]},
    "two transports": {"type": "http", "transport": "http", "name": "x", "url": "acp:mine"},
    "another transport": {"transport": "stdio", "name": "x", "url": "acp:mine"},
    "a command beside acp:": {"name": "x", "url": "acp:mine", "command": "sh"},
    "scp and more": {"type": "scp", "name": "x", "command": "sh"},
    "somebody's scp name": {"type": "scp", "name": "theirs"},
    "an id that begins with acp:": {**MINE, "serverId": "acp:new"},
    "an older id that begins with acp:": {"type": "acp", "name": "x", "id": "acp:new"},
    "a URL of a URL": {"type": "http", "name": "x", "url": "acp:acp:new"},
    "an scp name that begins with acp:": {"type": "scp", "name": "acp:new"},
    "a text": "sh",
    "a list": ["sh"],
}
KEYED: Object = {"tools": {"mcpServers": {"fs": STDIO}}}
SEALED: dict[str, str] = {
    "fs/read_text_file": "sealed",
    "fs/write_text_file": "sealed",
    "fs/delete_file": "sealed",
    "terminal/create": "sealed",
    "terminal/output": "sealed",
    "terminal/release": "sealed",
    "terminal/wait_for_exit": "sealed",
    "terminal/kill": "sealed",
    "terminal/cancel": "sealed",
    "elicitation/create": "sealed",
    "elicitation/complete": "sealed",
    "authenticate": "sealed",
    "logout": "sealed",
    "auth/login": "sealed",
    "auth/logout": "sealed",
    "auth/status": "sealed",
    "auth/status_update": "sealed",
    "providers/list": "sealed",
    "providers/set": "sealed",
    "providers/disable": "sealed",
    "session/set_mode": "session-mode",
    "session/set_model": "session-mode",
    "session/set_config_option": "session-mode",
    "session/cancel": "sealed",
    "session/close": "sealed",
    "session/delete": "sealed",
    "session/archive": "sealed",
    "session/unarchive": "sealed",
    "session/set_title": "sealed",
    "session/options": "sealed",
    "tool_call/cancel": "sealed",
}
CALL: Object = {
    "sessionUpdate": "tool_call",
    "toolCallId": "t",
    "title": "Edit",
    "name": "edit",
    "kind": "edit",
    "status": "completed",
    "rawInput": {"command": "rm"},
    "rawOutput": {"exit": 0},
    "locations": [{"path": "/w/a"}],
    "content": [
        {"type": "content", "content": {"type": "text", "text": "secret"}},
        {"type": "diff", "path": "/w/a", "newText": "x"},
        {"type": "terminal", "terminalId": "1"},
    ],
}
TEXT, DIFF, TERMINAL = CALL["content"]
WORD: Object = {"sessionUpdate": "agent_message_chunk", "content": TEXT}
HELLO: Object = {
    "protocolVersion": 1,
    "clientInfo": {"name": "editor", "version": "1"},
    "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": False}},
}
HELLO2: Object = {
    "protocolVersion": 2,
    "info": {"name": "editor", "version": "1"},
    "capabilities": {"elicitation": {"form": {}}, "auth": None},
}
AGENT: Object = {
    "protocolVersion": 1,
    "agentInfo": {"name": "agent", "version": "1"},
    "agentCapabilities": {"promptCapabilities": {"image": False}},
    "authMethods": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}],
}
AGENT2: Object = {
    "protocolVersion": 2,
    "info": {"name": "agent", "version": "1"},
    "capabilities": {"session": {"prompt": {}}},
}
METHOD_A, METHOD_B = AGENT["authMethods"]
USES: dict[str, tuple[str, str]] = {
    "mcp/message": ("serverId", "requestId"),
    "mcp/connect": ("acpId", "x"),
    "mcp/disconnect": ("connectionId", "x"),
    "_mcp/connect": ("acp_url", "session"),
    "_mcp/message": ("connectionId", "method"),
    "_mcp/request": ("connection_id", "method"),
    "_mcp/notification": ("connection_id", "method"),
    "_mcp/disconnect": ("connection_id", "x"),
    "_mcp/client_to_server/request": ("url", "message"),
    "_mcp/server_to_client/notification": ("url", "message"),
    "_scp/mcp": ("name", "message"),
}
