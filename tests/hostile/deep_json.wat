;; Returns 60,000 nested arrays.
(module
  (memory (export "memory") 2)
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
  (func (export "channel_deliver") (param $at i32) (param $size i32) (result i64)
    (memory.fill (i32.const 1) (i32.const 91) (i32.const 60000))
    (memory.fill (i32.const 60001) (i32.const 93) (i32.const 60000))
    (i32.store8 (i32.const 0) (i32.const 112))
    (i32.store8 (i32.const 120001) (i32.const 10))
    (i64.const 120002)))
