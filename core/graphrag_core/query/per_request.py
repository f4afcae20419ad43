"""Filters of agents: values, or functions of the request if one agent serves all users.

A request whose function does not name a user is refused: an empty filter would find what belongs to everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from typing import Any

from graphrag_core.errors import InputError
from graphrag_core.filters import Condition, Filter, Group, Not, Where, conditions, parse, parse_all

OfRequest = Callable[[Any], Where]
"""Returns the filter of a request. What a request is, the adapter says."""

_ADVICE = "it has to return a mapping that names the user, such as {'user': 'ada'}; pass the user with the request"


def per_request(where: Where | OfRequest | None, name: str) -> Callable[[Any], Filter | None]:
    """Return a function from a request to its filter.

    Parameters
    ----------
    where
        A filter, which is read once, now; or an :data:`OfRequest`, which is called for each request.
    name
        What is given, for errors.

    Raises
    ------
    InputError
        By the function that is returned: the user's function failed because the request lacks something, returned
        nothing, or returned a filter with a value that is None, blank or empty.

    Examples
    --------
    >>> of_user = per_request(lambda request: {"user": request.get("user")}, "filter of the agent")
    >>> of_user({"user": "ada"})
    Condition(key='user', operator='eq', values=(('text', 'ada'),))
    >>> of_user({})
    Traceback (most recent call last):
        ...
    graphrag_core.errors.InputError: the function for filter of the agent returned {'user': None}: it has to return a
    mapping that names the user, such as {'user': 'ada'}; pass the user with the request
    """
    if not callable(where):
        value = parse_all(where)
        return lambda _: value

    def of_request(request: Any) -> Filter | None:
        try:
            found = where(request)
        except (AttributeError, LookupError, TypeError) as error:
            raise InputError(f"the function for {name} failed with {error!r:.80}: {_ADVICE}") from error
        if not _names_user(found):
            raise InputError(f"the function for {name} returned {found!r:.80}: {_ADVICE}")
        return parse(found)

    return of_request


def _names_user(found: Any) -> bool:
    """Return whether a filter is not empty, and no value in it is."""
    if isinstance(found, (Condition, Not, Group)):
        return not any(
            value == "" for condition in conditions(found) for _, value in condition.values
        )  # "" is null, too
    return isinstance(found, Mapping) and not _is_empty(found)


def _is_empty(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    if value is None or (isinstance(value, Sized) and len(value) == 0):
        return True
    parts = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, (Mapping, list, tuple, set, frozenset)) and any(map(_is_empty, parts))
