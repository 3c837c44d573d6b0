;; A fine module that is no guest.
(module (memory (export "memory") 1) (func (export "add") (param i32 i32) (result i32) (i32.const 0)))
