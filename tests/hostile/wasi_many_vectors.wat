;; Writes 1,000 vectors that are the same 60 MiB: 60 GB, were they copied.
(module
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1000)
  (func (export "_start")
    (local $i i32)
    (loop $next
      (i32.store (i32.add (i32.const 1024) (i32.mul (local.get $i) (i32.const 8))) (i32.const 0))
      (i32.store (i32.add (i32.const 1028) (i32.mul (local.get $i) (i32.const 8)))
        (i32.const 62914560))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (i32.const 1000))))
    ;; Of standard error only the last bytes are kept.
    (if (call $fd_write (i32.const 2) (i32.const 1024) (i32.const 1000) (i32.const 0))
      (then (unreachable)))
    (drop (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 1000) (i32.const 0)))))
