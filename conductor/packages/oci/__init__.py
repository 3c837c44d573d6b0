"""Components in OCI registries: `oci://HOST[:PORT]/NAME:TAG` or `…@sha256:HEX`.

    reference   how a component in a registry is written
    artifact    manifests: which a component may have, which ours have, what lies in them (pure)
    credentials what the user is logged in with
    transport   one request, with the login where it belongs
    registry    what the distribution API offers: manifests, blobs, referrers
    source      a component out of a registry, each byte compared with its digest
    publish     a component into a registry

A registry is a stranger: what it answers counts only after its bytes have been compared with a
digest, and a tag is asked for once.
"""
