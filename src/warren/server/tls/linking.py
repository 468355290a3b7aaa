"""Why two nodes cannot link as far as TLS is concerned, for the one that asks."""

from __future__ import annotations

import ssl

from warren.server.tls.sides import LINKS_KEY


def mismatch(node: str, is_theirs: bool, is_ours: bool) -> str | None:
    """None if both speak TLS on their links, or neither."""
    if is_theirs == is_ours:
        return None
    speaks, silent = (f"node '{node}'", "this one") if is_theirs else ("this node", f"'{node}'")
    return (
        f"{speaks} speaks TLS on its links and {silent} does not: "
        f"all nodes of a cluster need {LINKS_KEY}, or none"
    )


def explain_asking(node: str, error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of node '{node}' is refused: {error.verify_message}"
    reason = (getattr(error, "reason", None) or str(error)).lower().replace("_", " ")
    return f"node '{node}' does not accept this one: {reason}"
