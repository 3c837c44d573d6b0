"""Names and signatures of WASI preview 1, the only module a core guest may import from."""

from __future__ import annotations

PREVIEW1_MODULES = frozenset(("wasi_snapshot_preview1",))
"""Not `wasi_unstable`: its structures have other layouts and no toolchain emits it now."""

_BY_SHAPE = {
    "(i32) -> i32": "fd_close fd_datasync fd_sync proc_raise",
    "(i32, i32) -> i32": "args_get args_sizes_get clock_res_get environ_get environ_sizes_get "
    "fd_fdstat_get fd_fdstat_set_flags fd_filestat_get fd_prestat_get fd_renumber fd_tell "
    "random_get sock_shutdown",
    "(i32, i32, i32) -> i32": "fd_prestat_dir_name path_create_directory path_remove_directory "
    "path_unlink_file sock_accept",
    "(i32, i64) -> i32": "fd_filestat_set_size",
    "(i32, i64, i32) -> i32": "clock_time_get",
    "(i32, i64, i64) -> i32": "fd_allocate fd_fdstat_set_rights",
    "(i32, i64, i64, i32) -> i32": "fd_advise fd_filestat_set_times",
    "(i32, i64, i32, i32) -> i32": "fd_seek",
    "(i32, i32, i32, i32) -> i32": "fd_read fd_write poll_oneoff",
    "(i32, i32, i32, i64, i32) -> i32": "fd_pread fd_pwrite fd_readdir",
    "(i32, i32, i32, i32, i32) -> i32": "path_filestat_get path_symlink sock_send",
    "(i32, i32, i32, i32, i32, i32) -> i32": "path_readlink path_rename sock_recv",
    "(i32, i32, i32, i32, i32, i32, i32) -> i32": "path_link",
    "(i32, i32, i32, i32, i64, i64, i32) -> i32": "path_filestat_set_times",
    "(i32, i32, i32, i32, i32, i64, i64, i32, i32) -> i32": "path_open",
    "() -> i32": "sched_yield",
    "(i32)": "proc_exit",
}

PREVIEW1_SIGNATURES = {
    name: signature for signature, names in _BY_SHAPE.items() for name in names.split()
}
"""Function name -> signature as `wasm_host.binary` writes it."""
