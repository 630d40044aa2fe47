"""The routes of the server."""

import contextlib
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse, JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.staticfiles import StaticFiles

from solar_tf import __version__
from solar_tf.retrieval.options import SearchOptions as Options
from solar_tf.serving import refusals, schemas
from solar_tf.serving.counters import CONTENT_TYPE
from solar_tf.serving.gate import Gate

PAGE = Path(__file__).parent / "page"
DESCRIPTION = """Search among the labels of a SOLAR run. Errors have one form:
`{"error": {"code", "message", "fields"}}`. Changes need the server's token."""


def errors(*statuses):
    """The refusals of a route, for its documentation."""
    return {status: {"model": schemas.Error} for status in sorted({*statuses, 413, 422, 429})}


def create_app(service, limits, counters, hosts=None):
    """The ASGI application, behind its gate."""
    SearchOptions, SearchQuery, SearchBody, NewLabels = schemas.request_models(limits)

    @contextlib.asynccontextmanager
    async def lifespan(app):
        await service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="SOLAR search",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own page loads scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
    )
    refusals.install(app)
    bearer = HTTPBearer(auto_error=False)

    def guard(given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)] = None):
        service.check_token(given.credentials if given else None)

    guarded = {"dependencies": [Depends(guard)], "tags": ["change"]}
    Number = Annotated[int, InPath(ge=0, le=schemas.MOST)]

    async def search(texts, request, deny=()):
        deny = (*(request.deny or ()), *deny)
        options = Options(
            m=None if request.m == "full" else request.m,
            allow=None if request.allow is None else tuple(request.allow),
            deny=deny or None,
            **request.model_dump(include={"score", "min_chunks", "threshold", "where", "explain"}),
        )
        outcomes = await service.search(texts, request.k, options)
        answers, times = zip(*outcomes, strict=True)
        slowest = max(times, key=lambda spent: spent["waited"] + spent["searched"])
        ms = {name: round(1000 * slowest[name], 3) for name in ("waited", "searched")}
        content = {"answers": [vars(answer) for answer in answers]}
        return JSONResponse(content | {"ms": ms | {"batch": slowest["batch"]}})

    found = {200: {"model": schemas.Answers}}

    @app.get("/search", tags=["search"], responses=found | errors(404, 503))
    async def search_one(request: Annotated[SearchQuery, Query()]):
        """The best labels for a text."""
        return await search([request.q], request)

    @app.post("/search", tags=["search"], responses=found | errors(400, 404, 503))
    async def search_several(request: SearchBody):
        """The best labels for each of several texts."""
        return await search(request.queries, request)

    @app.get(
        "/attributes",
        tags=["search"],
        response_model=schemas.AllAttributes,
        responses=errors(),
    )
    def attributes():  # not async: in a thread, as millions of labels may be counted
        """The attributes that `where` can ask for, and their values."""
        return {"attributes": service.engine.describe_attributes()}

    @app.get(
        "/labels/{label}",
        tags=["search"],
        response_model=schemas.LabelFacts,
        responses=errors(404),
    )
    async def label(label: Number):
        """A label's title, attributes and sparse vector: one bucket in each chunk (§3.1)."""
        return service.engine.label(label)

    @app.get("/labels/{label}/neighbours", tags=["search"], responses=found | errors(404, 503))
    async def neighbours(label: Number, request: Annotated[SearchOptions, Query()]):
        """The labels that are found by a label's own title."""
        title = service.engine.title(label)
        if not title:
            raise refusals.Refusal(404, "no_title", "this label has no title to search by")
        return await search([title], request, deny=[label])

    @app.post(
        "/labels",
        **guarded,
        status_code=201,
        response_model=schemas.Added,
        responses=errors(400, 401, 403, 409, 503),
    )
    async def add_labels(request: NewLabels):
        """Add labels by their titles; no chunk is retrained."""
        added = await service.add(request.titles, request.placement, request.attributes)
        return {"labels": added}

    @app.delete(
        "/labels",
        **guarded,
        response_model=schemas.Removed,
        responses=errors(401, 403, 404, 409),
    )
    async def remove_labels(
        label: Annotated[
            list[schemas.Label], Query(min_length=1, max_length=schemas.MOST_IN_ADDRESS)
        ],
    ):
        """Remove labels: they are no longer found, and their numbers are not used again."""
        return {"labels": await service.remove(label)}

    @app.post("/reload", **guarded, response_model=schemas.Health, responses=errors(401, 403, 409))
    async def reload():
        """Open the run again, which may be a link to a newer one. No request is dropped."""
        await service.reload()
        return service.health()

    @app.get(
        "/health",
        tags=["operation"],
        response_model=schemas.Health,
        responses={503: {"model": schemas.Health}},
    )
    async def health(response: Response):
        """Whether answers can be trusted: 503 if some weights are damaged."""
        facts = service.health()
        response.status_code = 503 if facts["status"] == "damaged" else 200
        return facts

    @app.get("/run", tags=["operation"], response_model=schemas.RunFacts, responses=errors())
    async def run():
        """What is served."""
        return service.facts()

    @app.get(
        "/metrics",
        tags=["operation"],
        response_class=Response,
        responses={200: {"content": {CONTENT_TYPE: {"schema": {"type": "string"}}}}},
    )
    async def metrics():
        """Counters for Prometheus."""
        return Response(counters.render(), media_type=CONTENT_TYPE)

    @app.get("/", include_in_schema=False)
    async def page():
        return FileResponse(PAGE / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs():
        return FileResponse(PAGE / "docs.html")

    app.mount("/page", StaticFiles(directory=PAGE), name="page")
    return Gate(app, limits, counters, hosts)
