"""Changes that a page of another site has a browser ask for: refused, by the rules of CORS and of fetch metadata.

A browser adds the credentials that it has to a form, or a text, that any page sends here. It says which site it was:
in Origin and, where it can, in Sec-Fetch-Site, neither of which a page can set. Other programs send neither.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers

from broker.management.responses import Problem

OWN = ("same-origin", "none")
"""What Sec-Fetch-Site says of this site's own page, and of a person who types an address."""


def assert_same_site(headers: Headers, allowed: Collection[str]) -> None:
    """Let a change be asked for by no page of another site, but those of `allowed` origins. Raises Problem 403.

    Sec-Fetch-Site comes first: behind a proxy the site's name for a browser may be another one than that in Host.
    """
    origin, site = headers.get("origin", ""), headers.get("sec-fetch-site")
    if "*" in allowed or origin in allowed or site in OWN:
        return
    own = not origin or origin.partition("://")[2] == headers.get("host")
    if site is not None or not own:
        raise Problem(403, "forbidden", "a change that another site's page asks for (management.cors_allow_origins)")
