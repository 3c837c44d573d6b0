;; A guest that answers the first line from `p` of each delivery with an error.
(module
  (memory (export "memory") 512)
  (data (i32.const 16) ",\"error\":{\"code\":-32602,\"message\":\"the setting `speed` must be a number\"}}")
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
  (func (export "channel_deliver") (param $from i32) (param $len i32) (result i64)
    (local $at i32) (local $end i32)
    (local.set $end (i32.add (local.get $from) (local.get $len)))
    (loop $line
      (if (i32.ge_u (local.get $from) (local.get $end)) (then (return (i64.const 0))))
      (if (i32.ne (i32.load8_u (local.get $from)) (i32.const 112)) (then
        (loop $byte
          (local.set $from (i32.add (local.get $from) (i32.const 1)))
          (br_if $byte
            (i32.ne (i32.load8_u (i32.sub (local.get $from) (i32.const 1))) (i32.const 10))))
        (br $line))))
    ;; `p{"jsonrpc":"2.0","id":` has 23 bytes; behind the id a comma stands.
    (local.set $at (i32.add (local.get $from) (i32.const 23)))
    (loop $id
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $id (i32.ne (i32.load8_u (local.get $at)) (i32.const 44))))
    (memory.copy (local.get $at) (i32.const 16) (i32.const 74))
    (i32.store8 (i32.add (local.get $at) (i32.const 74)) (i32.const 10))
    (i64.or
      (i64.shl (i64.extend_i32_u (local.get $from)) (i64.const 32))
      (i64.extend_i32_u (i32.sub (i32.add (local.get $at) (i32.const 75)) (local.get $from))))))
