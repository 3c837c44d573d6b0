"""The router's knowledge of a guest."""

from pathlib import Path

from conductor.run import guest_module
from conductor.run.segment_spec import guest_spec
from conductor.spec import catalog

NONE = b'{"name":"x","config":{},"grants":[],"limits":{}}'


def test_no_module_of_a_stranger_is_compiled_by_the_baseline_compiler(tmp_path: Path) -> None:
    spec = guest_spec(catalog.resolve("passthrough"), NONE)
    module = guest_module.load(spec, str(tmp_path / "modules"), baseline=True)
    assert (module.baseline, module.cache_report) == (False, "stored")
