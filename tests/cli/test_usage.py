"""Wrong command lines: one error, one hint, exit code 2."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from conductor.cli import app, meant
from tests.harness.process.command import COMMAND, conductor, environment

WRONG = {
    **{
        f"an option that is a setting: {written}": (
            ["inspect", written],
            f"no option `{word}` in `{written}`",
            f"hint: did you mean `{meant}`?\n",
        )
        for written, word, meant in (
            ("budget,tokens=100", "tokens", "config.tokens"),
            ("budget,Tokens=100", "Tokens", "config.tokens"),
            ("budget,tokns=100", "tokns", "config.tokens"),
            ("budget,tokens", "tokens", "config.tokens=…"),
            ("budget,settings.tokens=100", "settings.tokens", "config.tokens"),
            ("budget,name=b,tokens=100", "tokens", "config.tokens"),
            ("datetime,template=x", "template", "config.template"),
            ("budget,memory_bytes=1M", "memory_bytes", "limit.memory_bytes"),
        )
    },
    "a key that is a setting": (
        ["inspect", '{"component": "budget", "tokens": 100}'],
        "`tokens` of `budget`: there is no such option",
        "did you mean `config.tokens`?",
    ),
    "an option that is nearly a setting": (
        ["inspect", "budget,token=100"],
        "`token` of `budget`",
        "the setting `tokens` is written `config.tokens`",
    ),
    "an option that is nothing's": (
        ["inspect", "rate-limit,per_minute=3"],
        "no option `per_minute`",
        "hint: its settings are: config.prompts, config.seconds, config.per, config.over\n",
    ),
    "settings without a file": (
        ["inspect", "datetime,config="],
        "is the name of a file of settings",
        "",
    ),
    "a part of a setting that is an object": (
        ["inspect", "capability,config.agent.loadSession=false"],
        "no option `config.agent.loadSession` in `capability,config.agent.loadSession=false`",
        "hint: its settings are: config.client, config.agent\n",
    ),
    "an option that is like no other": (
        ["exec", "--yolo", "demo"],
        "unknown option `--yolo`",
        "put it in quotes",
    ),
    "an option that is a setting too": (
        ["inspect", "budget,turns=sum"],
        "`turns=sum` of `budget`",
        "the setting `turns` is written `config.turns`",
    ),
    **{
        f"a named chain as an option of {command[0]}": (
            [*command, "--chain", "guarded"],
            "unknown option `--chain`",
            "hint: write `@NAME` in place of the components\n",
        )
        for command in (["exec", "-p", "hi"], ["agent"], ["chat"], ["lock"], ["inspect"])
    },
    "an option of servers": (
        ["dev", "--chain", "x"],
        "unknown option `--chain`",
        "hint: `--chain` is an option of `conductor serve` and `conductor fleet worker`\n",
    ),
    "a setting of servers": (
        ["exec", "--linger", "3"],
        "unknown option `--linger`",
        "hint: it is of `conductor serve`: `-c serve.linger=VALUE`",
    ),
    "a setting of this server": (
        ["serve", "--linger", "3"],
        "unknown option `--linger`",
        "hint: write `-c serve.linger=VALUE`, or put it into `[serve]`",
    ),
    "command": (
        ["frob"],
        "unknown command `frob`",
        "hint: `conductor --help` lists the commands\n",
    ),
    "a component in its place": (["demo"], "unknown command `demo`", "conductor agent demo …"),
    "an agent in its place": (["claude"], "unknown command `claude`", "conductor agent claude …"),
    **{
        f"people type {word}": (
            [word, *further],
            f"unknown command `{word}`",
            f"hint: did you mean `conductor {meant}`?\n",
        )
        for word, meant, *further in (
            ("run", "exec", "datetime", "demo"),
            ("install", "add", "./x"),
            ("uninstall", "remove", "x"),
            ("init", "new"),
            ("editors", "setup"),
            ("logs", "log show"),
            ("trace", "log show"),
            ("trace", "log stats", "stats", "t"),
            ("trace", "log view", "view", "t"),
            ("audit", "log verify", "verify", "a"),
            ("audit", "log show", "show", "a"),
            ("replay", "log replay", "t", "--diff"),
            ("version", "--version"),
            ("Search", "list --available", "mail"),
            ("instal", "add", "./x"),
            ("unistall", "remove", "x"),
            ("stop", "ps"),
            ("profiles", "help rights"),
            ("grant", "help rights"),
            ("verify", "log verify", "a"),
            ("stats", "log stats", "t"),
            ("view", "log view", "t"),
            ("blame", "log blame", "f"),
            ("pause", "ps pause"),
            ("drain", "fleet drain"),
            ("schema", "config schema"),
        )
    },
    "help on a word people type": (["help", "install"], "no help on `install`", "`conductor add"),
    "as uv is upgraded": (["self", "update"], "unknown command `self`", "brings a newer conductor"),
    "help on a misspelt one": (["help", "instal"], "no help on `instal`", "`conductor add"),
    "command misspelled": (["inspct", "x"], "unknown command `inspct`", "conductor inspect"),
    "top option": (["--frob"], "unknown option `--frob` for `conductor`", "hint"),
    "option misspelled": (
        ["agent", "--audt", "x", "demo"],
        "unknown option `--audt` for `conductor agent`",
        "did you mean `--audit`?",
    ),
    "unquoted command": (
        ["agent", "python", "--quux", "demo"],
        "unknown option `--quux` for `conductor agent`",
        "put it in quotes",
    ),
    "one of several words": (["completion"], "`conductor completion` needs bash, zsh or fish", ""),
    "one of several things": (["trust"], "`conductor trust` needs a PATH", "--list"),
    "no component": (["agent"], "`conductor agent` needs a COMPONENT", "conductor agent --help"),
    "a component behind two dashes": (
        ["agent", "--", "datetime", "demo"],
        "`datetime` is no command, and one command with its arguments follows `--`",
        "components stand in front of `--`",
    ),
    "nothing behind two dashes": (
        ["agent", "datetime", "--"],
        "nothing follows `--`",
        "conductor agent datetime -- claude-agent-acp",
    ),
    "no program behind two dashes": (
        ["exec", "-p", "x", "--", "nothing-there", "--flag"],
        "`nothing-there` is neither a component nor a program on PATH",
        "install the program",
    ),
    "no chain": (["agent", "@work", "demo"], "there is no chain `work`", "[chains.NAME]"),
    "agent misspelt": (["agent", "clade"], "`clade` is neither", "did you mean `claude`?"),
    "agent where none fits": (["agent", "clade", "demo"], "`clade`", "did you mean `cache`?"),
    "two prompts": (["exec", "demo", "-p", "a", "-p", "b"], "`--prompt` is given twice", "once"),
    "two prompts, joined": (["exec", "demo", "-p=a", "-p=b"], "`--prompt` is given twice", "once"),
    "two levels": (["agent", "--log", "info", "--log", "debug", "demo"], "`--log` is", "once"),
    "one limit by two names": (
        ["agent", "datetime,memory=8M,limit.memory_bytes=9M", "demo"],
        "`memory` is given twice for `datetime`",
        "once",
    ),
    "name misspelt": (["agent", "datetme", "demo"], "`datetme`", "did you mean `datetime`?"),
    "no value": (["agent", "--log"], "'--log' requires an argument", "conductor agent --help"),
    "flag with a value": (["agent", "--locked=1", "demo"], "does not take a value", "--help"),
    "isolation": (
        ["agent", "-c", "isolation=x", "demo"],
        "`isolation` cannot be `x`",
        "process, inline, separate",
    ),
    "log": (["agent", "--log", "x", "demo"], "invalid value `x` for `--log`", "debug, info"),
    "dialect": (["proxy", "--dialect", "x", "demo"], "`x` for `--dialect`", "acp, sdk, sacp"),
    "dialect of an agent": (["agent", "--dialect", "acp", "demo"], "unknown option", "hint"),
    "clock": (
        ["agent", "-c", "clock=noon", "demo"],
        "`clock` cannot be `noon`",
        "2026-03-01T12:00",
    ),
    "size": (["agent", "-c", "line-limit=0", "demo"], "`line-limit` cannot be `0`", "64M"),
    "time": (["agent", "-c", "stall=-1", "demo"], "`stall` cannot be `-1`", "number of seconds"),
    "no such name": (
        ["agent", "nothing-there"],
        "`nothing-there`",
        "`conductor list --bundled` lists",
    ),
    "a command in two words": (
        ["exec", "python", "proxy.py", "demo", "-p", "x"],
        "`python` without arguments would run the messages of the chain as a program",
        'put it in quotes, as in "python FILE"',
    ),
    "an option of exec": (
        ["agent", "demo", "-p", "hi"],
        "unknown option `-p` for `conductor agent`",
        "`-p` is an option of `conductor exec`",
    ),
    "no such module": (["agent", "./no.wasm", "demo"], "no such module", "check the path"),
    "text": (
        ["agent", "./no.wat", "demo"],
        "`./no.wat` is WebAssembly text",
        "python -m wasm_host.wat ./no.wat ./no.wasm",
    ),
    "component option": (
        ["agent", "datetime,dialect=x", "demo"],
        "`dialect=x` of `datetime`",
        "conductor help component",
    ),
    **{
        f"near {written}": (
            ["agent", f"redact,{written}", "demo"],
            f"`{written}` of `redact`",
            f"did you mean `{meant}`?",
        )
        for written, meant in (
            ("only=ful", "full"),
            ("allow=clok", "clock"),
            ("deny=clok", "clock"),
            ("dialect=sckp", "scp"),
            ("on_failure=restrat", "restart"),
            ("fails=opn", "open"),
            ("allow=prompt:witin", "prompt:within"),
            ("allow=show:panl", "show:panel"),
            ("limit.timrs=4", "timers"),
            ("allow=answer:promts", "prompts"),
        )
    },
    "near value": (
        ["exec", "-c", "isolation=proces", "demo", "-p", "x"],
        "`isolation` cannot be `proces`",
        "did you mean `process`? possible values: process, inline, separate",
    ),
    "near language": (["new", "x", "--lang", "pyton"], "no template for `pyton`", "`python`?"),
    "near check": (["test", "--only", "handshak", "x"], "no check `handshak`", "`handshake`?"),
    "near term": (
        ["log", "show", "x", "~chnage dropped"],
        "there is no term `~chnage`",
        "did you mean `~change`?",
    ),
    "option misspelt": (
        ["agent", "datetime,onyl=observer,allow=clock", "demo"],
        "no option `onyl` in `datetime,onyl=observer`",
        "did you mean `only`?",
    ),
    "option without value": (
        ["agent", "./no.py,config.mode", "demo"],
        "no value for the option `config.mode` in `./no.py,config.mode`",
        "`config.mode` is given as `config.mode=…`",
    ),
    "option of before without value": (
        ["agent", "datetime,texts", "demo"],
        "no option `texts` in `datetime,texts`: rights are words of",
        "`conductor help rights` lists the words",
    ),
    "no option at all": (
        ["agent", "datetime,colour=red", "demo"],
        "no option `colour` in `datetime,colour=red`",
        "its settings are: config.template",
    ),
    "exec without prompt": (["exec", "demo"], "needs a prompt", "conductor exec demo -p"),
    "exec with a component behind the agent": (
        ["exec", "demo", "datetime"],
        "`datetime` stands behind the agent `demo`",
        "the agent is the last component",
    ),
    "exec without agent": (
        ["exec", "datetime", "what's the date?"],
        "there is no agent before the prompt `what's the date?`",
        "conductor exec datetime demo",
    ),
    "exec with an empty one": (["exec", "demo", "-p", " "], "the prompt is empty", "-p"),
    "exec without component": (["exec", "-p", "x"], "needs a COMPONENT", "exec --help"),
    "exec fs": (["exec", "demo", "-p", "x", "--fs", "xml"], "`xml`", "none, read, write"),
    "exec permissions": (
        ["exec", "demo", "-p", "x", "--permissions", "allow-always"],
        "invalid value `allow-always` for `--permissions`",
        "deny, ask, allow-once",
    ),
    "nobody to ask": (
        ["exec", "demo", "-p", "x", "--permissions", "ask"],
        "there is no terminal to ask",
        "--permissions deny",
    ),
    "exec cwd": (["exec", "demo", "-p", "x", "--cwd", "/no/such"], "no such folder", "--cwd"),
    "exec timeout": (["exec", "demo", "-p", "x", "--timeout", "0"], "no time", "leave it out"),
    "inspect nothing": (["inspect"], "needs a COMPONENT", "conductor inspect --help"),
    "inspect two": (["inspect", "a", "b"], "unexpected extra argument", "inspect --help"),
    "inspect missing": (["inspect", "./no.wasm"], "no such module", "check the path"),
    "log what": (["log", "frob", "x"], "unknown command `frob`", "commands are: show, stats"),
    "log misspelled": (
        ["log", "verfy", "x"],
        "unknown command `verfy`",
        "did you mean `conductor log verify`?",
    ),
    "log trace": (["log", "trace", "t"], "unknown command `trace`", "`conductor log show`?"),
    "log trace stats": (
        ["log", "trace", "stats", "t"],
        "unknown command `trace`",
        "did you mean `conductor log stats`?",
    ),
    "log search": (["log", "search"], "unknown command `search`", "commands are: show, stats"),
    "log verify nothing": (
        ["log", "verify"],
        "`conductor log verify` needs a FILE",
        "conductor log verify --help",
    ),
    "log option": (
        ["log", "verify", "--frob", "x"],
        "unknown option `--frob` for `conductor log verify`",
        "conductor log verify --help",
    ),
    "doctor option": (["doctor", "--jsn"], "unknown option `--jsn`", "did you mean `--json`?"),
    "join nothing": (["join"], "`conductor join` needs a PATH", "conductor join --help"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage(name: str, tmp_path: Path) -> None:
    arguments, error, hint = WRONG[name]
    ran = conductor(*arguments, cwd=tmp_path)
    ran.assert_error(2, error, hint)
    assert ran.out == ""


@pytest.mark.parametrize("arguments", [["agent", "datetime"], ["exec", "datetime", "-p", "x"]])
def test_a_chain_that_ends_with_a_proxy(arguments: list[str], tmp_path: Path) -> None:
    ran = conductor(*arguments, cwd=tmp_path)
    hint = "put an agent behind it, such as `demo`"
    ran.assert_error(2, "`datetime`, is a sandboxed proxy", hint)
    assert ran.out == ""


@pytest.mark.parametrize("arguments", [["agent", "--frob", "demo"], ["proxy", "--log=x", "demo"]])
def test_an_editor_is_told_too(arguments: list[str]) -> None:
    request = {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {}}
    ran = conductor(*arguments, stdin=json.dumps(request).encode() + b"\n")
    ran.assert_error(2)
    answer = json.loads(ran.out)
    assert answer["id"] == "a"
    assert f"error: {answer['error']['message'].replace('hint:', chr(10) + 'hint:')}\n" == ran.err


def test_help_into_a_closed_pipe_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, "list", "--bundled"],
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment(),
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_name_of_something_in_this_folder_gets_its_path(tmp_path: Path) -> None:
    (tmp_path / "emoji").mkdir()
    ran = conductor("inspect", "emoji", cwd=tmp_path)
    ran.assert_error(2, "`emoji` is neither", "hint: for a file or folder here", "`./emoji`")


def test_words_that_people_type_are_no_commands_and_mean_one() -> None:
    known = set(app.command().commands)
    words = [word for listed in meant.WORDS.values() for word in listed.split(", ")]
    assert len(words) == len({*words})
    assert not known & {*words}
    assert {command.split()[0] for command in meant.WORDS} <= {*known, "--version"}
