"""What to do where a search service refuses. Its own words are searched for a few codes and never repeated."""

import re

from certigraph.adapters.web.service import Service

_SPENT = re.compile(rb"not enough credits|QUOTA_LIMITED|insufficient_quota", re.IGNORECASE)
"""Serper, Brave and OpenAI, in that order; Brave names its quota's size with every refusal, so a word is not enough."""

_NO_KEY = re.compile(rb"SUBSCRIPTION_TOKEN_INVALID|invalid_api_key")
"""Brave says so with status 422."""


def is_spent(status: int, content: bytes) -> bool:
    """Whether a refusal says that the quota is spent, so that asking again is no use."""
    return status == 402 or (status < 500 and _SPENT.search(content) is not None)


def advice(service: Service, status: int, content: bytes) -> str:
    """In one line why a request was refused, as far as status and codes tell, and what to do."""
    # another one answers otherwise, so that what was done so far cannot be repeated with it
    on = f"then certigraph resume RUN, or begin anew with another provider: {service.other}"
    if is_spent(status, content):
        return f"the quota of {service.key or service.name} is spent: top it up at {service.key_page}, {on}"
    if status in (401, 403) or _NO_KEY.search(content):
        return f"{_refused(service, status)}, {on}"
    if status == 429:
        return f"it limits the rate, or the quota is spent: wait, or top it up, {on}"
    if status >= 500:
        return f"it failed itself: wait, {on}"
    return f"it takes no such request: check the provider's name and {service.variable}, {on}"


def _refused(service: Service, status: int) -> str:
    if not service.key:
        return f"add json to search.formats in its settings.yml, or the user's name and password to {service.variable}"
    # Serper answers 403 to a key that has nothing left, too
    spent = ", or its quota is spent" if status == 403 else ""
    return f"the key is refused{spent}: check {service.key} at {service.key_page}"
