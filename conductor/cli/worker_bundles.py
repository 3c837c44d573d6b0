"""The chains of a worker that takes its configuration from bundles (docs/remote.md#a-fleet)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conductor.cli import bundled
from conductor.errors import UsageError
from conductor.fleet import bundle as bundles
from conductor.fleet.bundle_cache import BundleCache
from conductor.spec import managed

if TYPE_CHECKING:
    from conductor.cli.serving import Wanted


class Bundles:
    """The source of a worker's chains.

    Attributes:
        keys: The files of public keys, one of which has signed each bundle.
        follows: Whether it takes the bundle of its pool; else it takes one bundle.
        name: The bundle that new chains start from, by its digest.
    """

    def __init__(self, bundle: str, keys: Sequence[str], values: Mapping[str, Any]) -> None:
        """`values`: the other options of the worker. Raises `UsageError`."""
        self.keys = [*keys]
        self._trusted = bundles.keys_of(keys)  # a key that cannot be used is reported first
        self.follows = not bundle
        self.name = ""
        self._where, self._values = bundles.parse(bundle), values
        if bundle and not (self._where.is_folder or self._where.digest):
            raise UsageError(
                f"`--bundle {bundle}` does not say which bundle it is: a tag may move",
                "`conductor fleet check` shows the reference with `@sha256:`; write this reference",
            )
        self._folder = ""
        self._before = self._folder, managed.brought()

    @classmethod
    def of(cls, typed: Sequence[object], values: dict[str, Any]) -> Bundles | None:
        """Takes its options out of the values; None: the worker takes no bundles. Raises
        `UsageError`."""
        bundle, keys = values.pop("bundle", ""), values.pop("bundle_key", ())
        if not keys:
            return None
        if typed or "chain" in values:
            raise UsageError(
                "a worker takes its chains from the command line, or from a bundle, not from both",
                f"leave out {'the components' if typed else '`--chain`'}, or `--bundle-key`",
            )
        for word in values.get("c", ()):
            if not word.startswith("serve."):
                raise UsageError(
                    f"`-c {word.partition('=')[0]}`: a bundle says how its chains run",
                    "leave it out; `-c serve.KEY=VALUE` sets options of the worker",
                )
        return cls(bundle, keys, values)

    def wanted(self) -> Wanted:
        """The chains to serve now: of the bundle, or of the folder that `use` has set. Raises
        `ConductorError`."""
        if self.follows or (self._folder and self._where.digest):
            return self.use(self._folder)  # another bundle would have another name
        opened = BundleCache().opened(self._where, self._trusted)
        wanted = self.use(opened.folder)
        self.name = opened.name
        return wanted

    def use(self, folder: str) -> Wanted:
        """The chains to serve of the bundle in a folder; none: nothing yet. The bundle takes the
        place of the former one, unless `undo` is called. Raises `ConductorError`."""
        from conductor.cli.serve import in_file
        from conductor.cli.serving import Wanted

        self._before = self._folder, managed.brought()
        if not folder:
            return Wanted(in_file("fleet worker", self._values, None), {})
        found = bundled.Bundled.of(folder)
        settings = in_file("fleet worker", self._values, found.only)
        wanted = Wanted(settings, found.take(), found.only)
        self._folder = folder
        return wanted

    def undo(self) -> None:
        """The chains that `use` has returned are not served: the bundle before holds."""
        self._folder, policy = self._before
        managed.bring(policy)
