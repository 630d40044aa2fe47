"""Errors of the server, which all have one form:

{"error": {"code": "invalid", "message": "k: ...", "fields": [{"field": "k", ...}]}}
"""

from http import HTTPStatus

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from solar_tf.errors import UserError


class Refusal(HTTPException):
    """A status, a word for programs and a sentence for people."""

    def __init__(self, status, code, message, fields=(), retry_after=None):
        super().__init__(status, message)
        self.code, self.fields = code, fields
        headers = {"retry-after": str(retry_after)} if retry_after else {}
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        self.headers = headers

    def response(self):
        content = {"code": self.code, "message": self.detail}
        if self.fields:
            content["fields"] = self.fields
        return JSONResponse({"error": content}, self.status_code, self.headers)


def refusal_of(error):
    """Any exception as a Refusal: status 500 unless the client is at fault."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, RequestValidationError):
        fields = [_field(item) for item in error.errors()[:20]]
        message = "; ".join(f"{item['field']}: {item['message']}" for item in fields[:3])
        return Refusal(422, "invalid", message, fields)
    if isinstance(error, HTTPException):
        code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
        refusal = Refusal(error.status_code, code, str(error.detail))
        refusal.headers |= error.headers or {}  # such as the allowed methods
        return refusal
    if isinstance(error, UserError):
        return Refusal(422, "invalid", str(error))
    return Refusal(500, "internal", "the server failed; its log says why")


def _field(item):
    """Where and why, without the value, which may not even be text."""
    place = [str(part) for part in item["loc"] if part not in ("query", "path", "body")]
    field = ".".join(place)[:100].encode("ascii", "replace").decode() or "body"
    return {"field": field, "message": item["msg"].encode("ascii", "replace").decode()}


def _methods(app, scope):
    """All methods of the routes that have this path."""
    fitting = (route for route in app.routes if route.matches(scope)[0] != Match.NONE)
    return {method for route in fitting for method in getattr(route, "methods", None) or ()}


def install(app):
    """Answer with refusals wherever FastAPI would answer in a form of its own."""

    async def answer(request, error):
        refusal = refusal_of(error)
        if refusal.status_code == 405:  # the framework names the methods of one route only
            refusal.headers["allow"] = ", ".join(sorted(_methods(app, request.scope)))
        return refusal.response()

    for kind in (HTTPException, RequestValidationError, UserError, Exception):
        app.add_exception_handler(kind, answer)
