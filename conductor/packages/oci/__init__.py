"""Components in OCI registries: `oci://HOST[:PORT]/NAME:TAG` or `…@sha256:HEX`.

    reference   how a component in a registry is written
    artifact    manifests: those that a component may have, ours, and their content (pure)
    credentials the user's logins
    transport   one request, with the login where it belongs
    registry    the distribution API: manifests, blobs, referrers
    source      a component out of a registry, each byte compared with its digest
    publish     a component into a registry

A registry is a stranger: its answers count only after their bytes have been compared with a
digest, and a tag is asked for once.
"""
