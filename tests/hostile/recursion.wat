;; Calls itself until its stack is used up.
(module
  (memory (export "memory") 2)
  (func $deeper (param i64) (result i64)
    (i64.add (i64.const 1) (call $deeper (i64.add (local.get 0) (i64.const 1)))))
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
  (func (export "channel_deliver") (param $at i32) (param $size i32) (result i64)
    (call $deeper (i64.const 1))))
