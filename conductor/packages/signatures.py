"""Who signed a package: signatures that came with it, compared offline.

    a bundle     of sigstore: an identity, vouched for by an issuer, at a time that a log confirms
    a key        a signature by a key of the user's choice: in a bundle, of cosign, or `FILE.sig`

"Signed" alone means nothing: the signer counts. The user names an identity and its issuer, or
a key. Of a package that nobody asked about, conductor shows the identity that a bundle proves, and
the next version must have the same signer as the receipt. A signature by a key that nobody named
proves nothing.

`cryptography` and `sigstore` are extras: they are loaded where there is a signature.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from conductor import installation
from conductor.errors import ConductorError, UsageError, one_line
from conductor.packages.key_signatures import (
    NoProofError,
    by_key,
    check_named,
    check_signature,
    check_stated,
    is_keyed,
    key_of,
    keyed,
    need_cryptography,
)
from conductor.spec import signing, untrusted_files
from conductor.spec.installed import Signer

if TYPE_CHECKING:
    from sigstore.models import Bundle
    from sigstore.verify import Verifier

_NOWHERE: Final = logging.NullHandler()
_MOST_ROOT: Final = 4 * 1024 * 1024
_MOST_OFFERS: Final = 32
Kind: TypeAlias = Literal["bundle", "simple", "plain"]
BESIDE: Final[dict[str, Kind]] = {".sigstore.json": "bundle", ".sig": "plain"}
"""The endings of signatures beside a file."""


class Offer(msgspec.Struct, frozen=True):
    """A signature that came with a package. Nothing of it is believed yet."""

    kind: Kind
    """A bundle of sigstore; or, of cosign before bundles, a signature of a payload that holds a
    digest; or a signature of the bytes themselves."""
    content: bytes
    """The bundle, or the signature."""
    payload: bytes = b""
    """Of a simple signature: the bytes that it signs."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """The demanded signer of a package; empty: anybody may have signed it, or nobody."""

    identity: str = ""
    issuer: str = ""
    key: str = ""
    """A public key: DER in base64."""
    trusted_root: str = ""
    """A file with the root of a sigstore of one's own; empty: the public root, as it comes with the
    package `sigstore`."""
    is_free: bool = False
    """Whether the signer may differ from the signer of the installed component."""

    def __bool__(self) -> bool:
        return bool(self.identity or self.key)

    def __str__(self) -> str:
        signer = Signer(identity=self.identity, issuer=self.issuer)
        return str(keyed(self.key) if self.key else signer)


ANYBODY: Final = Demand()


def demand(
    signer: str = "",
    issuer: str = "",
    key: str = "",
    trusted_root: str = "",
    *,
    any_signer: bool = False,
) -> Demand:
    """The demand that the user typed: an identity with its issuer, or the file of a public key.

    With `any_signer` the signer may differ from the signer of the installed component.

    Raises:
        UsageError: One without the other, both, or a key that cannot be used.
    """
    if signer and key:
        raise UsageError(
            "a package is held to an identity or to a key, not to both", "leave out one"
        )
    if bool(signer) != bool(issuer):
        raise UsageError(
            "an identity counts only with who vouches for it",
            "--signer IDENTITY --issuer URL, as in --signer me@example.com --issuer "
            "https://accounts.google.com",
        )
    return Demand(
        identity=signer,
        issuer=issuer,
        key=key_of(key) if key else "",
        trusted_root=trusted_root,
        is_free=any_signer,
    )


def as_before(wanted: Demand, signer: Signer | None) -> Demand:
    """The demand; if it names nobody, a demand for the signer of the installed component."""
    if wanted or wanted.is_free or signer is None:
        return wanted
    return msgspec.structs.replace(
        wanted,
        identity="" if signer.key else signer.identity,
        issuer=signer.issuer,
        key=signer.key,
    )


def signer_of(content: bytes, offers: Sequence[Offer], wanted: Demand, what: str) -> Signer | None:
    """The signer of these bytes; None: nobody that can be named, and nobody was demanded.

    Args:
        content: The signed bytes: a file, or the manifest of an artifact.
        offers: The signatures that came with it.
        wanted: Who must have signed it.
        what: The package, for errors.

    Raises:
        UsageError: The demanded signer has not signed the bytes.
    """
    why: list[str] = []
    for offer in offers[:_MOST_OFFERS]:
        try:
            if (signer := _checked(content, offer, wanted)) is not None:
                return signer
        except NoProofError as error:
            why.append(one_line(error))
    if not wanted:
        return None
    reasons = "; ".join(dict.fromkeys(why)) or (
        "the signatures that come with it are of others" if offers else "it comes with no signature"
    )
    raise refused(what, str(wanted), reasons)


def refused(what: str, wanted: str, why: str) -> UsageError:
    """The error for a package that is not signed by whom it must be."""
    return UsageError(
        f"`{what}` is not signed by {wanted}: {why}",
        "nothing was installed; ask its publisher who signs it now. `--signer` and `--key` name "
        "somebody else, `--any-signer` takes it from anybody",
    )


def _checked(content: bytes, offer: Offer, wanted: Demand) -> Signer | None:
    """The signer that a signature proves; None: it is by a key, and the user named none."""
    if offer.kind == "bundle" and not is_keyed(offer.content):
        if wanted.key:
            raise NoProofError("it is signed by an identity, not by a key")
        return _of_bundle(content, offer.content, wanted)
    if not wanted.key:
        if wanted:
            raise NoProofError("it is signed by a key, not by an identity")
        return None
    need_cryptography()
    key = signing.of_text(wanted.key)
    if offer.kind == "bundle":
        by_key(content, offer.content, key)
    elif offer.kind == "simple":
        check_signature(key, offer.content, offer.payload)
        check_named(offer.payload, content)
    else:
        check_signature(key, signing.read_signature(offer.content), content)
    return keyed(wanted.key)


# -- keys ------------------------------------------------------------------------------------------


# -- identities ------------------------------------------------------------------------------------


def _of_bundle(content: bytes, bundle: bytes, wanted: Demand) -> Signer:
    """The signer of these bytes that a bundle proves."""
    try:
        from sigstore.errors import Error as SigstoreError
        from sigstore.models import Bundle
        from sigstore.verify import policy
    except ImportError:
        hint = f"`{installation.with_extra('sigstore')}`"
        if wanted:
            raise UsageError(
                "who signed it cannot be checked: `sigstore` is not installed", hint
            ) from None
        raise NoProofError(f"`sigstore` is not installed ({hint})") from None
    verifier = _verifier(wanted.trusted_root)
    try:
        read = Bundle.from_json(bundle)
        identity, issuer = _named(read)
        if wanted and (identity, issuer) != (wanted.identity, wanted.issuer):
            raise NoProofError(f"it is signed by {Signer(identity=identity, issuer=issuer)}")
        held = policy.Identity(identity=identity, issuer=issuer)
        verifier = _as_of(verifier, read)
        if read._inner.dsse_envelope is None:
            verifier.verify_artifact(content, read, held)
        else:
            kind, payload = verifier.verify_dsse(read, held)
            check_stated(kind, payload, content)
    except NoProofError:
        raise
    except (SigstoreError, ConductorError) as error:
        raise NoProofError(error) from None
    except Exception as error:  # a stranger's bundle may raise any error in a parser
        raise NoProofError(f"a bundle cannot be read: {error}") from None
    return Signer(identity=identity, issuer=issuer)


def _verifier(trusted_root: str) -> Verifier:
    """Compares bundles, without a network. Raises `UsageError` for a root that is invalid."""
    from importlib import resources
    from urllib.parse import quote

    from sigstore._internal.tuf import DEFAULT_TUF_URL
    from sigstore.models import TrustedRoot
    from sigstore.verify import Verifier

    logging.getLogger("sigstore").addHandler(_NOWHERE)  # else standard error gets its warnings
    # `Verifier.production(offline=True)` would take the root that lies in a cache.
    shipped = resources.files("sigstore._store") / quote(DEFAULT_TUF_URL, safe="")
    try:
        if trusted_root:
            untrusted_files.read(trusted_root, _MOST_ROOT)  # it is a file, and not endless
            return Verifier(trusted_root=TrustedRoot.from_file(trusted_root))
        with resources.as_file(shipped / "trusted_root.json") as path:
            return Verifier(trusted_root=TrustedRoot.from_file(str(path)))
    except OSError as error:
        shown = f"the trusted root {trusted_root or 'of `sigstore`'}"
        raise UsageError(f"{shown}: {error.strerror or error}", "check the path") from None
    except Exception as error:  # errors of pydantic, sigstore or certificates
        raise UsageError(
            f"`{trusted_root}` is no trusted root: {one_line(error)}",
            "a `trusted_root.json` of sigstore",
        ) from None


def _as_of(verifier: Verifier, bundle: Bundle) -> Verifier:
    """The verifier with the keys and authorities that its root trusts for the time of a signature:
    `sigstore` itself accepts them also beyond the end that the root gives them.

    Raises `NoProofError` if none of one kind is left.
    """
    from sigstore.models import TrustedRoot
    from sigstore.verify import Verifier

    times = [one.time for one in verifier._establish_time(bundle)]

    def counts(part: Any) -> bool:
        period = part.valid_for if hasattr(part, "valid_for") else part.public_key.valid_for
        start, end = getattr(period, "start", None), getattr(period, "end", None)
        return all((not start or start <= at) and (not end or at <= end) for at in times)

    root = verifier._trusted_root._inner
    kept = {kind: [*filter(counts, getattr(root, kind))] for kind in _DATED}
    for kind, name in _DATED.items():
        if not kept[kind]:
            text = f"the trusted root has no {name} for the time of the signature"
            raise NoProofError(f"{text}, {times[0]:%Y-%m-%d}" if times else text)
    return Verifier(trusted_root=TrustedRoot(root.model_copy(update=kept)))


_DATED: Final = {
    "certificate_authorities": "certificate authority",
    "tlogs": "log of signatures",
    "ctlogs": "log of certificates",
}
"""The parts of a trusted root that count from one time to another."""


def _named(bundle: Bundle) -> tuple[str, str]:
    """The identity in a bundle's certificate and its issuer, both still to be verified.

    Raises `NoProofError` for a certificate with no identity, with several, or with one that people
    would misread: an address or a URL is one word, and people compare it by eye.
    """
    from cryptography import x509

    extensions = bundle.signing_certificate.extensions
    try:
        names: Any = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        issuer = extensions.get_extension_for_oid(x509.ObjectIdentifier(_ISSUER)).value
    except x509.ExtensionNotFound:
        raise NoProofError("its certificate names nobody") from None
    found = [
        *names.get_values_for_type(x509.RFC822Name),
        *names.get_values_for_type(x509.UniformResourceIdentifier),
    ]
    if len(found) != 1 or not isinstance(issuer, x509.UnrecognizedExtension):
        raise NoProofError("its certificate does not name one identity")
    named = found[0], issuer.value.decode()
    if not all(map(_WORD.fullmatch, named)):
        raise NoProofError("its certificate names an identity or an issuer that is not one word")
    return named


_WORD: Final = re.compile(r"[!-~]+")
_ISSUER: Final = "1.3.6.1.4.1.57264.1.1"
"""The object identifier of the issuer in certificates of sigstore."""
