;; The pass-through guest: flips the side of p and s lines, drops c lines.
(module
  (memory (export "memory") 2)
  (global $buffer i32 (i32.const 65536))
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param $len i32) (result i32)
    (local $pages i32)
    (local.set $pages (i32.shr_u
      (i32.add (i32.add (global.get $buffer) (local.get $len)) (i32.const 65535))
      (i32.const 16)))
    (if (i32.gt_u (local.get $pages) (memory.size)) (then
      (if (i32.eq (memory.grow (i32.sub (local.get $pages) (memory.size))) (i32.const -1))
        (then unreachable))))
    (global.get $buffer))
  (func (export "channel_deliver") (param $from i32) (param $len i32) (result i64)
    (local $end i32) (local $to i32) (local $byte i32) (local $fresh i32) (local $keep i32)
    (local.set $end (i32.add (local.get $from) (local.get $len)))
    (local.set $to (local.get $from))
    (local.set $fresh (i32.const 1))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $from) (local.get $end)))
        (local.set $byte (i32.load8_u (local.get $from)))
        (if (local.get $fresh) (then
          (local.set $keep (i32.ne (local.get $byte) (i32.const 99)))
          ;; x is the first byte of a line that tests traps.
          (if (i32.eq (local.get $byte) (i32.const 120)) (then unreachable))
          ;; p is 112, s is 115: each is 227 less the other.
          (local.set $byte (i32.sub (i32.const 227) (local.get $byte)))))
        (if (local.get $keep) (then
          (i32.store8 (local.get $to) (local.get $byte))
          (local.set $to (i32.add (local.get $to) (i32.const 1)))))
        (local.set $fresh (i32.and (i32.eqz (local.get $fresh))
          (i32.eq (local.get $byte) (i32.const 10))))
        (local.set $from (i32.add (local.get $from) (i32.const 1)))
        (br $next)))
    (i64.or
      (i64.shl (i64.extend_i32_u (global.get $buffer)) (i64.const 32))
      (i64.extend_i32_u (i32.sub (local.get $to) (global.get $buffer))))))
