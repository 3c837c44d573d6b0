;; Asks about 1,024 subscriptions for ever.
(module
  (import "wasi_snapshot_preview1" "poll_oneoff"
    (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 8)
  (func (export "_start")
    (loop $again
      (drop (call $poll (i32.const 0) (i32.const 131072) (i32.const 1024) (i32.const 300000)))
      (br $again))))
