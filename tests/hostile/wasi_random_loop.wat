;; Asks for random bytes for ever: all its time passes in the host.
(module
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (memory (export "memory") 32)
  (func (export "_start")
    (loop $again
      (drop (call $random_get (i32.const 0) (i32.const 1048576)))
      (br $again))))
