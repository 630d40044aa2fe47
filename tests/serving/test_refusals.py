"""Errors have one form, whoever raises them."""

import json

from starlette.exceptions import HTTPException

from solar_tf.errors import UserError
from solar_tf.serving.refusals import Refusal, refusal_of


def content(error):
    response = refusal_of(error).response()
    return response.status_code, json.loads(response.body)["error"]


def test_a_users_mistake_is_422_and_a_fault_of_the_server_tells_nothing():
    assert content(UserError("k=0: too few")) == (
        422,
        {"code": "invalid", "message": "k=0: too few"},
    )
    status, error = content(RuntimeError("/home/secret"))
    assert status == 500 and error["code"] == "internal" and "secret" not in error["message"]


def test_what_the_framework_raises_gets_the_same_form():
    assert content(HTTPException(404)) == (404, {"code": "not_found", "message": "Not Found"})


def test_a_refusal_says_when_to_come_again_and_how_to_log_in():
    assert Refusal(429, "slow", "slower", retry_after=3).response().headers["retry-after"] == "3"
    assert Refusal(401, "token", "token").response().headers["www-authenticate"] == "Bearer"
