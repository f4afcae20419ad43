"""Filters and metadata of agents and their memory: values, or functions of the request for one agent of all users.

A request whose function does not name a user is refused: an empty filter would find what belongs to everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from graphrag_core.errors import InputError
from graphrag_core.filters import Condition, Group, Not, Where, attributes, conditions

OfRequest = Callable[[Any], Where]
"""Returns the filter or the metadata of a request. What a request is, the adapter says."""

_T = TypeVar("_T")
_ADVICE = "it has to return a mapping that names the user, such as {'user': 'ada'}; pass the user with the request"


def per_request(given: Any, name: str, read: Callable[[Any], _T]) -> Callable[[Any], _T]:
    """Return a function from a request to its filter or metadata.

    Parameters
    ----------
    given
        A value, which is read once, now; or an :data:`OfRequest`, which is called for each request.
    name
        What is given, for errors.
    read
        Checks a value and converts it.

    Raises
    ------
    InputError
        By the function that is returned: the user's function failed because the request lacks something, returned
        nothing, or returned a mapping with an empty value.

    Examples
    --------
    >>> of_user = per_request(lambda request: {"user": request.get("user")}, "filter of the agent", dict)
    >>> of_user({"user": "ada"})
    {'user': 'ada'}
    >>> of_user({})
    Traceback (most recent call last):
        ...
    graphrag_core.errors.InputError: the function for filter of the agent returned {'user': None}: it has to return a
    mapping that names the user, such as {'user': 'ada'}; pass the user with the request
    """
    if not callable(given):
        value = read(given)
        return lambda _: value

    def of_request(request: Any) -> _T:
        try:
            found = given(request)
        except (AttributeError, LookupError, TypeError) as error:
            raise InputError(f"the function for {name} failed with {error!r:.80}: {_ADVICE}") from error
        if not _names_user(found):
            raise InputError(f"the function for {name} returned {found!r:.80}: {_ADVICE}")
        return read(found)

    return of_request


def filter_or_metadata(where: Any, metadata: Any) -> Any:
    """Return the filter of a memory; by default its metadata, if that is a function of the request."""
    return metadata if where is None and callable(metadata) else where


def _names_user(found: Any) -> bool:
    """Return whether a filter or metadata is not empty and compares no key with nothing."""
    if isinstance(found, (Condition, Not, Group)):
        values = [value for condition in conditions(found) for _, value in condition.values]
    elif isinstance(found, Mapping) and found:
        values = [value for _, (_, value) in attributes(found)]
    else:
        return False
    return not any(isinstance(value, str) and not value.strip() for value in values)  # the value of null is ""
