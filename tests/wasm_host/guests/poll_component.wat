;; Polls two pollables in one call, and answers how many of them are ready.
(component
  (import "wasi:io/poll@0.2.0" (instance $poll
    (export "pollable" (type $pollable (sub resource)))
    (type $borrow (borrow $pollable))
    (type $lent (list $borrow))
    (type $ready (list u32))
    (export "poll" (func (param "in" $lent) (result $ready)))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer 1 $pollable (type $outer))
    (export "pollable" (type $pollable (eq $outer)))
    (type $own (own $pollable))
    (export "subscribe-duration" (func (param "when" u64) (result $own)))))
  (core module $store
    (memory (export "memory") 1)
    (global $free (mut i32) (i32.const 1024))
    (func (export "realloc") (param i32 i32 i32) (param $size i32) (result i32)
      (global.get $free)
      (global.set $free (i32.and
        (i32.add (global.get $free) (i32.add (local.get $size) (i32.const 7)))
        (i32.const -8)))))
  (core instance $store (instantiate $store))
  (core func $poll (canon lower (func $poll "poll")
    (memory (core memory $store "memory")) (realloc (core func $store "realloc"))))
  (core func $subscribe (canon lower (func $clock "subscribe-duration")))
  (core module $main
    (import "store" "memory" (memory 1))
    (import "host" "poll" (func $poll (param i32 i32 i32)))
    (import "host" "subscribe" (func $subscribe (param i64) (result i32)))
    (func (export "deliver") (param i32 i32) (result i32)
      (i32.store (i32.const 64) (call $subscribe (i64.const 1)))
      (i32.store (i32.const 68) (call $subscribe (i64.const 1)))
      (call $poll (i32.const 64) (i32.const 2) (i32.const 32))
      ;; The line at 48 is `s`, the number of ready pollables and a newline.
      (i32.store (i32.const 48) (i32.const 0x0a3073))
      (i32.store8 (i32.const 49) (i32.add (i32.const 48) (i32.load (i32.const 36))))
      (i32.store (i32.const 16) (i32.const 48))
      (i32.store (i32.const 20) (i32.const 3))
      (i32.const 16)))
  (core instance $main (instantiate $main
    (with "store" (instance $store))
    (with "host" (instance (export "poll" (func $poll)) (export "subscribe" (func $subscribe))))))
  (func $deliver (param "lines" string) (result string) (canon lift (core func $main "deliver")
    (memory (core memory $store "memory")) (realloc (core func $store "realloc"))))
  (instance $channel (export "deliver" (func $deliver)))
  (export "conductor:channel/channel@1.0.0" (instance $channel)))
