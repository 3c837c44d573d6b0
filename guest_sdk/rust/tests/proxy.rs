//! The walk of messages, beyond what transcripts show.

use std::future::Future;

use conductor_guest::{text, Message, Proxy, Side};

fn check(proxy: &mut Proxy, given: &[&str], expected: &[&str]) {
    let lines = |all: &[&str]| {
        all.iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let said = proxy.deliver(lines(given).as_bytes());
    assert_eq!(String::from_utf8(said).unwrap(), lines(expected));
}

#[test]
fn what_is_no_message_passes_and_hurts_nobody() {
    let mut proxy = Proxy::new();
    proxy.handle("m", async |message: &mut Message| message.discard());
    let out =
        proxy.deliver(b"p\np{\np[1]\n\nx{}\npnull\nc{\np{\"method\":\"\xff\"}\np{\"method\":7}");
    assert_eq!(
        out,
        b"s{\ns[1]\nsnull\ns{\"method\":\"\xff\"}\ns{\"method\":7}\n"
    );
}

#[test]
fn a_method_is_found_however_it_is_spelt() {
    let mut proxy = Proxy::new();
    proxy.handle("a/b", async |message: &mut Message| message.fail(1, "no"));
    let answer = r#"p{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#;
    let (plain, odd) = (
        r#"p{"id":1,"method":"a/b"}"#,
        r#"p{"\u0069d":1,"m\u0065thod":"\u0061\/b"}"#,
    );
    let repeated = r#"p{"method":"x","id":2,"id":1,"method":"a/b"}"#;
    check(&mut proxy, &[plain, odd, repeated], &[answer; 3]);
    let other = r#"{"method":"a/b","id":1,"method":"a\\/b"}"#;
    check(&mut proxy, &[&format!("p{other}")], &[&format!("s{other}")]);
}

#[test]
fn what_has_no_answer_to_come_is_passed_on_once() {
    let mut proxy = Proxy::new();
    proxy.handle("m", async |message: &mut Message| {
        assert_eq!(message.next().await.unwrap_err().raw, "null");
        message.pass();
        message.answer("1");
    });
    check(&mut proxy, &[r#"p{"method":"m"}"#], &[r#"s{"method":"m"}"#]);
    let refusal =
        r#"c{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"Method not found"}}"#;
    check(&mut proxy, &[r#"c{"method":"m","id":3}"#], &[refusal]);
}

#[test]
fn a_request_is_answered_once() {
    let mut proxy = Proxy::new();
    proxy.handle("m", async |message: &mut Message| {
        let answer = message.next().await;
        assert_eq!(answer.unwrap_err().code(), Some(-5));
        assert!(message.next().await.is_err());
        message.answer("true");
        message.fail(1, "late");
    });
    check(
        &mut proxy,
        &[r#"p{"id":1,"method":"m"}"#],
        &[r#"s{"id":1,"method":"m"}"#],
    );
    let error = r#"s{"id":1,"error":{"code":-5,"message":"x"}}"#;
    check(
        &mut proxy,
        &[error],
        &[r#"p{"jsonrpc":"2.0","id":1,"result":true}"#],
    );
    check(
        &mut proxy,
        &[error],
        &[r#"p{"id":1,"error":{"code":-5,"message":"x"}}"#],
    );
}

/// Polls two futures until both are ready, as `join` of other libraries does.
async fn both<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> (T, T) {
    let (mut one, mut other) = (Box::pin(one), Box::pin(other));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(move |context| {
        use std::task::Poll;
        if first.is_none() {
            if let Poll::Ready(value) = one.as_mut().poll(context) {
                first = Some(value);
            }
        }
        if second.is_none() {
            if let Poll::Ready(value) = other.as_mut().poll(context) {
                second = Some(value);
            }
        }
        if first.is_none() || second.is_none() {
            return Poll::Pending;
        }
        Poll::Ready((first.take().unwrap(), second.take().unwrap()))
    })
    .await
}

#[test]
fn a_handler_may_wait_for_several_answers() {
    let mut proxy = Proxy::new();
    proxy.handle("m", async |message: &mut Message| {
        let read = message.ask(Side::Client, "r", Some("{}"));
        let (read, now) = both(read, message.clock()).await;
        message.set(&["v"], &[read.unwrap(), now.unwrap()].concat());
    });
    let asked = [
        r#"p{"jsonrpc":"2.0","id":"x1","method":"r","params":{}}"#,
        r#"c{"jsonrpc":"2.0","id":1,"method":"clock"}"#,
    ];
    check(
        &mut proxy,
        &[r#"p{"id":1,"method":"m","params":{"v":0}}"#],
        &asked,
    );
    check(&mut proxy, &[r#"c{"id":1,"result":2}"#], &[]);
    let said = r#"s{"id":1,"method":"m","params":{"v":12}}"#;
    check(&mut proxy, &[r#"p{"id":"x1","result":1}"#], &[said]);
}

#[test]
fn an_answer_that_nobody_waits_for_any_more() {
    let mut proxy = Proxy::new();
    proxy.handle("m", async |message: &mut Message| {
        let (mut left, mut done) = (Box::pin(message.clock()), Box::pin(message.clock()));
        std::future::poll_fn(|context| {
            let _ = left.as_mut().poll(context);
            done.as_mut().poll(context)
        })
        .await
        .unwrap();
    });
    let asked: Vec<_> = [1, 2]
        .map(|id| format!(r#"c{{"jsonrpc":"2.0","id":{id},"method":"clock"}}"#))
        .into();
    let asked: Vec<_> = asked.iter().map(String::as_str).collect();
    check(&mut proxy, &[r#"p{"id":1,"method":"m"}"#], &asked);
    check(
        &mut proxy,
        &[r#"c{"id":2,"result":0}"#],
        &[r#"s{"id":1,"method":"m"}"#],
    );
    check(&mut proxy, &[r#"c{"id":1,"result":0}"#], &[]);
}

#[test]
fn a_request_that_a_handler_left_is_answered_all_the_same() {
    let mut proxy = Proxy::new();
    proxy.handle("m", async |message: &mut Message| {
        let mut next = Box::pin(message.next());
        std::future::poll_fn(|context| {
            assert!(next.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    });
    check(
        &mut proxy,
        &[r#"p{"id":1,"method":"m"}"#],
        &[r#"s{"id":1,"method":"m"}"#],
    );
    check(
        &mut proxy,
        &[r#"s{"id":1,"result":0}"#],
        &[r#"p{"id":1,"result":0}"#],
    );
}

#[test]
#[should_panic(expected = "not of this library")]
fn a_handler_that_would_never_go_on_is_told_of() {
    let mut proxy = Proxy::new();
    proxy.handle("m", async |_: &mut Message| std::future::pending().await);
    proxy.deliver(b"p{\"id\":1,\"method\":\"m\"}\n");
}

#[test]
fn newlines_in_what_an_author_writes_end_no_message() {
    let mut proxy = Proxy::new();
    proxy.handle("m", async |message: &mut Message| {
        message.notify(Side::Client, "n", "{\n}");
        message.set(&["v"], "[\n1]");
        message.prepend(&["v"], "{\n}");
        let raw = message.raw(&["v"]).unwrap_or_default().replace(',', "\n,");
        let answer = message.ask(Side::Conductor, "a", Some(&raw)).await;
        message.answer(&answer.unwrap().replace(' ', "\n"));
    });
    let said = [
        r#"p{"jsonrpc":"2.0","method":"n","params":{ }}"#,
        r#"c{"jsonrpc":"2.0","id":1,"method":"a","params":[{ } , 1]}"#,
    ];
    let given = r#"p{"params":{"w":1,"v":0},"id":1,"method":"m"}"#;
    check(&mut proxy, &[given], &said);
    let answer = r#"p{"jsonrpc":"2.0","id":1,"result":[ 2]}"#;
    check(&mut proxy, &[r#"c{"id":1,"result":[ 2]}"#], &[answer]);
}

#[test]
fn settings_and_updates() {
    let mut proxy = Proxy::new();
    proxy.handle("configure", async |message: &mut Message| {
        let word = message.setting("word").unwrap_or_default();
        message.log("info", &word);
    });
    proxy.handle("session/update", async |message: &mut Message| {
        message.prepend(&["list"], "0");
    });
    proxy.update("plan", async |message: &mut Message| {
        assert_eq!((message.side(), message.id()), (Side::Agent, None));
        message.set_text(&["update", "x"], &text("a"));
    });
    let log = r#"c{"jsonrpc":"2.0","method":"log","params":{"level":"info","message":"\"hi\""}}"#;
    check(
        &mut proxy,
        &[r#"c{"method":"configure","params":{"config":{"word":"hi"}}}"#],
        &[log],
    );
    let update = |inner: &str, list: &str| {
        let update = format!(r#""update":{{"sessionUpdate":{inner}}}"#);
        format!(r#"{{"method":"session/update","params":{{{update},"list":{list}}}}}"#)
    };
    for (given, expected) in [
        (update(r#""other""#, "[ 1]"), update(r#""other""#, "[0, 1]")),
        (update(r#""other""#, "{}"), update(r#""other""#, "{}")),
        (
            update(r#""pl\u0061n","x":1"#, "[1]"),
            update(
                r#""pl\u0061n","x":"{\"type\":\"text\",\"text\":\"a\"}""#,
                "[1]",
            ),
        ),
    ] {
        check(
            &mut proxy,
            &[&format!("s{given}")],
            &[&format!("p{expected}")],
        );
    }
}
