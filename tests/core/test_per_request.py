"""Filters that are functions of a request: what does not name a user is refused."""

from __future__ import annotations

import numpy as np
import pytest

from graphrag_core.errors import InputError
from graphrag_core.filters import parse
from graphrag_core.query.per_request import per_request


@pytest.mark.parametrize(
    "found",
    [
        None, {}, "ada", ["ada"], 7, {"user": None}, {"user": ""}, {"user": " "}, {"user": []}, {"user": {}},
        {"user": [None]}, {"user": {"$eq": None}}, {"user": {"in": []}}, {"user": {"in": ["ada", None]}},
        {"user": np.array([])}, {"or": [{"user": "ada"}, {"user": None}]}, parse({"user": None}),
        {"user": "ada", "team": None},
    ],
)  # fmt: skip
def test_what_does_not_name_a_user_is_refused(found):
    with pytest.raises(InputError, match=r"the function for filter of the agent returned .* names the user"):
        per_request(lambda _: found, "filter of the agent")(None)


@pytest.mark.parametrize(
    "found",
    [
        {"user": "ada"}, {"user": 7}, {"user": False}, {"user": {"in": ["ada", "all"]}}, parse({"user": "ada"}),
        {"or": [{"user": "ada"}, {"shared": True}]},
    ],
)  # fmt: skip
def test_what_names_a_user_is_a_filter(found):
    assert per_request(lambda _: found, "filter of the agent")(None) == parse(found)


def test_a_request_that_lacks_the_user_is_refused_and_other_errors_reach_the_caller():
    of_user = per_request(lambda request: {"user": request["user"]}, "filter of the agent")
    for request in ({}, None, "ada"):
        with pytest.raises(InputError, match=r"the function for filter of the agent failed with .* names the user"):
            of_user(request)

    def unreachable(_):
        raise ConnectionError("the database of users is down")

    with pytest.raises(ConnectionError):
        per_request(unreachable, "filter of the agent")(None)
