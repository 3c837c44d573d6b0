;; A WASI command that copies its input to its output until the input ends.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "_start")
    (loop $next
      (i32.store (i32.const 0) (i32.const 65536))
      (i32.store (i32.const 4) (i32.const 65536))
      (if (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
      (if (i32.eqz (i32.load (i32.const 8))) (then (return)))
      ;; x is the first byte of a line that tests traps.
      (if (i32.eq (i32.load8_u (i32.const 65536)) (i32.const 120)) (then unreachable))
      (i32.store (i32.const 4) (i32.load (i32.const 8)))
      (if (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
      (br $next))))
