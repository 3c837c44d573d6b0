"""How wasmtime is called: through its C interface, or its public Python interface."""
