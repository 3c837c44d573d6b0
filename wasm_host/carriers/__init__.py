"""How a module speaks the channel: as a core module, a component or a WASI command."""
