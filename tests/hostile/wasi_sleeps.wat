;; Sleeps for a second, again and again.
(module
  (import "wasi_snapshot_preview1" "poll_oneoff"
    (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    ;; One subscription at 0: a relative time on the monotonic clock.
    (i32.store (i32.const 16) (i32.const 1))
    (i64.store (i32.const 24) (i64.const 1000000000))
    (loop $again
      (drop (call $poll (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 2048)))
      (br $again))))
