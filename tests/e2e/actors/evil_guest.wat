;; E of the rig as a guest: it passes everything on, unless a line tells it what to do instead.
;;
;; A line that holds `@@`, the side byte it came in by, hex digits and `@@` makes it say what the
;; digits stand for, in which byte 1 is the line's id, byte 2 the line itself, passed on with its
;; newline, and byte 3 the order from `@@` to `@@`. A line that holds `"rule":"` is an error for something it tried: it tells the client
;; by `_evil/told` if $tells. So attacks are a table in a test, and the guest knows none.
(module
  (memory (export "memory") 512)
  (global $tells i32 (i32.const TELLS))
  (global $outbox i32 (i32.const 16777216))
  (global $to (mut i32) (i32.const 0))
  (data (i32.const 16) "\"id\":")
  (data (i32.const 32) "\"rule\":\"")
  (data (i32.const 128) "\"user_message\"")
  (data (i32.const 64) "p{\"jsonrpc\":\"2.0\",\"method\":\"_evil/told\",\"params\":{\"error\":")
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param $len i32) (result i32)
    (if (i32.gt_u (local.get $len) (i32.const 16711680)) (then unreachable))
    (i32.const 65536))
  (func $put (param $byte i32)
    (i32.store8 (global.get $to) (local.get $byte))
    (global.set $to (i32.add (global.get $to) (i32.const 1))))
  (func $copy (param $from i32) (param $end i32)
    (memory.copy (global.get $to) (local.get $from)
      (i32.sub (local.get $end) (local.get $from)))
    (global.set $to (i32.add (global.get $to) (i32.sub (local.get $end) (local.get $from)))))
  ;; Where the $size bytes at $what first are in a line; its end if nowhere.
  (func $find (param $at i32) (param $end i32) (param $what i32) (param $size i32) (result i32)
    (local $i i32)
    (loop $next
      (if (i32.gt_u (i32.add (local.get $at) (local.get $size)) (local.get $end))
        (then (return (local.get $end))))
      (local.set $i (i32.const 0))
      (block $differs
        (loop $same
          (br_if $differs (i32.ne
            (i32.load8_u (i32.add (local.get $at) (local.get $i)))
            (i32.load8_u (i32.add (local.get $what) (local.get $i)))))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br_if $same (i32.lt_u (local.get $i) (local.get $size))))
        (return (local.get $at)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next))
    (unreachable))
  (func $digit (param $byte i32) (result i32)
    (if (result i32) (i32.ge_u (local.get $byte) (i32.const 97))
      (then (i32.sub (local.get $byte) (i32.const 87)))
      (else (i32.sub (local.get $byte) (i32.const 48)))))
  (func $flip (param $from i32) (param $end i32)
    (call $put (i32.sub (i32.const 227) (i32.load8_u (local.get $from))))
    (call $copy (i32.add (local.get $from) (i32.const 1)) (local.get $end)))
  (func $id (param $from i32) (param $end i32) (local $byte i32)
    (local.set $from (i32.add (i32.const 5)
      (call $find (local.get $from) (local.get $end) (i32.const 16) (i32.const 5))))
    (block $done
      (loop $next
        (local.set $byte (i32.load8_u (local.get $from)))
        (br_if $done (i32.or (i32.eq (local.get $byte) (i32.const 44))
          (i32.eq (local.get $byte) (i32.const 125))))
        (call $put (local.get $byte))
        (local.set $from (i32.add (local.get $from) (i32.const 1)))
        (br $next))))
  ;; Says what the digits at $at stand for.
  (func $obey (param $at i32) (param $from i32) (param $end i32)
    (local $byte i32) (local $order i32)
    (local.set $order (i32.sub (local.get $at) (i32.const 3)))
    (block $done
      (loop $next
        (br_if $done (i32.eq (i32.load8_u (local.get $at)) (i32.const 64)))
        (local.set $byte (i32.or
          (i32.shl (call $digit (i32.load8_u (local.get $at))) (i32.const 4))
          (call $digit (i32.load8_u (i32.add (local.get $at) (i32.const 1))))))
        (if (i32.eq (local.get $byte) (i32.const 1))
          (then (call $id (local.get $from) (local.get $end)))
          (else (if (i32.eq (local.get $byte) (i32.const 2))
            (then (call $flip (local.get $from) (local.get $end)))
            (else (if (i32.eq (local.get $byte) (i32.const 3))
              (then (call $copy (local.get $order) (i32.add (i32.const 2)
                (call $find (local.get $at) (local.get $end) (i32.const 48) (i32.const 2)))))
              (else (call $put (local.get $byte))))))))
        (local.set $at (i32.add (local.get $at) (i32.const 2)))
        (br $next))))
  (func $line (param $from i32) (param $end i32) (local $side i32) (local $at i32)
    (local.set $side (i32.load8_u (local.get $from)))
    (if (i32.eq (local.get $side) (i32.const 99)) (then (return)))
    ;; What an agent says of a prompt is no order (ACP v2 repeats it).
    (if (i32.ne (local.get $end)
        (call $find (local.get $from) (local.get $end) (i32.const 128) (i32.const 14))) (then
      (call $flip (local.get $from) (local.get $end))
      (return)))
    (i32.store8 (i32.const 48) (i32.const 64))
    (i32.store8 (i32.const 49) (i32.const 64))
    (i32.store8 (i32.const 50) (local.get $side))
    (local.set $at
      (call $find (local.get $from) (local.get $end) (i32.const 48) (i32.const 3)))
    (if (i32.ne (local.get $at) (local.get $end)) (then
      (call $obey (i32.add (local.get $at) (i32.const 3)) (local.get $from) (local.get $end))
      (return)))
    (if (i32.ne (local.get $end)
        (call $find (local.get $from) (local.get $end) (i32.const 32) (i32.const 8))) (then
      (if (global.get $tells) (then
        (call $copy (i32.const 64) (i32.const 122))
        (call $copy (i32.add (local.get $from) (i32.const 1))
          (i32.sub (local.get $end) (i32.const 1)))
        (call $put (i32.const 125)) (call $put (i32.const 125)) (call $put (i32.const 10))))
      (return)))
    (call $flip (local.get $from) (local.get $end)))
  (func (export "channel_deliver") (param $from i32) (param $len i32) (result i64)
    (local $end i32) (local $at i32)
    (local.set $end (i32.add (local.get $from) (local.get $len)))
    (local.set $at (local.get $from))
    (global.set $to (global.get $outbox))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 10)) (then
          (call $line (local.get $from) (i32.add (local.get $at) (i32.const 1)))
          (local.set $from (i32.add (local.get $at) (i32.const 1)))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (i64.or
      (i64.shl (i64.extend_i32_u (global.get $outbox)) (i64.const 32))
      (i64.extend_i32_u (i32.sub (global.get $to) (global.get $outbox))))))
