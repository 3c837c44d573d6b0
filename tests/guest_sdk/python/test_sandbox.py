"""Inside the sandbox: modules that are there, errors of those that are not, and reports of
mistakes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.guest_sdk.python.conftest import Make
from wasm_host import Guest, GuestError

pytestmark = pytest.mark.timeout(600)  # the first test may have the guest built

RUNNER = """
import datetime, logging, os, pathlib, random, secrets, sys, time, uuid
from guest_sdk.python import Proxy

proxy = Proxy("runner")

@proxy.request("_run")
def run(request):
    return eval(request.params["code"])

@proxy.request("_deep")
def deep(request):
    def down(n):
        return down(n + 1)
    return down(0)

@proxy.request("_eat")
def eat(request):
    return len([bytearray(1 << 20) for _ in range(10_000)])
"""


@pytest.fixture(scope="module", name="runner")
def _runner(make_guest: Make, tmp_path_factory: pytest.TempPathFactory) -> Guest:
    path = tmp_path_factory.mktemp("runner") / "runner.py"
    path.write_text(RUNNER, encoding="utf-8")
    return make_guest(path)


def ask(guest: Guest, method: str, **params: Any) -> tuple[Any, list[Any]]:
    """The result, or the error's message; and the lines of the log."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    *logged, answer = guest.deliver(f"p{json.dumps(asked)}\n".encode()).decode().splitlines()
    held = json.loads(answer[1:])
    logs = [json.loads(one[1:])["params"] for one in logged]
    return held["result"] if "result" in held else held["error"]["message"], logs


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("time.time()", "`await proxy.clock.now()`, allow=clock"),
        ("time.monotonic()", "`await proxy.clock.now()`"),
        ("time.strftime('%Y')", "`await proxy.clock.now()`"),
        ("time.sleep(1)", "`await proxy.timer.sleep(s)`, allow=timer"),
        ("datetime.datetime.now()", "`await proxy.clock.now()`"),
        ("datetime.date.today()", "`await proxy.clock.now()`"),
        ("os.urandom(1)", "`await proxy.random.bytes(16)`, allow=random"),
        ("uuid.uuid4()", "`proxy.random.uuid()`"),
        ("open('/etc/passwd')", "`await proxy.files.read(path)`, allow=read:GLOB"),
        ("pathlib.Path('x').read_text()", "`await proxy.files.read(path)`"),
        ("pathlib.Path('x').write_text('')", "`await proxy.kv.set(key, value)`, allow=storage"),
        ("os.listdir('.')", "`await proxy.files.read(path)`"),
        ("open('x', 'w')", "`await proxy.kv.set(key, value)`, allow=storage"),
        ("open('x', mode='rb')", "`await proxy.files.read(path)`"),
        ("os.makedirs('a/b')", "`await proxy.kv.set(key, value)`"),
        ("list(os.walk('.'))", "`await proxy.files.read(path)`"),
        ("os.path.exists('x')", "`await proxy.files.read(path)`"),
        ("os.path.isfile('x')", "`await proxy.files.read(path)`"),
        ("os.getcwd()", "`request.session.cwd`"),
        ("pathlib.Path.home()", "`request.session.cwd`"),
        ("os.environ['HOME']", "`Proxy(config=…)`"),
        ("sys.stdin.readline()", "`Proxy(config=…)`"),
        ("os._exit(1)", "raise an exception"),
        ("secrets.token_hex(8)", "`await proxy.random.bytes(16)`, allow=random"),
        ("secrets.choice('ab')", "`await proxy.random.bytes(16)`"),
        ("random.SystemRandom().random()", "`await proxy.random.bytes(16)`"),
        ("random.SystemRandom().getrandbits(8)", "`await proxy.random.bytes(16)`"),
        ("logging.FileHandler('x.log')", "`await proxy.kv.set(key, value)`"),
        ("os.system('ls')", "there are no other programs"),
        ("input()", "`await proxy.ask_client(…)`"),
        ("__import__('socket')", "`await proxy.fetch(url)`, allow=web:HOST"),
        ("__import__('requests')", "`await proxy.fetch(url)`"),
        ("__import__('urllib.request')", "`await proxy.fetch(url)`"),
        ("__import__('urllib', fromlist=['request'])", "`await proxy.fetch(url)`"),
        ("__import__('http', fromlist=['client'])", "`await proxy.fetch(url)`"),
        ("__import__('threading').Thread(target=print).start()", "`await gather(…)`"),
        ("__import__('threading').Event().wait(1)", "`await gather(…)`"),
        ("__import__('queue').Queue().get()", "`await gather(…)`"),
        ("__import__('concurrent.futures').futures.ThreadPoolExecutor().submit(print)", "gather"),
        ("__import__('tempfile').TemporaryFile()", "`await proxy.kv.set(key, value)`"),
        ("__import__('glob').glob('*')", "`await proxy.files.read(path)`"),
        ("__import__('importlib.resources').resources.files('json')", "put what is needed into"),
        ("__import__('zoneinfo').ZoneInfo('Europe/Berlin')", "`proxy.clock.now()` has the offset"),
        ("os.chdir('/')", "`request.session.cwd`"),
        ("__import__('subprocess')", "there are no other programs"),
        ("__import__('asyncio')", "`proxy.timer.sleep`"),
        ("__import__('sqlite3')", "`await proxy.kv.set(key, value)`"),
        ("__import__('numpy')", "there is no compiled code"),
        ("__import__('mine')", "can lie beside the proxy"),
        ("__import__('unittest')", "this module of the standard library is not in the sandbox"),
        ("__import__('getpass')", "`Proxy(config=…)`"),
    ],
)
def test_what_is_missing_says_what_to_ask_for(runner: Guest, code: str, advice: str) -> None:
    message, logged = ask(runner, "_run", code=code)
    assert advice in message
    assert "sandbox" in message
    assert "(<string>, line 1)" in message, "where the author called it"
    assert logged[0]["level"] == "error"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("str(datetime.datetime(2020, 2, 28) + datetime.timedelta(1))", "2020-02-29 00:00:00"),
        ("isinstance(datetime.datetime.min, datetime.date)", True),
        ("str(uuid.UUID(int=1))", "00000000-0000-0000-0000-000000000001"),
        ("dict(os.environ)", {}),
        ("os.path.join('a', 'b')", "a/b"),
        ("str(os.environ.get('HOME'))", "None"),
        ("os.getenv('HOME', 'none')", "none"),
        ("str(pathlib.Path('a/../b').resolve())", "/b"),
        ("os.path.abspath('a')", "/a"),
        (
            "__import__('inspect').getsource(run).splitlines()[-1]",
            '    return eval(request.params["code"])',
        ),
        ("__import__('gzip').decompress(__import__('gzip').compress(b'a')).decode()", "a"),
        ("__import__('hashlib').sha256(b'').hexdigest()[:8]", "e3b0c442"),
        ("__import__('re').sub('a', 'b', 'aa')", "bb"),
        ("__import__('unicodedata').name('é')", "LATIN SMALL LETTER E WITH ACUTE"),
        ("__import__('urllib.parse').parse.quote('a b')", "a%20b"),
        ("__import__('tomllib').loads('a=1')", {"a": 1}),
        ("str(datetime.datetime.strptime('2 Mar 2026', '%d %b %Y'))", "2026-03-02 00:00:00"),
        ("__import__('threading').RLock().acquire()", True),
        ("vars(__import__('argparse').ArgumentParser().parse_args([]))", {}),
        ("__import__('platform').system()", "wasi"),
        ("__import__('http').HTTPStatus(404).phrase", "Not Found"),
        ("__import__('mimetypes').guess_type('a.png')[0]", "image/png"),
        ("__import__('importlib.util').util.find_spec('numpy') is None", True),
    ],
)
def test_what_computes_is_there(runner: Guest, code: str, expected: Any) -> None:
    assert ask(runner, "_run", code=code)[0] == expected


def test_chance_is_the_same_in_every_instance(make_guest: Make, tmp_path: Path) -> None:
    path = tmp_path / "runner.py"
    path.write_text(RUNNER, encoding="utf-8")
    drawn = [ask(make_guest(path), "_run", code="random.random()")[0] for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_what_is_printed_and_logged_reaches_the_conductor(runner: Guest) -> None:
    _, printed = ask(runner, "_run", code="print('a\\nb') or 1")
    assert printed == [{"level": "info", "message": "a"}, {"level": "info", "message": "b"}]
    _, printed = ask(runner, "_run", code="print('a', file=sys.stderr) or 1")
    assert printed == [{"level": "warn", "message": "a"}]
    _, printed = ask(runner, "_run", code="print('half', end='', flush=True) or 1")
    assert printed == [{"level": "info", "message": "half"}]
    _, logged = ask(runner, "_run", code="logging.getLogger('mine').warning('%s!', 'careful') or 1")
    assert logged == [{"level": "warn", "message": "mine: careful!"}]
    failing = "logging.getLogger('mine').error('oh', exc_info=LookupError('gone')) or 1"
    _, logged = ask(runner, "_run", code=failing)
    assert logged == [{"level": "error", "message": "mine: oh\nLookupError: gone"}]


def test_a_proxy_survives_its_own_excesses(runner: Guest) -> None:
    assert "RecursionError" in ask(runner, "_deep")[0]
    assert "MemoryError (runner.py, line 19)" in ask(runner, "_eat")[0]
    deep = "len(str(__import__('json').loads('[' * {0} + ']' * {0})))"
    assert ask(runner, "_run", code=deep.format(500))[0] == 1000
    for depth in (501, 2_000, 1_000_000):
        message = ask(runner, "_run", code=deep.format(depth))[0]
        assert "RecursionError: JSON nests deeper than 500 levels" in message
    assert ask(runner, "_run", code="1 + 1")[0] == 2
    assert "SystemExit: 3" in ask(runner, "_run", code="__import__('sys').exit(3)")[0]


def test_a_mistake_is_told_with_the_authors_lines(runner: Guest) -> None:
    message, logged = ask(runner, "_run", code="1/0")
    assert message.startswith("proxy `runner` failed at `_run`: ZeroDivisionError")
    assert 'File "runner.py", line 9, in run\n    return eval(' in logged[0]["message"]
    assert "guest_sdk" not in logged[0]["message"]


def test_a_folder_brings_its_modules_along(make_guest: Make, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "pure" / "inner").mkdir(parents=True)
    (folder / "__pycache__").mkdir()
    (folder / "proxy.py").write_text(
        "from guest_sdk.python import Proxy\nfrom pure.inner.words import loud\nimport json2\n"
        "proxy = Proxy('mine')\n"
        "@proxy.request('_say')\n"
        "def say(request):\n    return [loud(request.word), json2.NAME, json2.__file__]\n",
        encoding="utf-8",
    )
    (folder / "pure" / "__init__.py").write_text("from .inner import words\n", encoding="utf-8")
    (folder / "pure" / "inner" / "words.py").write_text(
        "def loud(word):\n    return word.upper()\n", encoding="utf-8"
    )
    (folder / "json2.py").write_text("NAME = __name__\n", encoding="utf-8-sig")
    guest = make_guest(folder)
    assert ask(guest, "_say", word="a")[0] == ["A", "json2", "json2.py"]
    assert "has no attribute 'upper' (words.py, line 2)" in ask(guest, "_say", word=1)[0]


@pytest.mark.parametrize("name", ["my-proxy.py", "my.proxy.v2.py", "json.py", "__main__.py"])
def test_a_file_may_have_any_name(make_guest: Make, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(RUNNER, encoding="utf-8")
    guest = make_guest(path)
    assert ask(guest, "_run", code="__name__.startswith('sandboxed_')")[0] is True
    assert ask(guest, "_run", code="__import__('json').dumps([])")[0] == "[]"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def f()\n", "SyntaxError: expected ':' (bad.py, line 1)"),
        ("\nx = y\n", "NameError: name 'y' is not defined (bad.py, line 2)"),
        ("import socket\n", "`import socket`: in the sandbox there is no network"),
        ("x = 1\n", "bad.py declares no proxy"),
        ("from guest_sdk.python import Prxy\n", "cannot import name 'Prxy'"),
        ("class Odd(Exception):\n    pass\nraise Odd('x')\n", ": Odd: x (bad.py, line 3)"),
        ("from guest_sdk.python import Proxy\na = Proxy('a')\nb = Proxy('b')\n", "2 proxies"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
    ],
)
def test_what_cannot_be_loaded_says_why(
    make_guest: Make, tmp_path: Path, source: str, problem: str
) -> None:
    path = tmp_path / "bad.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(GuestError) as caught:
        make_guest(path)
    assert str(caught.value).startswith("bad could not be loaded: ")
    assert problem in str(caught.value)
    assert caught.value.phase == "instantiate"


def test_big_lines_fit_into_the_default_limits(runner: Guest) -> None:
    said = json.dumps("ü" * 4_000_000, ensure_ascii=False)
    line = f'p{{"jsonrpc":"2.0","method":"_big","params":{{"x":{said}}}}}\n'.encode()
    assert runner.deliver(line) == b"s" + line[1:]
    asked = f'p{{"jsonrpc":"2.0","id":1,"method":"_run","params":{{"code":"1","x":{said}}}}}\n'
    assert runner.deliver(asked.encode()) == b'p{"jsonrpc":"2.0","id":1,"result":1}\n'


def test_dependencies_may_lie_in_a_folder_of_their_own(make_guest: Make, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    vendor = folder / "vendor"
    (vendor / "pure").mkdir(parents=True)
    (folder / "main.py").write_text(
        "import os, sys\n"
        "sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'vendor'))\n"
        "from guest_sdk.python import Proxy\nimport pure.part, single\n"
        "proxy = Proxy('mine')\n"
        "@proxy.request('_say')\n"
        "def say(request):\n    return [pure.part.fast, pure.part.__file__, single.fail()]\n",
        encoding="utf-8",
    )
    (vendor / "pure" / "__init__.py").write_text("", encoding="utf-8")
    (vendor / "pure" / "part.py").write_text(
        "try:\n    from _pure_speedups import fast\nexcept ModuleNotFoundError:\n    fast = 'no'\n",
        encoding="utf-8",
    )
    (vendor / "single.py").write_text("def fail():\n    return 1 / 0\n", encoding="utf-8")
    guest = make_guest(folder)
    said, logged = ask(guest, "_say")
    assert said.endswith("ZeroDivisionError: division by zero (single.py, line 2)")
    story = logged[0]["message"]
    assert 'File "main.py", line 8, in say' in story
    assert 'File "vendor/single.py", line 2, in fail\n    return 1 / 0' in story
