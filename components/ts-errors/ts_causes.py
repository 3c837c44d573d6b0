"""The details of an error: the types that differ, the module or the name that is missing."""

# ruff: noqa: E501 - sentences
import re
from collections.abc import Iterator

from tsc import Diagnostic

# -- types that do not fit -------------------------------------------------------------------------

_TYPES = re.compile(
    r"(?:Type|Argument of type) '(.+?)' is not assignable to (?:type|parameter of type) '(.+?)'"
)
_STEP = re.compile(
    r"(?:Types of property|The types of|The types returned by) '([^']+)' are incompatible"
)
_PARAMETERS = re.compile(r"Types of parameters '([^']+)' and '([^']+)' are incompatible")

_TEXT = r'(?:string|"[^"]*"(?: \| "[^"]*")*)'
_LITERALS = r'"[^"]*"(?: \| .+)?'
_ELEMENT = r"(?:EventTarget|Element|HTMLElement|Node|ChildNode|ParentNode)(?: \| null)?"

PAIRS: tuple[tuple[str, str, str], ...] = (
    ("undefined", r".+", "the value may be `undefined`: check it first, or give a default with `??`"),
    ("null", r".+", "the value may be `null`: check it first, or give a default with `??`"),
    (r"(?:.+ \| )?undefined(?: \| .+)?", r"(?:(?!undefined).)+", "the value may be `undefined`: check it first, or give a default with `??`"),
    (r"(?:.+ \| )?null(?: \| .+)?", r"(?:(?!null).)+", "the value may be `null`: check it first, or give a default with `??`"),
    (r"Promise<.*>", r"(?!Promise).*", "the value is a promise: `await` it, in an `async` function"),
    (r"(?!Promise).*", r"Promise<.*>", "make the function `async`, or use `Promise.resolve(…)`"),
    (r".*", "never", "the place takes nothing at all: an empty `[]` without a type (`useState<Item[]>([])`, `const list: Item[] = []`), or an intersection of types that exclude each other"),
    ("void", r".*", "the value is the result of a function that returns nothing: let it return something, or do not use the result"),
    ("unknown", r".*", "nothing is known of the value: narrow it by a check, or parse it"),
    ("string", _LITERALS, "certain texts are asked for, and this one may be any: declare the variable with that union, or write `as const` where the text stands"),
    ("number", r"\d+(?: \| .+)?", "certain numbers are asked for, and this one may be any: declare the variable with that union, or write `as const`"),
    (r'"[^"]*"', _LITERALS, "it is none of the texts that the type allows: correct the text, or add it to the type"),
    (_TEXT, "number", "convert it by `Number(text)`, and check that the result is a number"),
    (r"(?:number|-?\d[\d.]*)", _TEXT, "convert it by `String(n)`"),
    (r"(?:string|number|any|unknown|object|\{.*\})", r"[A-Z]", "a caller chooses that type parameter, so no certain type fits it: take it as an argument, or use a concrete type"),
    (r"(?P<t>.+)\[\]", r"(?P=t)", "take one of the array, or iterate over it"),
    (r"(?P<t>.+)", r"(?P=t)\[\]", "put it into an array: `[value]`"),
    (r"readonly .+\[\]", r".+\[\]", "the array is read-only: pass a copy `[...array]`, or declare the place `readonly`"),
    (_ELEMENT, r"HTML\w*Element", "narrow it: check with `instanceof`, or `querySelector<…>(…)`"),
    (r"\(.*\) => .*", r"(?!\().*", "call the function: its result is meant"),
    (r"(?!\().*", r"\(.*\) => .*", "write a function: `() => value`"),
    (r".*", r".* & .*", "the value needs the properties of all parts of that intersection"),
)  # fmt: skip
"""Mismatched types: the type that is there, the type that is asked for, the repair."""


def _mismatch(one: Diagnostic) -> Iterator[str]:
    """The innermost place where two types differ, and the repair."""
    path: list[str] = []
    last: tuple[str, str] | None = None
    for line in [one.said, *one.reasons]:
        if step := _STEP.search(line):
            path.append(step[1])
        elif parameters := _PARAMETERS.search(line):
            yield (
                f"the functions take different parameters, `{parameters[1]}` and `{parameters[2]}`: "
                "what is passed in must take all that the place would call it with, so the two "
                "types below stand the other way round"
            )
        elif types := _TYPES.search(line):
            last = types[1], types[2]
    if last is None:
        return
    there, wanted = last
    where = f"in `{'.'.join(path)}`, " if path else ""
    differ = f"{where}`{there}` is there, `{wanted}` is asked for"
    for given, asked, what in PAIRS:
        if re.fullmatch(f"{given} -> {asked}", f"{there} -> {wanted}"):
            yield f"{differ}: {what}."
            return
    if path:
        yield f"{differ}."


def _copies(one: Diagnostic) -> Iterator[str]:
    """Whether the same type comes from two places."""
    if "Two different types with this name exist" in one.words:
        yield "two copies of one package, or two declarations, define that type: `npm ls` shows copies; bring all to one version."
    if "could be instantiated with" in one.words:
        yield "a caller may choose a narrower type for the type parameter than the value has: take the value from the caller, or drop the parameter."


# -- names, properties, modules --------------------------------------------------------------------

_QUOTED = re.compile(r"'([^']+)'")
_PROPERTY = re.compile(r"Property '([^']+)' does not exist on type '(.+?)'")
_LOOSE = "declare what it holds, where it is made"

PROPERTIES: tuple[tuple[str, str], ...] = (
    ("never", "checks above leave nothing here: either all cases are excluded, or an empty `[]` has no type"),
    ("unknown", "nothing is known of the value: narrow it by a check, or parse it"),
    (r"Promise<.*>", "the value is a promise: `await` it first"),
    ("ImportMeta", "a bundler adds it: load its types, such as `vite/client`, in `types`"),
    (r"Window & typeof globalThis", "declare it: `declare global { interface Window { name: Type } }` in a module"),
    (r"typeof globalThis", "declare it: `declare global { var name: Type }` in a module"),
    (r"JSX\.IntrinsicElements", "no such element is known: a component needs a capital letter, an element of your own a declaration"),
    (_ELEMENT, "a certain element has it: check with `instanceof`, or `querySelector<HTMLInputElement>(…)`; of events, `currentTarget` is typed"),
    (r"(?:\{\}|object)", f"the type says nothing of its content: {_LOOSE}"),
    (r".*\[\]", "this is an array: take one of it (`[0]`, `.map`), or its `length`"),
    (r".+ \| .+", "only some of the union have it: narrow by a field that differs, `'name' in value`, `typeof` or `instanceof`"),
    (r"(?:string|number|boolean)", "a basic type does not have it: see whether the object around it is meant, or whether `lib` is older than the method"),
)  # fmt: skip
"""Types in which properties are looked for in vain, and the repair."""

GLOBALS: tuple[tuple[str, str], ...] = (
    ("process Buffer require module exports __dirname __filename global NodeJS setImmediate", "it is of Node: `npm i --save-dev @types/node`, and `\"node\"` in `types` if that is set"),
    ("describe it test expect beforeEach afterEach beforeAll afterAll jest vi", "it is of the test runner: import it from there, or add its types (`vitest/globals`, `jest`, `mocha`) to `types`"),
    ("document window HTMLElement Element Event fetch Response Request localStorage navigator", "it is of the browser: add `\"dom\"` to `lib`; of Node, `@types/node` has `fetch`"),
    ("React JSX", "`import type * as React from 'react'`, or `\"jsx\": \"react-jsx\"`; since React 19 `JSX` is `React.JSX`"),
    ("Promise Map Set WeakMap Symbol Iterator BigInt Proxy Reflect", "it is of the language: `lib` or `target` is too old, or `lib` leaves it out"),
    ("Deno Bun chrome browser google", "it is of what runs the code: install its types"),
)  # fmt: skip
"""Globals by name, and where their types are."""

_ASSET = re.compile(r".*\.(css|scss|sass|less|svg|png|jpe?g|gif|webp|avif|woff2?|mp3|mp4|md|mdx|glsl|wasm|html|txt)(\?.*)?")  # fmt: skip
_NODE = re.compile(
    r"(assert|buffer|child_process|cluster|crypto|dns|events|fs|http2?|https|module|net|os|path|"
    r"perf_hooks|process|readline|stream|string_decoder|timers|tls|tty|url|util|v8|vm|"
    r"worker_threads|zlib)(/promises|/posix|/win32|/web)?"
)


def _property(one: Diagnostic) -> Iterator[str]:
    """Hints to the type that lacks a property."""
    found = _PROPERTY.findall(one.words)
    if not found:
        return
    name, kind = found[0]
    for pattern, what in PROPERTIES:
        if re.fullmatch(pattern, kind):
            yield f"`{kind[:200]}` has no `{name}`: {what}."
            break
    if len(found) > 1:
        yield f"the part of the union without it is `{found[-1][1][:200]}`."


def _name(one: Diagnostic) -> Iterator[str]:
    """Where the types of a well-known global are."""
    named = _QUOTED.search(one.said)
    for names, what in GLOBALS:
        if named and named[1] in names.split():
            yield f"`{named[1]}`: {what}."


def _module(one: Diagnostic) -> Iterator[str]:
    """Hints to the kind of module that is missing, and how to get it."""
    named = _QUOTED.search(one.said)
    if named is None:
        return
    name = named[1]
    if _ASSET.fullmatch(name) and one.code != 7016:
        ending = name.partition("?")[0].rpartition(".")[2]
        yield f"`{name}` is no code: declare such files, `declare module '*.{ending}'`, or load the bundler's types (`vite/client`)."
    elif name.startswith((".", "/")):
        if one.code == 7016:
            yield f"`{name}` is JavaScript without types: set `allowJs`, turn it into TypeScript, or put a `.d.ts` file beside it."
        else:
            yield f"`{name}` is a path, counted from the file that imports it: check each part and its case, and whether the file is generated first."
    elif name.startswith(("@/", "~/", "#", "src/", "$")):
        yield f"`{name}` is an alias: set it in `paths` of tsconfig.json as the bundler has it; one that begins with `#` stands in `imports` of package.json."
    elif name.startswith("node:") or _NODE.fullmatch(name):
        yield f'`{name}` is of Node: `npm i --save-dev @types/node`, and `"node"` in `types` if that is set.'
    else:
        yield f"`{name}` is a package: {_package(one, name)}."


def _package(one: Diagnostic, name: str) -> str:
    parts = name.split("/")
    package = "/".join(parts[: 2 if name.startswith("@") else 1])
    if "but this result could not be resolved" in one.words:
        return f"`{package}` has types, and its `exports` hide them from this `moduleResolution`: try `bundler`, or a newer version of it"
    if one.code == 7016:
        types = package.removeprefix("@").replace("/", "__")
        return f"`npm i --save-dev @types/{types}` if there is such a package, else declare it in a `.d.ts` file: `declare module '{name}';`"
    inner = ", and see whether it exports that path" if package != name else ""
    return f"see that it is in package.json and installed{inner}"


def hints(one: Diagnostic) -> list[str]:
    """The hints to this error beyond the meaning of its code."""
    said = list(_copies(one))
    if one.code in (2322, 2345, 2769, 2416, 2420, 2430, 2344, 1360, 2375, 2379, 2411, 2415, 2719):
        said += _mismatch(one)
    elif one.code in (2339, 2551):
        said += _property(one)
    elif one.code in (2304, 2503, 2552, 2580, 2582, 2583, 2584, 2591, 2593, 2686):
        said += _name(one)
    elif one.code in (2307, 2792, 7016):
        said += _module(one)
    return list(dict.fromkeys(said))[:4]
