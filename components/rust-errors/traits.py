"""The details of an error: the missing trait and the reason, the types that do not fit."""

# ruff: noqa: E501 - sentences
import re

from rustc import Diagnostic

TRAITS: dict[str, str] = {
    "Send": "a value that goes to another thread, or is held across an `.await` of a task on several threads, must be `Send`. `Rc`, `RefCell` behind a reference, raw pointers and guards of `std::sync::Mutex` are not: use `Arc`, `Mutex`, or end the guard before the `.await`",
    "Sync": "a value that threads share by reference must be `Sync`. `Cell` and `RefCell` are not: use `Mutex`, `RwLock` or an atomic",
    "Sized": "a value on the stack has a known size; `str`, `[T]` and `dyn Trait` have none: use them behind `&` or `Box`, or allow it with `T: ?Sized`",
    "Copy": "`Copy` types are copied bit by bit: derive `Clone, Copy` if all fields are `Copy`, else call `.clone()`",
    "Clone": "derive it: `#[derive(Clone)]`; every field must have it",
    "Debug": "`{:?}`, `unwrap` of a `Result`, `assert_eq!` and `dbg!` print with it: `#[derive(Debug)]`",
    "Display": "`{}` and `to_string` print for people: implement `std::fmt::Display`, or print with `{:?}`",
    "Default": "`#[derive(Default)]`, if all fields have it",
    "PartialEq": "`==` and `assert_eq!` compare with it: `#[derive(PartialEq)]`; the two sides must be of one type, so compare `&str` with `&str` or use `as_str()`",
    "Eq": "keys of a `HashMap` need it: `#[derive(PartialEq, Eq)]`; `f32` and `f64` never have it",
    "Hash": "keys of a `HashMap` and members of a `HashSet` need `Hash`, `Eq` and `PartialEq`: derive all three",
    "PartialOrd": "`<` and `>` compare with it: `#[derive(PartialEq, PartialOrd)]`",
    "Ord": "`sort`, `max`, `BTreeMap` need a total order: derive `PartialEq, Eq, PartialOrd, Ord`; sort floats with `sort_by(f64::total_cmp)`",
    "Iterator": "call `.iter()`, `.iter_mut()` or `.into_iter()` first; a number is none, a range `0..n` is; implement `Iterator` with `fn next`",
    "IntoIterator": "`for` needs it: pass a collection, `&collection` or a range; open an `Option` or `Result` first",
    "FromIterator": "`collect` cannot build this type: collect into a `Vec`, `HashMap` or `String`, and see that the items are what it holds",
    "Future": "only a future can be awaited: call the `async` function (with its parentheses), or take the `.await` out",
    "Unpin": "pin it: `Box::pin(x)`, or `std::pin::pin!(x)`",
    "Error": "`Box<dyn Error>` and `anyhow` take types with `std::error::Error`: implement it (with `Debug` and `Display`), or derive it with `thiserror`",
    "Serialize": "`#[derive(serde::Serialize)]`, with serde's feature `derive`; each field needs it too. Two versions of serde in the tree are two traits: `cargo tree -d`",
    "Deserialize": "`#[derive(serde::Deserialize)]`, with serde's feature `derive`; each field needs it too. A borrowed field needs `#[serde(borrow)]`",
    "DeserializeOwned": "the type may not borrow from its input: own its texts (`String`)",
    "Termination": "`main` and tests return `()`, `Result<(), E>` with `E: Debug`, or `ExitCode`",
    "Handler": "a handler of axum is an `async fn` whose arguments are extractors, the one that reads the body last, and whose result is `IntoResponse`; `#[axum::debug_handler]` says which of these fails",
    "IntoResponse": "return what axum can answer with: a `String`, `Json<T>`, a `StatusCode`, a pair of these",
    "AsRef": "pass what can be lent as that type: `&str`, `String`, `Path`",
    "Fn": "the closure changes or gives away what it captures, or it must be called more than once: take `FnMut` or `FnOnce` if that will do, or clone inside",
    "FnMut": "it is called more than once, and the closure gives away what it captures: clone inside, or take `FnOnce`",
    "FnOnce": "it must be something to call: a function or a closure with these parameters",
    "Add": "both sides of `+` must be of types between which it is defined: convert one with `as` or `From`; a `String` takes a `&str` on its right",
    "AddAssign": "both sides of `+=` must fit: dereference (`*x += 1`), or convert",
    "Sub": "both sides of `-` must be of one type: convert one with `as` or `From`",
    "Mul": "both sides of `*` must be of one type: convert one with `as` or `From`",
    "Div": "both sides of `/` must be of one type: convert one with `as` or `From`",
    "Index": "slices are indexed by `usize` or ranges of it: `v[i as usize]`; maps by a reference to a key",
    "SliceIndex": "slices are indexed by `usize` or ranges of it: `v[i as usize]`",
    "Component": "bevy: `#[derive(Component)]`",
    "Resource": "bevy: `#[derive(Resource)]`",
    "Bundle": "bevy: a bundle is a tuple of components, or derives `Bundle`",
    "IntoSystem": "bevy: a system takes system parameters only (`Query`, `Res`, `Commands` …), at most 16 of them, each by value",
    "SystemParam": "bevy: parameters of a system are `Query`, `Res`, `ResMut`, `Commands` and the like, not plain references",
    "Pod": "bytemuck: `#[repr(C)]`, `Copy`, and no padding between the fields",
}
"""The ways to get a missing trait, by its name."""

MISSING = (
    (re.compile(r"the trait bound `(?P<type>.+?): (?P<trait>[^`]+)` is not satisfied"), ""),
    (re.compile(r"the trait `(?P<trait>[^`]+)` is not implemented for `(?P<type>[^`]+)`"), ""),
    (re.compile(r"`(?P<type>[^`]+)` doesn't implement `(?P<trait>[^`]+)`"), ""),
    (
        re.compile(r"binary operation `[<>]=?` cannot be applied to type `(?P<type>[^`]+)`"),
        "PartialOrd",
    ),
    (
        re.compile(r"binary operation `[!=]=` cannot be applied to type `(?P<type>[^`]+)`"),
        "PartialEq",
    ),
    (re.compile(r"`(?P<type>[^`]+)` cannot be sent between threads safely"), "Send"),
    (re.compile(r"future cannot be sent between threads safely"), "Send"),
    (re.compile(r"`(?P<type>[^`]+)` cannot be shared between threads safely"), "Sync"),
    (re.compile(r"the size for values of type `(?P<type>[^`]+)` cannot be known"), "Sized"),
    (re.compile(r"can't compare `(?P<type>[^`]+)` with"), "PartialEq"),
    (re.compile(r"cannot add `[^`]+` to `(?P<type>[^`]+)`"), "Add"),
    (re.compile(r"cannot subtract `[^`]+` from `(?P<type>[^`]+)`"), "Sub"),
    (re.compile(r"cannot multiply `(?P<type>[^`]+)` by"), "Mul"),
    (re.compile(r"cannot divide `(?P<type>[^`]+)` by"), "Div"),
    (re.compile(r"`(?P<type>[^`]+)` is not a future"), "Future"),
    (re.compile(r"`(?P<type>[^`]+)` is not an iterator"), "Iterator"),
    (re.compile(r"a value of type `(?P<type>[^`]+)` cannot be (?:built|made)"), "FromIterator"),
    (re.compile(r"the type `(?P<type>[^`]+)` cannot be indexed by"), "Index"),
    (re.compile(r"expected a `(?P<trait>Fn\w*)[^`]*` closure, found `(?P<type>[^`]+)`"), ""),
    (re.compile(r"expected a closure that implements the `(?P<trait>Fn\w*)` trait"), ""),
)
"""The forms of an error that says that a trait is missing, and the trait of forms without a
name."""

QUESTION = (
    (
        re.compile(r"`\?` couldn't convert the error(?::? `(?P<type>[^`]+)`)?"),
        "`?` turns the error into the function's own by `From`: implement `From<TheirError> for YourError`, use `.map_err(…)`, or return `Box<dyn std::error::Error>`",
    ),
    (
        re.compile(r"the `\?` operator can only be used in"),
        "`?` returns early, so the function itself must return a `Result` or an `Option`: change its return type, or handle the error with `match`",
    ),
    (
        re.compile(r"the `\?` operator on an? `?Option`?|`\?` operator.*on `Option`s"),
        "turn the `Option` into a `Result`: `.ok_or(…)?`",
    ),
    (
        re.compile(r"the `\?` operator can only be applied to"),
        "what stands before `?` is no `Result` or `Option`: take the `?` out, or `.await` the future first",
    ),
)

PAIRS = (
    (
        r"String",
        r"&(?:'static )?str",
        "an owned text is asked for: `.to_string()`, `String::from(…)`",
    ),
    (r"&(?:'\w+ )?str", r"String", "a lent text is asked for: `&text`, `text.as_str()`"),
    (r"Option<.*>", r"(?!Option).*", "wrap the value: `Some(…)`"),
    (r"Result<.*>", r"\(\)", "the function ends without a value: end it with `Ok(())`"),
    (r"Result<.*>", r"(?!Result).*", "wrap the value: `Ok(…)`, or `Err(…)`"),
    (r"(?!Option).*", r"Option<.*>", "open the `Option`: `?`, `match`, `.unwrap_or(…)`"),
    (r"(?!Result).*", r"Result<.*>", "open the `Result`: `?`, `match`, `.unwrap_or(…)`"),
    (
        r"\(\)",
        r".+",
        "nothing is expected here: end the line with `;`, or declare what the function returns",
    ),
    (
        r".+",
        r"\(\)",
        "the block yields nothing: its last line may end in a `;` too many, or a branch has no value",
    ),
    (
        r"(?:[iu](?:\d+|size))",
        r"(?:[iu](?:\d+|size))",
        "integers are not converted unasked: `u32::try_from(n)?`, `usize::from(n)`, or `n as usize` where it cannot be cut",
    ),
    (
        r"f(?:32|64)",
        r"(?:[iu](?:\d+|size)|integer|\{integer\})",
        "write a float: `1.0`, or `n as f64`",
    ),
    (r"&(?P<t>[\w:<>]+)", r"(?P=t)", "lend it: `&value`"),
    (
        r"(?P<t>[\w:<>]+)",
        r"&(?:mut )?(?P=t)",
        "it is lent: `*value` for `Copy` types, else `.clone()`",
    ),
    (r".*", r"impl Future.*|.*future.*", "the call yields a future: `.await` it"),
    (r"Box<dyn .*>", r".*", "box it: `Box::new(…)`"),
)
"""Mismatched types: the expected type, the type that is there, the repair."""

_EXPECTED = re.compile(r"expected (?:\w+ )?`([^`]+)`, found (?:\w+ )*`([^`]+)`")
_LENT = re.compile(r"`([^`]+)`")


def hints(one: Diagnostic) -> list[str]:
    """The hints to this error beyond the meaning of its code."""
    said = [*_questions(one), *_missing(one)]
    if one.code in ("E0308", "E0271"):
        said += _mismatch(one)
    if one.code in ("E0382", "E0499", "E0502", "E0505", "E0506", "E0507", "E0597", "E0716"):
        said += _borrowed(one)
    return list(dict.fromkeys(said))[:4]


def _questions(one: Diagnostic) -> list[str]:
    return [what for pattern, what in QUESTION if pattern.search(one.words)]


def _missing(one: Diagnostic) -> list[str]:
    """The traits that are missing, the innermost one included."""
    said = []
    for text in one.words.splitlines():
        for pattern, fixed in MISSING:
            found = pattern.search(text)
            if found is None:
                continue
            named = found.groupdict()
            trait = fixed or named["trait"].removeprefix("std::marker::")
            short = re.split(r"[<( ]", trait)[0].rpartition("::")[2]
            kind = named.get("type")
            who = f"`{kind}`" if kind else "it"
            advice = TRAITS.get(short)
            if advice:
                said.append(f"{who} lacks `{short}`: {advice}.")
            elif short:
                said.append(f"{who} lacks `{short}`: implement it for that type, or pass another.")
            break
    return said


def _mismatch(one: Diagnostic) -> list[str]:
    found = _EXPECTED.search(one.words)
    if found is None:
        return []
    expected, there = found[1], found[2]
    for wanted, given, what in PAIRS:
        if re.fullmatch(f"{wanted} -> {given}", f"{expected} -> {there}"):
            return [f"expected `{expected}`, found `{there}`: {what}."]
    return []


def _borrowed(one: Diagnostic) -> list[str]:
    """The order in which a value is lent, moved and used, by lines."""
    steps = sorted(label for label in one.labels if label.line)
    if len(steps) < 2:
        return []
    name = _LENT.search(one.said)
    told = " → ".join(f"line {step.line} ({step.said})" for step in steps[:6])
    return [f"the life of `{name[1] if name else 'the value'}`: {told}."]
