;; Has half of the ABI, one half of that with another signature.
(module
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_deliver") (param i32 i32) (result i32) (i32.const 0)))
