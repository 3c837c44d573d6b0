;; Takes table entries until it gets no more, then traps.
(module
  (memory (export "memory") 2)
  (table $table 0 funcref)
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
  (func (export "channel_deliver") (param $at i32) (param $size i32) (result i64)
    (loop $more (br_if $more
      (i32.ne (table.grow $table (ref.null func) (i32.const 1000)) (i32.const -1))))
    (unreachable)))
