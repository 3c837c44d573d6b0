//! Reading and writing JSON as it lies.

use conductor_guest::json::{elements, get, get_text, quote, text};

#[test]
fn values_are_found_as_they_are_written() {
    let line = r#" {"a" : {"\u0062":[1.10, 1e400],"c":-0} ,"t":"x","a2":null} "#;
    assert_eq!(get(line, &["a", "b"]), Some("[1.10, 1e400]"));
    assert_eq!(get(line, &["a", "c"]), Some("-0"));
    assert_eq!(get(line, &["a2"]), Some("null"));
    assert_eq!(get(line, &[]), Some(line));
    assert_eq!(get(line, &["t", "x"]), None);
    assert_eq!(get(line, &["b"]), None);
    assert_eq!(get_text(line, &["t"]).as_deref(), Some("x"));
    assert_eq!(get_text(line, &["a"]), None);
}

#[test]
fn of_repeated_members_the_last_one_counts() {
    assert_eq!(get(r#"{"a":1,"\u0061":2}"#, &["a"]), Some("2"));
    assert_eq!(get(r#"{"a":{"b":1},"a":3}"#, &["a", "b"]), None);
}

#[test]
fn what_is_no_json_has_no_members() {
    let wrong = [
        "",
        "[]",
        "1",
        "{",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1"#,
        r#"{"a":1,}"#,
        r#"{"a":1}}"#,
        r#"{a:1}"#,
        r#"{"a":01}"#,
        r#"{"a":1.}"#,
        r#"{"a":.5}"#,
        r#"{"a":1e}"#,
        r#"{"a":+1}"#,
        r#"{"a":-}"#,
        r#"{"a":[1,]}"#,
        r#"{"a":[1}]"#,
        r#"{"a":[}"#,
        r#"{"a":{"b":[]]}"#,
        r#"{"a":"b}"#,
        r#"{"a":"\x"}"#,
        r#"{"a":"\u12g4"}"#,
        r#"{"a":"\u123"}"#,
        r#"{"a":tru}"#,
        r#"{"a":1 "b":2}"#,
        "{\"a\":\"\u{1}\"}",
        "{\"a\":\"\n\"}",
        r#"{"a":"\"#,
        r#"{"a":1}x"#,
    ];
    for line in wrong {
        assert_eq!(get(line, &["a"]), None, "{line}");
    }
}

#[test]
fn nesting_is_read_without_recursion_and_has_an_end() {
    let nested = |depth| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    assert_eq!(get(&nested(4096), &["a"]).map(str::len), Some(8192));
    assert_eq!(get(&nested(4098), &["a"]), None);
    let mixed = format!(r#"{{"a":{}1{}}}"#, r#"{"b":["#.repeat(99), "]}".repeat(99));
    assert_eq!(get(&mixed, &["a"]).map(str::len), Some(mixed.len() - 6));
}

#[test]
fn texts_are_decoded() {
    assert_eq!(
        text(r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00""#).unwrap(),
        "a\"\\/\u{8}\u{c}\n\r\té😀"
    );
    for (half, read) in [
        (r#""\ud83d""#, "\u{fffd}"),
        (r#""\uD83Dx""#, "\u{fffd}x"),
        (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
        (r#""\ud83d\u0041""#, "\u{fffd}A"),
        (r#""\ud83d\\ude00""#, "\u{fffd}\\ude00"),
        (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
    ] {
        assert_eq!(text(half).as_deref(), Some(read), "{half}");
    }
    for none in ["1", "\""] {
        assert_eq!(text(none), None, "{none}");
    }
}

#[test]
fn texts_are_escaped_as_little_as_can_be() {
    assert_eq!(
        quote("a\"\\\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}é😀/"),
        "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\u{7f}é😀/\""
    );
    assert_eq!(quote(""), "\"\"");
    let all: String = ('\0'..='\u{3ff}').collect();
    assert_eq!(text(&quote(&all)), Some(all));
}

#[test]
fn arrays_have_elements() {
    assert_eq!(
        elements(r#" [1, {"a":[2]} ,"x"] "#),
        Some(vec!["1", r#"{"a":[2]}"#, r#""x""#])
    );
    assert_eq!(elements("[ ]"), Some(vec![]));
    for wrong in ["", "{}", "[", "[1", "[1,]", "[,1]", "[1]2"] {
        assert_eq!(elements(wrong), None, "{wrong}");
    }
}
