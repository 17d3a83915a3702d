"""All confusion matrices that reported shares leave open: each is a ratio of sums of cells, so a linear constraint.

Recall is hits over the texts of a class, precision hits over the texts given its label, accuracy the diagonal over
everything. A number rounded to v lies between two ends, so low * bottom <= top <= high * bottom holds for the cells of
the matrix that it came from. What such constraints leave open of another number is a linear program, and with the
number of texts known an integer one; both are HiGHS's work, through scipy.

Array names carry their shape: C = classes, K = C * C cells of the matrix (true classes as rows), R = constraints.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

SLACK = 1e-6
"""What a solver may be off by: a contradiction smaller than this is not claimed."""

LIMIT_S = 3.0
"""Time for one program; a question that is not answered by then is no contradiction."""

OPTIMAL, INFEASIBLE = 0, 2  # statuses of scipy's solver

Floats = NDArray[np.float64]
Range = tuple[float, float]


@dataclass(frozen=True)
class Share:
    """A reported ratio top · x / bottom · x of cells x; what was rounded to `value` lies from `low` to `high`.

    `kind` groups the shares of one table, `rule` says in words what the ratio is.
    """

    kind: str
    name: str
    value: Decimal
    low: float
    high: float
    top_K: Floats
    bottom_K: Floats
    rule: str

    @property
    def rows(self) -> tuple[Floats, Floats]:
        """The share as constraints: each row times the cells is at least 0."""
        return self.top_K - self.low * self.bottom_K, self.high * self.bottom_K - self.top_K

    def of(self, cells_K: Floats) -> float | None:
        """Its value in a matrix; None for 0 / 0."""
        bottom = float(self.bottom_K @ cells_K)
        return float(self.top_K @ cells_K) / bottom if bottom else None

    def outside(self, ends: Range) -> bool:
        """Whether nothing that rounds to the value lies between these ends."""
        return self.high < ends[0] - SLACK or self.low > ends[1] + SLACK


class Matrices:
    """The confusion matrices that the facts accepted so far allow: `facts` holds rows (K,), at least 0, by kind.

    `cells_CC` are the positions of the cells; `known_K` is the matrix itself where that was reported.
    """

    def __init__(self, num_classes: int, known_K: Floats | None = None) -> None:
        self.cells_CC = np.arange(num_classes**2).reshape(num_classes, num_classes)
        self.known_K = known_K
        self.facts: dict[str, list[Any]] = {}

    def sum_of(self, cells: NDArray[np.int64] | np.int64) -> Floats:
        """The sum of these cells as a row (K,)."""
        return np.bincount(cells.ravel(), minlength=self.cells_CC.size).astype(np.float64)

    def accept(self, kind: str, *rows_K: Floats) -> None:
        """Allow only matrices in which each row times the cells is at least 0."""
        self.facts.setdefault(kind, []).extend(map(_sparse, rows_K))

    def range(self, share: Share, kinds: Iterable[str] | None = None) -> Range | None:
        """The least and greatest value of a share beside facts of these kinds (None: all); None where it is 0 / 0.

        Cells are scaled so that the bottom of the ratio is 1 (Charnes and Cooper, 1962).
        """
        if self.known_K is not None:
            value = share.of(self.known_K)
            return None if value is None else (value, value)
        rows = [row for kind in (self.facts if kinds is None else kinds) for row in self.facts[kind]]
        low, high = (_solve(sign * share.top_K, rows, [_sparse(share.bottom_K)], [1.0]) for sign in (1, -1))
        return (low.fun, -high.fun) if low.status == high.status == OPTIMAL else None

    def ties(self, share: Share, ends: Range) -> list[str]:
        """The kinds of facts that keep a share between `ends`: without any one of them the range would be wider."""
        kinds = list(self.facts)
        for kind in list(kinds) if self.known_K is None else ():
            rest = [other for other in kinds if other != kind]
            wider = self.range(share, rest)
            if wider is not None and np.allclose(wider, ends, rtol=0, atol=10 * SLACK):
                kinds = rest
        return kinds

    def fit(self, shares: Sequence[Share]) -> bool:
        """Whether a matrix with texts behind each share has all of them: one program instead of two for each.

        True is certain; False may also mean that some class is very small.
        """
        if self.known_K is not None:
            return False
        rows = [row for rows in self.facts.values() for row in rows]
        rows += [_sparse(row_K) for share in shares for row_K in share.rows]
        room = [_sparse(np.append(share.bottom_K, -1.0)) for share in shares]  # the least bottom, as large as can be
        widened = [_widened(row) for row in rows] + room
        total = _widened(_sparse(self.sum_of(self.cells_CC)))
        found = _solve(-np.eye(self.cells_CC.size + 1)[-1], widened, [total], [1.0])
        return bool(found.status == OPTIMAL and -found.fun > 10 * SLACK)

    def whole(self, shares: Sequence[Share], sizes: Sequence[int], num_texts: int, near: Share | None = None) -> Any:
        """A matrix of `num_texts` texts in whole numbers that has these shares; `sizes` of classes may be empty.

        With `near`, the one that comes closest to the value of that share. The answer is scipy's: `status` is
        INFEASIBLE where there is no matrix, and `x` begins with its cells.
        """
        sums = [self.sum_of(self.cells_CC), *map(self.sum_of, self.cells_CC[: len(sizes)])]
        rows = [_widened(_sparse(row_K)) for share in shares for row_K in share.rows]
        if near is not None:  # the last unknown is the distance |top - value * bottom|
            gap_K = near.top_K - float(near.value) * near.bottom_K
            rows += [_sparse(np.append(sign * gap_K, 1.0)) for sign in (1, -1)]
        objective = np.eye(self.cells_CC.size + 1)[-1]
        return _solve(objective, rows, [_widened(_sparse(s)) for s in sums], [num_texts, *sizes], whole=True)


def _sparse(row: Floats) -> Any:
    from scipy.sparse import csr_array

    return csr_array(row[None])


def _widened(row: Any) -> Any:
    """The row with a zero for one more unknown."""
    from scipy.sparse import csr_array, hstack

    return hstack([row, csr_array((1, 1))], format="csr")


def _solve(
    objective: Floats, at_least_0: Sequence[Any], fixed: Sequence[Any], values: Sequence[float], *, whole: bool = False
) -> Any:
    """Minimise objective · x for x >= 0 under sparse rows; `whole`: in whole numbers, but for the last unknown."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import vstack

    constraints = [LinearConstraint(vstack(fixed, format="csr"), values, values)]
    if at_least_0:
        constraints.append(LinearConstraint(vstack(at_least_0, format="csr"), lb=0.0))
    integrality = np.append(np.ones(len(objective) - 1), 0) if whole else np.zeros(len(objective))
    return milp(
        objective,
        integrality=integrality,
        bounds=Bounds(0, np.inf),
        constraints=constraints,
        options={"time_limit": LIMIT_S},
    )
