"""The conductor's services, as a playground has them: in memory, and in no time."""

from __future__ import annotations

import base64
import datetime
import fnmatch
import hashlib
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .errors import INVALID_PARAMS, METHOD_NOT_FOUND, ProxyError
from .jsontext import dumps
from .services import NAMES, RIGHTS

_FREE = ("agent", "keep", "log", "metric", "payload", "rebind", "turn")
_FAILED = -31901
_QUOTA = 4 << 20
"""Characters of all values in the store."""


def _granted(grants: Iterable[str]) -> frozenset[str]:
    """Raises `TypeError` for a single text, `ValueError` for an unknown service."""
    if isinstance(grants, str):
        raise TypeError(f'grants are a list, as in `Playground(proxy, grants=["{grants}"])`')
    found = frozenset(grants)
    for one in sorted(found):
        if one.partition(":")[0] not in NAMES:
            raise ValueError(f"no service `{one}`; services are: {', '.join(NAMES)}")
    return found


class Services:
    """Answers a proxy's calls of services in the conductor's place.

    `log` and `metrics` hold its log lines and metrics, `store` its values by (scope, key).
    """

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        now: datetime.datetime,
        grants: Iterable[str] | None,
        files: Mapping[str, str],
        fetch: Callable[[dict[str, Any]], Any] | None,
    ) -> None:
        self._send = send
        self.now = now
        self.grants = None if grants is None else _granted(grants)
        self.files = dict(files)
        self.roots = ["/project"]
        self.fetch = fetch
        self.log: list[str] = []
        self.metrics: list[dict[str, Any]] = []
        self.kept: dict[str, Any] = {}
        """The members that the next instance of the proxy gets (`Session.keep`)."""
        self.store: dict[tuple[str, str], Any] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._revisions: defaultdict[tuple[str, str], int] = defaultdict(lambda: 1)
        """1: a test has put the value there."""
        self._last = 1
        self.bound: dict[str, str] = {}
        """The agent's ids of sessions, where they differ (`Session.rebind`)."""
        self.above: dict[str, str] = {}
        """The inverse of `bound`."""
        self.agents = ["agent"]
        """The agents for `Session.use_agent`; the first is the chain's."""
        self.used: dict[str, str] = {}
        """The agent of each session that goes on with another agent than the chain's."""
        self._timers: dict[int, dict[str, Any]] = {}
        self._drawn = 0
        self._turns = 0
        self._answers = self._table()

    def _table(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        """The function that answers each method."""
        return {
            "clock": self._clock,
            "random": self._random,
            "log": self._log,
            "metric": self.metrics.append,
            "kv/get": self._get,
            "kv/set": self._set,
            "kv/delete": self._delete,
            "kv/list": self._list,
            "timer/start": self._start,
            "timer/stop": lambda p: {"stopped": self._timers.pop(p["timer"], None) is not None},
            "fetch": self._fetch,
            "files/roots": lambda _: {"roots": self.roots},
            "files/read": self._read,
            "files/list": self._entries,
            "files/write": self._write,
            "keep": self._keep,
            "turn/begin": self._begin,
            "turn/end": lambda _: {},
            "rebind": self._rebind,
            "agent/use": self._use_agent,
            "payload/read": self._payload,
        }

    def asked(self, message: dict[str, Any]) -> None:
        """Takes one message of side `c`."""
        method, params = message["method"], message.get("params", {})
        family = "write" if method == "files/write" else method.partition("/")[0]
        answer: dict[str, Any]
        try:
            if method not in self._answers:
                raise ProxyError(f"Method not found: no service `{method}`", METHOD_NOT_FOUND)
            if not self._granted(family):
                text = f"Method not found: service `{family}` is not granted"
                raise ProxyError(text, METHOD_NOT_FOUND, {"service": family})
            answer = {"result": self._answers[method](params)}
        except KeyError as error:
            text = f"{method}: {error} is missing"
            answer = {"error": ProxyError(text, INVALID_PARAMS).body()}
        except ProxyError as error:
            answer = {"error": error.body()}
        if "id" in message:
            self._send({"jsonrpc": "2.0", "id": message["id"], **answer})

    def _granted(self, family: str) -> bool:
        if self.grants is None or family in _FREE:
            return True
        right = RIGHTS.get(family, family)
        return any(grant.partition(":")[0] == right for grant in self.grants)

    def advance(self, seconds: float) -> None:
        """Lets time pass; timers that are due fire, in order."""
        end = self.now + datetime.timedelta(seconds=seconds)
        while due := sorted((t["due"], id_) for id_, t in self._timers.items() if t["due"] <= end):
            self.now, id_ = due[0]
            timer = self._timers[id_]
            timer["count"] += 1
            if timer["every"]:
                timer["due"] += datetime.timedelta(milliseconds=timer["every"])
            else:
                del self._timers[id_]
            params = {"timer": id_, "count": timer["count"], "data": timer["data"]}
            self._send({"jsonrpc": "2.0", "method": "timer/fired", "params": params})
        self.now = end

    def _clock(self, _: dict[str, Any]) -> dict[str, Any]:
        return {
            "unixMs": int(self.now.timestamp() * 1000),
            "iso": self.now.isoformat(timespec="seconds"),
            "date": self.now.strftime("%Y-%m-%d"),
            "time": self.now.strftime("%H:%M:%S"),
            "weekday": self.now.strftime("%A"),
            "timezone": self.now.tzname() or "",
        }

    def _random(self, params: dict[str, Any]) -> dict[str, str]:
        """The same bytes in every run, so that tests can tell."""
        self._drawn += 1
        count = params.get("bytes", 16)
        return {"hex": hashlib.shake_128(str(self._drawn).encode()).hexdigest(count)}

    def _log(self, params: dict[str, Any]) -> None:
        self.log.append(f"{params.get('level', 'info')}: {params.get('message', '')}")

    def _get(self, params: dict[str, Any]) -> dict[str, Any]:
        key = (params.get("scope", "project"), params["key"])
        there = key in self.store
        revision = self._revisions[key] if there else 0
        return {"found": there, "value": self.store.get(key), "revision": revision}

    def _set(self, params: dict[str, Any]) -> dict[str, Any]:
        at, value = (params.get("scope", "project"), params["key"]), params["value"]
        revision = self._revisions[at] if at in self.store else 0
        if params.get("ifRevision") not in (None, revision):
            data = {"service": "kv/set", "reason": "conflict", "revision": revision}
            raise ProxyError(f"kv/set: the value has revision {revision} now", _FAILED, data)
        size = len(dumps(value))
        used = size + sum(
            held for key, held in self._sizes.items() if key != at and key in self.store
        )
        if used > _QUOTA:
            raise ProxyError("the quota is used up; delete keys that are not needed", _FAILED)
        self._last += 1
        self.store[at], self._sizes[at], self._revisions[at] = value, size, self._last
        return {"used": used, "quota": _QUOTA, "revision": self._last}

    def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        missing = object()
        key = (params.get("scope", "project"), params["key"])
        return {"deleted": self.store.pop(key, missing) is not missing}

    def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        scope, prefix = params.get("scope", "project"), params.get("prefix", "")
        after, limit = params.get("after", ""), params.get("limit", 1000)
        keys = sorted(k for s, k in self.store if s == scope and k.startswith(prefix) and k > after)
        return {"keys": keys[:limit], "more": len(keys) > limit}

    def _keep(self, params: dict[str, Any]) -> dict[str, Any]:
        held = {**self.kept, **params}
        self.kept = {name: one for name, one in held.items() if one is not None}
        return {}

    def _payload(self, params: dict[str, Any]) -> dict[str, Any]:
        raise ProxyError(f"it has no payload {params['digest']!r}", INVALID_PARAMS)

    def _begin(self, params: dict[str, Any]) -> dict[str, Any]:
        self._turns += 1
        return {"turn": f"turn-{self._turns}"}

    def _rebind(self, params: dict[str, Any]) -> dict[str, Any]:
        session, to = params["sessionId"], params["to"]
        former, holder = self.bound.get(session, session), self.above.get(to, to)
        for above, below in ((session, to), (holder, former)):
            self.bound[above], self.above[below] = below, above
        return {}

    def _use_agent(self, params: dict[str, Any]) -> dict[str, Any]:
        session, agent = params["sessionId"], params.get("agent")
        if agent is not None and agent not in self.agents:
            raise ProxyError(f"there is no agent `{agent}`", INVALID_PARAMS)
        self.used[session] = agent or self.used.get(session, self.agents[0])
        return {"agent": self.used[session], "agents": self.agents, "unset": []}

    def _start(self, params: dict[str, Any]) -> dict[str, Any]:
        id_ = len(self._timers) + 1
        while id_ in self._timers:
            id_ += 1
        due = self.now + datetime.timedelta(milliseconds=params["afterMs"])
        every = params.get("everyMs")
        self._timers[id_] = {"due": due, "every": every, "count": 0, "data": params.get("data")}
        return {"timer": id_}

    def _fetch(self, params: dict[str, Any]) -> Any:
        if self.fetch is None:
            data = {"service": "fetch", "reason": "no network"}
            raise ProxyError(
                "fetch: the playground has no network: Playground(fetch=…)", _FAILED, data
            )
        found = self.fetch(params)
        if isinstance(found, str):
            found = {"status": 200, "url": params["url"], "headers": {}, "text": found}
        return found

    def _path(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.roots[0], path))

    def _read(self, params: dict[str, Any]) -> dict[str, Any]:
        path = self._path(params["path"])
        if path not in self.files:
            data = {"service": "files/read", "reason": "not-found"}
            raise ProxyError(f"files/read: no such file: {path}", _FAILED, data)
        content = self.files[path].encode()
        offset = params.get("offset", 0)
        part = content[offset : offset + params.get("maxBytes", 1 << 20)]
        more = offset + len(part) < len(content)
        text = part.decode("utf-8", "replace")
        return {"path": path, "size": len(content), "mtimeMs": 0, "text": text, "more": more}

    def _write(self, params: dict[str, Any]) -> dict[str, Any]:
        path, root = params["path"], params.get("root", self.roots[0])
        names = path.split("/")
        granted = [one.partition(":") for one in self.grants or ()]
        if {"", ".", ".."} & set(names) or root not in self.roots:
            raise ProxyError(f"files/write: {path}: is not below the session's folder", _FAILED)
        if self.grants is not None and not any(
            name == "write" and path.startswith(f"{folder}/") for name, _, folder in granted
        ):
            data = {"service": "write", "reason": "not-granted"}
            raise ProxyError(f"files/write: {path}: is in no folder granted", _FAILED, data)
        content = params.get("text")
        if content is None:
            content = base64.b64decode(params["base64"]).decode("utf-8", "replace")
        was, digest = self.files.get(f"{root}/{path}"), params.get("ifSha256")
        found = "" if was is None else hashlib.sha256(was.encode()).hexdigest()
        if digest is not None and digest != found:
            data = {"service": "files/write", "reason": "conflict"}
            raise ProxyError(f"files/write: {path}: has other content now", _FAILED, data)
        self.files[f"{root}/{path}"] = content
        size = len(content.encode())
        return {"path": f"{root}/{path}", "size": size, "used": size, "quota": 16 << 20}

    def _entries(self, params: dict[str, Any]) -> dict[str, Any]:
        folder = self._path(params.get("path", "."))
        glob = params.get("glob", "**")
        found = [
            {"path": path, "kind": "file", "size": len(text.encode()), "mtimeMs": 0}
            for path, text in sorted(self.files.items())
            if path.startswith(folder.rstrip("/") + "/")
            and fnmatch.fnmatchcase(posixpath.relpath(path, folder), glob.replace("**/", "*"))
        ]
        limit = params.get("limit", 1000)
        return {"entries": found[:limit], "more": len(found) > limit}
