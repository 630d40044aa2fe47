"""Charts as plain SVG: lines, points, bars and areas; no dependency, no script.

Colours are classes c0, c1, ... of the page, so that one file suits light and dark screens. The
legend is HTML beside the drawing: it wraps on a phone and keeps its size.
"""

import html
import itertools
import math
from dataclasses import dataclass

WIDTH, HEIGHT = 480, 270
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 10, 38
COLOURS = 10  # two scores of SOLAR, and the eight baselines
LETTER = 5.6  # mean width of one at the labels' size
LABEL = 12  # height of one


@dataclass(frozen=True)
class Series:
    kind: str  # line, points, bars or area
    name: str
    xs: list
    ys: list
    colour: int
    dashed: bool = False
    labels: list | None = None
    width: float = 0.0  # of a bar


class Chart:
    """Add series in the order in which they are painted, then take `figure`."""

    def __init__(self, x_label, y_label, x_log=False, y_log=False, y_least=0.0, x_ticks=None):
        self.x_label, self.y_label = x_label, y_label
        self.x_log, self.y_log = x_log, y_log
        self.y_least = y_least  # the axis spans so much at least: noise is to look like noise
        self.x_ticks = x_ticks  # pairs of a place and its text, where they are not numbers
        self.series = []

    def line(self, name, xs, ys, colour, dashed=False, dots=True):
        self._add("line", name, xs, ys, colour, dashed=dashed)
        if dots:
            self._add("points", "", xs, ys, colour)

    def points(self, name, xs, ys, colour, labels=None):
        self._add("points", name, xs, ys, colour, labels=labels)

    def bars(self, name, xs, ys, colour, width=0.8):
        """Bars around the places xs, `width` wide in their units."""
        self._add("bars", name, xs, ys, colour, width=width)

    def area(self, name, xs, ys, colour):
        self._add("area", name, xs, ys, colour)

    def _add(self, kind, name, xs, ys, colour, **options):
        pairs = [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None]
        if pairs:
            xs, ys = (list(part) for part in zip(*pairs, strict=True))
            self.series.append(Series(kind, name, xs, ys, colour % COLOURS, **options))

    def figure(self):
        """Legend and drawing as HTML."""
        if not self.series:
            return "<p class=note>nothing to draw</p>"
        named = [series for series in self.series if series.name]
        legend = "".join(
            f'<span><i class="c{s.colour}{" dashed" if s.dashed else ""}"></i>'
            f"{html.escape(s.name)}</span>"
            for s in named
        )
        return (f"<div class=legend>{legend}</div>" if len(named) > 1 else "") + self.svg()

    def svg(self):
        self._scale()
        parts = [*self._grid(), *map(self._draw, self.series), *self._labels()]
        title = html.escape(f"{self.y_label} by {self.x_label}")
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
            f"{''.join(parts)}</svg>"
        )

    # Places.

    def _scale(self):
        xs = [x for s in self.series for value in s.xs
              for x in (value - s.width / 2, value + s.width / 2)]  # fmt: skip
        ys = [y for s in self.series for y in s.ys]
        if (lacking := self.y_least - (max(ys) - min(ys))) > 0:
            ys += [min(ys) - lacking / 2, max(ys) + lacking / 2]
        if any(s.kind in ("bars", "area") for s in self.series) and not self.y_log:
            ys.append(0)
        self._xs = _Axis(xs, self.x_log, LEFT, WIDTH - RIGHT, self.x_ticks)
        self._ys = _Axis(ys, self.y_log, HEIGHT - BOTTOM, TOP, whole=True)

    def _grid(self):
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        for value, text in self._ys.ticks:
            y = self._ys.place(value)
            yield _tag("path", kind="rule", d=f"M{LEFT} {y:.1f}H{right}")
            yield _tag("text", text, kind="end", x=LEFT - 5, y=y + 3.5)
        for value, text in _spaced(self._xs):
            x = self._xs.place(value)
            yield _tag("path", kind="rule", d=f"M{x:.1f} {bottom}v4")
            yield _tag("text", text, kind="mid", x=x, y=bottom + 15)
        yield _tag("path", kind="axis", d=f"M{LEFT} {bottom}H{right}")
        yield _tag("text", self.x_label, kind="mid name", x=(LEFT + right) / 2, y=HEIGHT - 4)
        y = (TOP + bottom) / 2
        yield _tag(
            "text", self.y_label, kind="mid name", x=10, y=y, transform=f"rotate(-90 10 {y})"
        )

    def _draw(self, series):
        bottom, kind = HEIGHT - BOTTOM, f"{series.kind} c{series.colour}"
        ys = [self._ys.place(y) for y in series.ys]
        if series.kind == "bars":
            edges = [
                (self._xs.place(x - series.width / 2), self._xs.place(x + series.width / 2))
                for x in series.xs
            ]
            return "".join(
                _tag("rect", x=a, y=y, width=b - a, height=bottom - y, kind=kind, tip=tip)
                for (a, b), y, tip in zip(edges, ys, self._tips(series), strict=True)
            )
        xs = [self._xs.place(x) for x in series.xs]
        if series.kind == "points":
            return "".join(
                _tag("circle", cx=x, cy=y, r=3, kind=kind, tip=tip)
                for x, y, tip in zip(xs, ys, self._tips(series), strict=True)
            )
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True))
        if series.kind == "area":
            path += f"L{xs[-1]:.1f} {bottom}L{xs[0]:.1f} {bottom}Z"
        return _tag("path", kind=kind + " dashed" * series.dashed, d=path)

    def _tips(self, series):
        names = series.labels or [series.name] * len(series.xs)
        for name, x, y in zip(names, series.xs, series.ys, strict=True):
            yield f"{name} {self.x_label}: {number(x)}, {self.y_label}: {number(y)}".strip()

    def _labels(self):
        """Names beside their points, where no other point or name is."""
        points = [
            (self._xs.place(x), self._ys.place(y), s.labels[i] if s.labels else None, s.colour)
            for s in self.series
            if s.kind == "points"
            for i, (x, y) in enumerate(zip(s.xs, s.ys, strict=True))
        ]
        taken = [(x - 4, y - 4, x + 4, y + 4) for x, y, *_ in points]
        taken += [box for s in self.series if s.kind == "line" for box in self._trace(s)]
        for x, y, text, colour in points:
            if not text:
                continue
            width = LETTER * len(text)
            boxes = [
                (left, top, left + width, top + LABEL)
                for step in range(0, 60, 6)
                for top in (y - LABEL / 2 - step, y - LABEL / 2 + step)
                for left in (x + 6, x - 6 - width, x - width / 2)
                if (step > 6 or left != x - width / 2)
                and left >= LEFT and left + width <= WIDTH
                and top >= 0 and top + LABEL <= HEIGHT - BOTTOM
            ]  # fmt: skip
            box = next((b for b in boxes if not any(_meet(b, t) for t in taken)), None)
            if box is None:
                continue  # its tip still has it
            taken.append(box)
            yield _tag("text", text, kind=f"label c{colour}", x=box[0], y=box[1] + 9.5)

    def _trace(self, series):
        """Small boxes all along a line, which names are to keep away from."""
        places = [(self._xs.place(x), self._ys.place(y))
                  for x, y in zip(series.xs, series.ys, strict=True)]  # fmt: skip
        for (a, b), (c, d) in itertools.pairwise(places):
            for i in range(count := 1 + int(math.hypot(c - a, d - b) / 6)):
                x, y = a + (c - a) * i / count, b + (d - b) * i / count
                yield x - 2, y - 1, x + 2, y + 1


class _Axis:
    """From values to places, and the ticks on the way."""

    def __init__(self, values, log, start, end, ticks=None, whole=False):
        self.log, self.start, self.end = log, start, end
        if log:
            values = [value for value in values if value > 0] or [1.0]
        low, high = min(values), max(values)
        if ticks:
            self.ticks, margin = ticks, 0.0
        elif log:
            self.ticks, margin = _log_ticks(low, high), 0.04 * math.log10(high / low or 1) + 0.02
            low, high = low / 10**margin, high * 10**margin
        else:
            self.ticks = _ticks(low, high)
            if whole:  # the axis begins and ends at a tick
                low, high = min(low, self.ticks[0][0]), max(high, self.ticks[-1][0])
            self.ticks = [tick for tick in self.ticks if low <= tick[0] <= high]
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        self.low, self.high = self._unit(low), self._unit(high)

    def _unit(self, value):
        return math.log10(max(value, 1e-12)) if self.log else value

    def place(self, value):
        share = (self._unit(value) - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0), 1) * (self.end - self.start)


def _ticks(low, high, most=6):
    """Round numbers that take in the range."""
    if low == high:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / (most - 1)
    base = 10 ** math.floor(math.log10(raw))
    step = next(base * f for f in (1, 2, 2.5, 5, 10) if base * f >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [(i * step, number(i * step)) for i in range(first, last + 1)]


def _log_ticks(low, high):
    if high < 4 * low:  # no room for powers of ten
        return [tick for tick in _ticks(low, high) if low <= tick[0] <= high] or [
            (low, number(low))
        ]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(powers) < 4 else (1,)
    values = [f * 10.0**power for power in powers for f in factors]
    inside = [v for v in values if low * 0.999 <= v <= high * 1.001]
    return [(v, number(v)) for v in inside or [low, high]]


def _spaced(axis):
    """The ticks of a horizontal axis that have room for their texts."""
    end = -math.inf
    for value, text in sorted(axis.ticks):
        half = LETTER * len(text) / 2
        if axis.place(value) - half > end:
            end = axis.place(value) + half + 4
            yield value, text


def _meet(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _tag(name, text="", kind="", tip=None, **attributes):
    """An element of the drawing; `tip` is what a pointer that rests on it shows."""
    values = {"class": kind} | {
        key: f"{value:.1f}" if isinstance(value, float) else value
        for key, value in attributes.items()
    }
    written = "".join(f' {key}="{html.escape(str(value))}"' for key, value in values.items())
    inner = f"<title>{html.escape(tip)}</title>" if tip else html.escape(text)
    return f"<{name}{written}>{inner}</{name}>"


def number(value):
    """A number for people, with three significant digits or so."""
    if value is None:
        return "-"
    if value == 0 or 1000 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M" if abs(value) < 1e9 else f"{value:.2e}"
    return f"{value:.3g}" if abs(value) >= 1e-4 else f"{value:.1e}"
