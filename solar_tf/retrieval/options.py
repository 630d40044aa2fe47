"""How to search: declared and checked once, for the searcher, the API, the server and infer.py."""

import math
from dataclasses import KW_ONLY, dataclass

from numpy.typing import ArrayLike

from solar_tf.errors import UserError
from solar_tf.retrieval.ranking import EVIDENCE_FLOOR, SCORES


@dataclass(frozen=True)
class SearchOptions:
    """What is found of a query, and how it is scored (§3.3).

    `allow` and `deny` are labels, or an array of N truth values. `where` has conditions on
    attributes, such as "section=web|net year>=1990" (`conditions`).
    """

    k: int = 10  # labels to find
    m: int | None = 100  # buckets kept of each chunk; None keeps all (SOLAR-full)
    score: str = "evidence"  # or the paper's "probability"
    _: KW_ONLY
    floor: float = EVIDENCE_FLOOR  # the probability from which evidence counts
    allow: ArrayLike | None = None  # only these labels; None allows all
    deny: ArrayLike | None = None  # all but these
    where: str | None = None
    min_chunks: int = 0  # in which a label must be found
    threshold: float = 0.0  # the least score
    explain: bool = True  # say what each chunk adds to a score

    def __post_init__(self):
        if self.k < 1:
            raise UserError(f"k={self.k}: ask for at least one label")
        if self.m is not None and self.m < 1:
            raise UserError(f"m={self.m}: keep at least one bucket of each chunk")
        if self.score not in SCORES:
            raise UserError(f"score={self.score!r}: choose one of {', '.join(SCORES)}")
        if not 0 < self.floor <= 1:
            raise UserError(f"floor={self.floor}: give a probability above 0")
        if math.isnan(self.threshold):
            raise UserError("threshold=nan: give the least score")

    @property
    def setting(self):
        """The name of m in results, for people."""
        return "full" if self.m is None else f"m={self.m}"

    @property
    def key(self):
        """The name of m and score in files."""
        return f"{self.setting}_{self.score}"
