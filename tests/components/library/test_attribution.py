"""`attribution`: which agent, model and prompt made each line, through edits of all kinds."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from conductor.cli import blame as reading
from guest_sdk.python import Playground
from tests.components.library.support import V2, Json, agent, component, play
from tests.harness.process.command import conductor
from tests.harness.process.rig import Rig

LINES = reading._lines()  # the component's module, as the command loads it


def owned(p: Playground, path: str = "a.py") -> list[str]:
    """The lines of a file as it is, each behind the first words of the prompt that made it."""
    book = LINES.book(p.services.files.get(f"/project/{LINES.shard(path)}"))
    if path not in book["files"]:
        return []
    text = LINES.split(p.services.files[f"/project/{path}"])
    owners, _ = LINES.moved(book["files"][path]["lines"], list(map(LINES.digest, text)))
    prompts = [book["edits"][one]["prompt"] if one else "-" for one in owners]
    return [f"{by} {line}" for by, line in zip(prompts, text, strict=True)]


def edits(p: Playground, path: str = "a.py") -> list[Json]:
    """The edits that are kept beside a file's."""
    return list(LINES.book(p.services.files[f"/project/{LINES.shard(path)}"])["edits"].values())


def put(p: Playground, old: str, new: str, path: str = "a.py") -> None:
    """The agent changes a file on the disk."""
    place = f"/project/{path}"
    p.services.files[place] = p.services.files.get(place, "").replace(old, new, 1) if old else new


def diff(old: str | None, new: str, path: str = "/project/a.py") -> Json:
    """An edit as version 1 tells it."""
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def call(p: Playground, content: list[Json], id_: str, *, status: str = "completed") -> None:
    """The agent tells of a tool call."""
    p.agent.update("session-1", "tool_call_update", toolCallId=id_, status=status, content=content)


async def edit(p: Playground, prompt: str, old: str, new: str, *, told: str | None = "") -> None:
    """The user prompts, and the agent changes `old` to `new`, asking before."""
    await p.start_prompt(prompt)
    content = [diff(old if told == "" else told, new)]
    call(p, content, prompt, status="pending")
    put(p, old, new)
    p.agent.update("session-1", "tool_call_update", toolCallId=prompt, status="completed")


async def test_lines_have_the_edit_that_made_them_through_later_edits() -> None:
    async with play("attribution", files={"/project/a.py": "one\ntwo\nthree\n"}) as p:
        await p.new_session()
        await edit(p, "first", "two\n", "zwei\nnoch\n")
        assert owned(p) == ["- one", "first zwei", "first noch", "- three"]
        put(p, "one", "user\none")  # by the user, between two edits
        put(p, "noch", "mine")
        assert owned(p) == ["- user", "- one", "first zwei", "- mine", "- three"]
        await edit(p, "second", "one\nzwei", "one\nTWO\nzwei")  # with lines around it
        wanted = ["- user", "- one", "second TWO", "first zwei", "- mine", "- three"]
        assert owned(p) == wanted
        await edit(p, "third", "zwei", "2")  # a part of a line stands for the line
        assert owned(p) == [line.replace("first zwei", "third 2") for line in wanted]
        assert edits(p)[0]["at"] == "2025-10-08T12:34:56+00:00"
        assert not p.services.log


async def test_who_made_it_is_the_agent_the_model_and_the_component_that_prompted() -> None:
    async with play("attribution") as p:
        p.agent.answer = lambda one: {
            "initialize": {"protocolVersion": 1, "agentInfo": {"name": "ag", "version": "2"}},
            "session/new": {"sessionId": "session-1", "models": {"currentModelId": "small"}},
            "session/set_model": {},
        }.get(one.method)
        await p.initialize()
        await p.new_session()
        await edit(p, "one", "", "1\n", told=None)
        await p.request("session/set_model", {"sessionId": "session-1", "modelId": "large"})
        await edit(p, "two", "1\n", "1\n2\n")
        options = [{"id": "m", "category": "model", "type": "select", "currentValue": "best"}]
        p.agent.update("session-1", "config_option_update", configOptions=options)
        prompt = {"sessionId": "session-1", "prompt": [{"type": "text", "text": "word " * 99}]}
        await p.request("session/prompt", {**prompt, "_meta": {"conductor.component": "hooks"}})
        put(p, "2\n", "2\n3\n")
        call(p, [diff("2\n", "2\n3\n")], "x")
        moved = {"conductor.session": {"agent": "codex"}}
        p.agent.update("session-1", "session_info_update", _meta=moved)
        put(p, "3\n", "3\n4\n")
        call(p, [diff("3\n", "3\n4\n")], "y")
        said = [(one["agent"], one["model"], one["proxy"]) for one in edits(p)]
        assert said[:2] == [("ag 2", "small", None), ("ag 2", "large", None)]
        assert said[2:] == [("ag 2", "best", "hooks"), ("codex", None, "hooks")]
        assert edits(p)[2]["prompt"] == f"{'word ' * 16}…"


async def test_writes_through_the_client_count_like_tool_calls() -> None:
    def client(_: Any) -> Json:
        put(p, "", text)
        return {}

    files = {"/project/a.py": "one\ntwo\n"}
    async with play("attribution", files=files, client=client) as p:
        await p.new_session()
        await p.prompt("write it")
        places = [{"path": "/project/a.py"}]
        read = {"sessionUpdate": "tool_call", "toolCallId": "r", "kind": "read", "title": "Read"}
        update = {**read, "locations": places}
        p.agent.notify("session/update", {"sessionId": "session-1", "update": update})
        text = "one\nnew\ntwo\n"
        params = {"sessionId": "session-1", "path": "/project/a.py", "content": text}
        assert p.result("s", p.agent.request("fs/write_text_file", params)) == {}
        assert owned(p) == ["- one", "write it new", "- two"]


PATCH = """diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@
 one
-two
+zwei
 three
@@ -8 +8,2 @@
-nine
+neun
+neuneinhalb
diff --git a/new.py b/new.py
new file mode 100644
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+made
"""


async def test_version_2_tells_patches_moves_and_deletions() -> None:
    numbers = "one\ntwo\nthree\nfour\nfive\nsix\nseven\nnine\n"
    async with play("attribution", files={"/project/a.py": numbers}) as p:
        await p.new_session()
        await p.start_prompt("count")
        changes = [
            {"operation": "modify", "path": "/project/a.py"},
            {"operation": "add", "path": "/project/new.py"},
        ]
        content = {
            "type": "diff",
            "changes": changes,
            "patch": {"format": "git_patch", "text": PATCH},
        }
        p.agent.update("session-1", "tool_call_content_chunk", toolCallId="t", content=content)
        put(p, "two", "zwei")
        put(p, "nine", "neun\nneuneinhalb")
        put(p, "", "made\n", "new.py")
        p.agent.update("session-1", "tool_call_update", toolCallId="t", status="completed")
        mine = ["count zwei", "count neun", "count neuneinhalb"]
        assert [line for line in owned(p) if line[0] != "-"] == mine
        assert owned(p, "new.py") == ["count made"]
        files = p.services.files
        files["/project/b.py"] = files.pop("/project/a.py")
        move = {"operation": "move", "oldPath": "/project/a.py", "path": "/project/b.py"}
        gone = {"operation": "delete", "path": "/project/new.py"}
        del files["/project/new.py"]
        call(p, [{"type": "diff", "changes": [move, gone]}], "m")
        assert owned(p) == owned(p, "new.py") == []
        assert [line for line in owned(p, "b.py") if line[0] != "-"] == mine


async def test_what_failed_was_loaded_or_lies_elsewhere_is_no_edit() -> None:
    async with play("attribution", files={"/project/a.py": "one\n", "/etc/a.py": "one\n"}) as p:
        session = await p.new_session()
        await p.prompt("x")
        call(p, [diff("zero\n", "one\n")], "1", status="failed")
        call(p, [diff("zero\n", "one\n", "/etc/a.py")], "2")
        call(p, [diff("zero\n", "one\n", "../etc/a.py")], "3")
        call(p, [diff("zero\n", "one\n", f"/project/{LINES.shard('a.py')}")], "4")
        p.agent.answer = lambda one: (
            call(p, [diff("zero\n", "one\n")], "5") if one.method == "session/load" else None
        )
        params = {"sessionId": session, "cwd": "/project", "mcpServers": []}
        await p.request("session/load", params)
        assert sorted(p.services.files) == ["/etc/a.py", "/project/a.py"]
        p.services.files["/project/a.py"] = "o\0ne\n"
        call(p, [diff("zero\n", "o\0ne\n")], "6")
        assert owned(p) == []
        assert p.services.log == ["warn: no record of an edit: a.py is no text"]


async def test_a_file_that_is_read_while_it_is_written_keeps_its_record() -> None:
    async with play("attribution", files={"/project/a.py": "one\n"}) as p:
        await p.new_session()
        await edit(p, "first", "one\n", "one\ntwo\n")
        whole, p.services.files["/project/a.py"] = p.services.files["/project/a.py"], ""
        call(p, [diff("two\n", "two\nthree\n")], "x")
        p.services.files["/project/a.py"] = whole
        assert owned(p) == ["- one", "first two"]


async def test_another_conductor_s_record_is_kept() -> None:
    async with play("attribution", files={"/project/a.py": "one\n"}) as p:
        await p.new_session()
        await edit(p, "first", "one\n", "one\ntwo\n")
        shard, write = f"/project/{LINES.shard('a.py')}", p.services._write
        other = LINES.book(p.services.files[shard])
        other["edits"]["theirs"] = {"at": "2025-01-01", "prompt": "theirs"}
        other["files"]["else.py"] = {"at": "2025-01-01", "lines": [["theirs", "00000000"]]}

        def interleaved(params: Json) -> Json:
            p.services._answers["files/write"] = write
            p.services.files[shard] = LINES.written(other)
            return write(params)

        p.services._answers["files/write"] = interleaved
        await edit(p, "second", "two\n", "two\nthree\n")
        assert owned(p) == ["- one", "first two", "second three"]
        assert "else.py" in LINES.book(p.services.files[shard])["files"]


async def test_a_hostile_agent_and_a_hostile_file_cost_no_more_than_a_record() -> None:
    async with play("attribution", files={"/project/a.py": "one\n"}) as p:
        await p.new_session()
        await p.prompt("x")
        huge = "\n".join(f"line {n}" for n in range(60_000))
        call(p, [diff(None, huge)] * 300, "1", status="pending")
        call(p, [diff("same\n" * 9_000, "other\nsame\n" * 9_000)], "2")
        for number in range(2_000):
            call(p, [diff(str(number), f"{number} ")], f"n{number}", status="in_progress")
        call(
            p, [{"type": "diff", "path": 3}, {"type": "diff", "changes": [3, {}], "patch": 3}], "3"
        )
        patch = {"format": "git_patch", "text": "+++ b/a.py\n@@ -1,9999999 +1 @@\n+x"}
        changes = [{"operation": "modify", "path": "/project/a.py"}]
        call(p, [{"type": "diff", "changes": changes, "patch": patch}], "4")
        call(p, [diff("one", "one", "/project/" + "d/" * 600 + "x")], "5")
        assert owned(p) == []
        p.services.files[f"/project/{LINES.shard('a.py')}"] = '{"version": 9}'
        await edit(p, "later", "one\n", "one\ntwo\n")
        assert "it is no file of records" in p.services.log[-1]
        assert p.services.files[f"/project/{LINES.shard('a.py')}"] == '{"version": 9}'


async def test_thousands_of_edits_leave_files_of_bounded_size() -> None:
    async with play("attribution") as p:
        await p.new_session()
        await p.prompt("x")
        for number in range(400):
            path = f"f{number}.py"
            text = "".join(f"{number} {line}\n" for line in range(6_000 if number < 60 else 3))
            put(p, "", text, path)
            call(p, [diff(None, text, f"/project/{path}")], f"t{number}")
        sizes = [len(text) for path, text in p.services.files.items() if ".conductor" in path]
        assert 1 < len(sizes) <= 16
        assert max(sizes) <= LINES.LARGEST
        assert owned(p, "f399.py")[0] == "x 399 0"


def test_lines_are_matched_in_order_and_in_time() -> None:
    chosen = random.Random(1)  # noqa: S311 - examples
    for _ in range(300):
        old, new = (chosen.choices("abcdef", k=chosen.randrange(12)) for _ in range(2))
        found = LINES.matches(old, new)
        places = [at for at in found if at >= 0]
        assert places == sorted(set(places))
        assert all(old[at] == new[place] for place, at in enumerate(found) if at >= 0)
    # Each division finds one line that stands once, and leaves nearly all.
    stairs = [str(n + d) for n in range(20_000) for d in (1, -1)]
    assert len(LINES.matches(stairs, ["x", *stairs, "y"])) == len(stairs) + 2


@pytest.mark.parametrize("version", [1, 2])
def test_the_last_edit_of_a_chain_is_kept_too(rig: Rig, tmp_path: Path, version: int) -> None:
    project = tmp_path / "project"
    project.mkdir()
    chain = agent(rig, component("attribution"), rig.demo())
    chain.initialize(**(V2 if version == 2 else {}))
    session = chain.new_session(cwd=str(project))
    path = project / "a.txt"
    diffed = {
        1: {"type": "diff", "path": str(path), "oldText": None, "newText": "hello\n"},
        2: {
            "type": "diff",
            "changes": [{"operation": "add", "path": str(path)}],
            "patch": {"format": "git_patch", "text": "+++ b/a.txt\n@@ -0,0 +1 @@\n+hello"},
        },
    }[version]
    path.write_text("hello\n")
    kind = "tool_call" if version == 1 else "tool_call_update"
    update = {"sessionUpdate": kind, "toolCallId": "t", "title": "x", "status": "completed"}
    told = {"sessionId": session, "update": {**update, "content": [diffed]}}
    chain.prompt(session, f"/notify session/update {json.dumps(told)}")
    assert chain.finish() == 0
    ran = conductor("log", "blame", str(path))
    assert re.fullmatch(r"1-1  \S+  demo 0\.1\.0  “/notify session/update .*”\n", ran.out), ran
