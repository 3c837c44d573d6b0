;; Returns all of a large memory.
(module
  (memory (export "memory") 2)
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
  (func (export "channel_deliver") (param $at i32) (param $size i32) (result i64)
    (drop (memory.grow (i32.const 1000)))
    (i64.const 60000000)))
