"""Refusal of changes that a page of another site makes a browser send, by the rules of CORS and of fetch metadata.

A browser adds its stored credentials to a form, or a text, that any page sends here. It names the site in Origin and,
if it can, in Sec-Fetch-Site; a page can set neither. Other programs send neither.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers

from broker.management.responses import Problem

OWN = ("same-origin", "none")
"""Values of Sec-Fetch-Site for this site's own page, and for an address that a person has typed."""


def assert_same_site(headers: Headers, allowed: Collection[str]) -> None:
    """Raise Problem 403 for a change that a page of another site asks for, unless its origin is `allowed`.

    Sec-Fetch-Site takes precedence: behind a proxy the browser's name for this site may differ from Host.
    """
    origin, site = headers.get("origin", ""), headers.get("sec-fetch-site")
    if "*" in allowed or origin in allowed or site in OWN:
        return
    own = not origin or origin.partition("://")[2] == headers.get("host")
    if site is not None or not own:
        raise Problem(403, "forbidden", "a change that another site's page asks for (management.cors_allow_origins)")
