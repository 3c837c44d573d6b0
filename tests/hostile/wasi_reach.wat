;; A program that reaches for files, folders, sockets and the environment. It exits with 99 if it
;; got at one of them, with 42 if all is out of reach.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file"
    (func $unlink (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get"
    (func $stat (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_accept" (func $accept (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_send"
    (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 2)
  (data (i32.const 1024) "/etc/passwd")
  (data (i32.const 2048) "out of reach: files, sockets, environment\0a")
  (func $got (param $errno i32)
    (if (i32.eqz (local.get $errno)) (then (call $exit (i32.const 99)))))
  (func $none (param $count i32)
    (if (local.get $count) (then (call $exit (i32.const 99)))))
  (func (export "_start") (local $fd i32)
    (i32.store (i32.const 0) (i32.const 4096))
    (i32.store (i32.const 4) (i32.const 4096))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (local.set $fd (i32.const 3))  ;; 0 to 2 are the channel
    (loop $each
      (call $got (call $prestat (local.get $fd) (i32.const 512)))
      (call $got (call $open (local.get $fd) (i32.const 0) (i32.const 1024) (i32.const 11)
        (i32.const 0) (i64.const -1) (i64.const -1) (i32.const 0) (i32.const 512)))
      (call $got (call $unlink (local.get $fd) (i32.const 1024) (i32.const 11)))
      (call $got (call $stat
        (local.get $fd) (i32.const 0) (i32.const 1024) (i32.const 11) (i32.const 512)))
      (call $got (call $accept (local.get $fd) (i32.const 0) (i32.const 512)))
      (call $got (call $send
        (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 512)))
      (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $fd) (i32.const 16))))
    (drop (call $environ (i32.const 600) (i32.const 604)))
    (call $none (i32.load (i32.const 600)))
    (drop (call $args (i32.const 600) (i32.const 604)))
    (call $none (i32.load (i32.const 600)))
    (i32.store (i32.const 0) (i32.const 2048))
    (i32.store (i32.const 4) (i32.const 42))
    (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))
    (call $exit (i32.const 42))
    (unreachable)))
