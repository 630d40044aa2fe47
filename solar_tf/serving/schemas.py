"""The requests and responses of the server, as its OpenAPI document shows them."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool

MOST = 2**31 - 1  # the largest int32 label
MOST_IN_ADDRESS = 100  # labels to allow or deny; a body may have more
Label = Annotated[int, Field(ge=0, le=MOST, description="The number of a label.")]


WHERE = (
    "Only labels whose attributes meet all these conditions, separated by spaces: name=value, "
    "name!=value, name<number, <=, >, >=. One of several values: name=one|another. Names and "
    'values with spaces are put in double quotes. name="" asks for labels without a value, which '
    "meet no other condition."
)


class Response(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ChunkOfLabel(Response):
    """One chunk's part in a label's score."""

    bucket: int = Field(description="The label's bucket in this chunk, h_k(i) (§3.1).")
    probability: float = Field(description="What the chunk's network gives this bucket.")
    rank: int | None = Field(description="1 for the chunk's likeliest bucket; null: not kept.")
    weight: float = Field(description="What the bucket adds to the score; 0 if it was not kept.")


Values = dict[str, str | int | float]  # of attributes


class FoundLabel(Response):
    label: int
    title: str | None
    score: float
    attributes: Values | None = Field(None, description="Its attributes, if labels have any.")
    chunks: list[ChunkOfLabel] | None = Field(None, description="With explain: one per chunk.")


class Word(Response):
    word: str
    weight: float | None = Field(description="Its value in the query's vector; null: unknown.")


class ChunkOfQuery(Response):
    """The top of one chunk's output (§3.3)."""

    chunk: int
    buckets: list[int]
    probabilities: list[float]
    labels: list[int] = Field(description="How many labels each of these buckets holds.")


class Explanation(Response):
    words: list[Word]
    chunks: list[ChunkOfQuery]


class Answer(Response):
    query: str
    labels: list[FoundLabel]
    candidates: int | None = Field(
        description="With explain: distinct labels in kept buckets that the filters let pass."
    )
    explanation: Explanation | None = None


class Times(Response):
    """Where the milliseconds went; the batch is the one that this request's queries were in."""

    waited: float = Field(description="For the batch to start.")
    searched: float = Field(description="The whole batch.")
    batch: int = Field(description="Queries in the batch.")


class Answers(Response):
    answers: list[Answer]
    ms: Times


class LabelFacts(Response):
    label: int
    title: str | None
    buckets: list[int] = Field(description="h_k(i), one bucket in each chunk (§3.1).")
    attributes: Values = Field(description="Attributes that have a value.")


class ValueCount(Response):
    value: str
    labels: int = Field(description="How many labels have it.")


class AttributeFacts(Response):
    """The values of an attribute, among labels that can be found."""

    name: str
    kind: Literal["text", "number"] = Field(description="Numbers can be compared by < and >.")
    labels: int = Field(description="How many labels have a value.")
    distinct: int = Field(description="Different values.")
    least: float | None = Field(description="Of numbers.")
    most: float | None = Field(description="Of numbers.")
    values: list[ValueCount] = Field(description="Of text: the most frequent values.")


class AllAttributes(Response):
    attributes: list[AttributeFacts] = Field(description="Empty where labels have none.")


class Added(Response):
    labels: list[int] = Field(description="The numbers of the new labels, in order.")


class Removed(Response):
    labels: list[int]


class Health(Response):
    status: Literal["ok", "verifying", "damaged"]
    detail: str
    run: str
    generation: int = Field(description="Rises with every reload.")
    uptime_seconds: float


class RunFacts(Response):
    """What is served."""

    run: str
    labels: int = Field(description="N, removed labels included.")
    trained: int = Field(description="Labels at training; the others were added later.")
    chunks: int = Field(description="K")
    buckets: int = Field(description="B")
    input: int = Field(description="Hashed features of a query.")
    hidden: int
    vocabulary: int
    weighting: str
    floor: float = Field(description="The probability from which evidence counts.")
    examples: list[str]
    attributes: list[str] = Field(description="Their names; /attributes has the values.")
    generation: int
    editable: bool = Field(description="Whether the server was started with a token.")


class FieldError(Response):
    field: str
    message: str


class ErrorDetail(Response):
    code: str
    message: str
    fields: list[FieldError] | None = None


class Error(Response):
    error: ErrorDetail


def _no_text(value):
    """In JSON, numbers must be numbers; in a query string, everything is text."""
    if isinstance(value, str | bool):
        raise ValueError("Input should be a number")
    return value


def _options(limits, most_listed, boolean, *validators):
    """The search options, with types for a query string or for a JSON body."""

    def number(kind, least, most):
        return Annotated[kind, Field(ge=least, le=most), *validators]

    listed = Annotated[list[number(int, 0, MOST)], Field(max_length=most_listed)]

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        k: number(int, 1, limits.results) = Field(10, description="How many labels.")
        m: Literal["full"] | number(int, 1, MOST) = Field(
            100, description='Buckets kept of each chunk, or "full" to score every label (§3.3).'
        )
        score: Literal["evidence", "probability"] = Field(
            "evidence", description="The sum of log(p / floor), or the paper's sum of p."
        )
        min_chunks: number(int, 0, 1000) = Field(0, description="Found in at least this many.")
        threshold: number(float, 0, 1e9) = Field(0.0, description="The least score.")
        allow: listed | None = Field(None, description="Only these labels.")
        deny: listed | None = Field(None, description="All but these labels.")
        where: Annotated[str, Field(max_length=limits.where_length)] | None = Field(
            None, description=WHERE, examples=['section=web|net size<5000 maintainer!="A. Name"']
        )
        explain: boolean = Field(False, description="Say for each label what each chunk added.")

    return Options


def request_models(limits):
    """SearchOptions, SearchQuery, SearchBody and NewLabels, bounded by the server's limits."""
    text = Annotated[str, Field(min_length=1, max_length=limits.query_length)]
    SearchOptions = _options(limits, min(limits.listed_labels, MOST_IN_ADDRESS), bool)

    class SearchQuery(SearchOptions):
        q: text = Field(description="A text.")

    class SearchBody(_options(limits, limits.listed_labels, StrictBool, BeforeValidator(_no_text))):
        queries: list[text] = Field(min_length=1, max_length=limits.queries)

    value = Annotated[str, Field(max_length=limits.query_length)]
    number = Annotated[float, Field(ge=-1e300, le=1e300), BeforeValidator(_no_text)]

    class NewLabels(BaseModel):
        model_config = ConfigDict(extra="forbid")

        titles: list[text] = Field(min_length=1, max_length=limits.new_labels)
        attributes: list[dict[str, value | number]] | None = Field(
            None,
            max_length=limits.new_labels,
            description="One object for each title, with attributes that labels have.",
        )
        placement: Literal["content", "hash"] = Field(
            "content",
            description="By the chunks' answer to the title, or by hash alone (§3.1).",
        )

    return SearchOptions, SearchQuery, SearchBody, NewLabels
