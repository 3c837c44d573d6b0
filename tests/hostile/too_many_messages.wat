;; Returns 200,000 lines.
(module
  (memory (export "memory") 2)
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
  (func (export "channel_deliver") (param $at i32) (param $size i32) (result i64)
    (local $to i32)
    (drop (memory.grow (i32.const 16)))
    (loop $more
      (i32.store8 (local.get $to) (i32.const 0x70))
      (i32.store8 offset=1 (local.get $to) (i32.const 0x31))
      (i32.store8 offset=2 (local.get $to) (i32.const 0x0a))
      (local.set $to (i32.add (local.get $to) (i32.const 3)))
      (br_if $more (i32.lt_u (local.get $to) (i32.const 600000))))
    (i64.const 600000)))
