"""Charts for pages: matplotlib draws them, as SVG that stands inside the page.

A page keeps its light and dark colours in CSS variables. matplotlib draws in a stand-in for each
variable, which `svg` replaces. The legend is HTML, so that it wraps on a phone.
"""

import html
import io
import itertools
import math
import re
import xml.etree.ElementTree as ET

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox

from solar_tf.analysis.tables import Table

WIDTH, HEIGHT = 480, 270  # points, of which matplotlib has 72 to the inch
AXES = 54 / WIDTH, 38 / HEIGHT, 414 / WIDTH, 222 / HEIGHT  # left, bottom, width, height
COLOURS = 10  # two scores of SOLAR, and eight baselines
VARIABLES = (*(f"c{i}" for i in range(COLOURS)), "card", "ink", "line", "soft")
STAND_INS = {name: f"#0000{16 + i}" for i, name in enumerate(VARIABLES)}
STYLE = {
    "svg.fonttype": "none",  # text stays text
    "font.size": 10.5,
    "axes.axisbelow": True,
    "axes.edgecolor": STAND_INS["soft"],
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": STAND_INS["ink"],
    **{f"axes.spines.{side}": False for side in ("left", "right", "top")},
    "grid.color": STAND_INS["line"],
    "xtick.color": STAND_INS["line"],
    "xtick.labelcolor": STAND_INS["soft"],
    "ytick.labelcolor": STAND_INS["soft"],
    "ytick.left": False,
}
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
# The document's head, its style, its fonts, and ids that would repeat on a page.
DROPPED = re.compile(
    r'\A.*(?=<svg)| xmlns\S*| (?:width|height)="\S+pt"|<style.*?</style>|\n *'
    r'|(?<=<g) id="(?!tip)\S+"|font(?:-\w+)?: [^;"]+; ?',
    re.DOTALL,
)


class Chart:
    """Add series in the order in which they are painted, then take `figure`."""

    def __init__(self, x_label, y_label, x_log=False, y_log=False, y_least=0.0, x_ticks=None):
        self.x_label, self.y_label = x_label, y_label
        self.y_least = y_least  # the smallest span of the axis: noise must not look like a trend
        self.x_ticks = x_ticks  # pairs of a place and its text, where they are not numbers
        self.series = []  # (name, xs, ys, colour, dashed), for legend and numbers
        self.tips = {}  # what a pointer shows at each mark of an artist, by the artist's id
        self.named = []  # points with a name beside them: (x, y, name, colour)
        with rc_context(STYLE):
            self.drawing = Figure((WIDTH / 72, HEIGHT / 72), dpi=72)
            self.axes = self.drawing.add_axes(AXES, xlabel=x_label, ylabel=y_label)
        self.axes.yaxis.set_label_coords(-0.11, 0.5)  # at the left: text is larger on a phone
        self.axes.set_xscale("log" if x_log else "linear")
        self.axes.set_yscale("log" if y_log else "linear")

    def line(self, name, xs, ys, colour, dashed=False, dots=True):
        xs, ys = self._add(name, xs, ys, colour, dashed)
        kind = "--" if dashed else "-"
        self.axes.plot(xs, ys, kind, color=_stand_in(colour), linewidth=1.8, clip_on=False)
        if dots:
            self._dots(xs, ys, colour, [name] * len(xs))

    def points(self, name, xs, ys, colour, labels=None):
        """Points; `labels` are names to write beside them."""
        xs, ys = self._add(name, xs, ys, colour)
        self._dots(xs, ys, colour, labels or [name] * len(xs))
        if labels:
            self.named += [(*point, colour) for point in zip(xs, ys, labels, strict=True)]

    def bars(self, name, xs, ys, colour, width=0.8):
        """Bars around the places xs, `width` wide in their units."""
        xs, ys = self._add(name, xs, ys, colour)
        bars = self.axes.bar(xs, ys, width, color=_stand_in(colour), alpha=0.62)
        for bar, x, y in zip(bars, xs, ys, strict=True):
            self._tip(bar, [name], [x], [y])

    def area(self, name, xs, ys, colour):
        xs, ys = self._add(name, xs, ys, colour)
        self.axes.fill_between(xs, ys, color=_stand_in(colour), alpha=0.28)

    def _add(self, name, xs, ys, colour, dashed=False):
        """Note a series; returns the places that have a value, and the values."""
        pairs = [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None]
        xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
        if pairs:
            self.series.append((name, xs, ys, colour % COLOURS, dashed))
        return xs, ys

    def _dots(self, xs, ys, colour, names):
        (dots,) = self.axes.plot(
            xs, ys, "o", color=_stand_in(colour), markeredgecolor=STAND_INS["card"], clip_on=False
        )
        self._tip(dots, names, xs, ys)

    def _tip(self, artist, names, xs, ys):
        artist.set_gid(f"tip{len(self.tips)}")
        self.tips[artist.get_gid()] = [
            f"{name} {self.x_label}: {number(x)}, {self.y_label}: {number(y)}".strip()
            for name, x, y in zip(names, xs, ys, strict=True)
        ]

    def figure(self):
        """Legend and drawing as HTML."""
        if not self.series:
            return "<p class=note>nothing to draw</p>"
        named = [
            f'<span><i class="c{colour}{" dashed" * dashed}"></i>{html.escape(name)}</span>'
            for name, _, _, colour, dashed in self.series
            if name
        ]
        shown = 1 < len(named) <= COLOURS  # beyond, colours repeat
        return (f"<div class=legend>{''.join(named)}</div>" if shown else "") + self.svg()

    def numbers(self, show="{:.2f}".format):
        """The named series as a Table, with a row for each place."""
        texts = dict(self.x_ticks or ())
        named = {name: dict(zip(xs, ys, strict=True)) for name, xs, ys, *_ in self.series if name}
        rows = [
            [texts.get(x) or number(x)]
            + [show(points[x]) if x in points else "-" for points in named.values()]
            for x in sorted({x for points in named.values() for x in points})
        ]
        return Table(self.y_label, [self.x_label, *named], rows)

    def svg(self):
        """The drawing as an element of a page, in the page's font and colours."""
        # Ids must differ between the charts of a page, and not between two makings of it.
        salt = f"{self.x_label} {self.y_label} {self.series}"
        file = io.StringIO()
        with rc_context(STYLE | {"svg.hashsalt": salt}):
            self._scale()
            self._write_names()
            self.drawing.savefig(file, format="svg", transparent=True, metadata=NO_METADATA)
        text = DROPPED.sub("", file.getvalue()).replace("xlink:href", "href")
        for name, colour in STAND_INS.items():
            text = text.replace(colour, f"var(--{name})")
        root = ET.fromstring(text)
        for place, tips in self.tips.items():
            group = root.find(f".//g[@id='{place}']")
            del group.attrib["id"]
            marks = group.findall(".//use") or group.findall("path")
            for mark, tip in zip(marks, tips, strict=True):
                ET.SubElement(mark, "title").text = tip
        root.set("role", "img")
        root.set("aria-label", f"{self.y_label} by {self.x_label}")
        return ET.tostring(root, encoding="unicode")

    def _scale(self):
        """Choose limits and ticks."""
        for axis in (self.axes.xaxis, self.axes.yaxis):
            if axis.get_scale() == "log":
                few = axis.get_data_interval()[1] < 1000 * axis.get_minpos()
                axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
            else:
                axis.set_major_locator(MaxNLocator(5, steps=(1, 2, 2.5, 5, 10)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
            axis.set_minor_locator(NullLocator())
        if self.axes.get_xscale() == "linear":
            self.axes.margins(x=0)
        if self.axes.get_yscale() == "linear":  # the axis begins and ends at a tick
            low, high = self.axes.dataLim.intervaly
            lacking = max(self.y_least - (high - low), 0)
            locator = self.axes.yaxis.get_major_locator()
            ticks = locator.tick_values(low - lacking / 2, high + lacking / 2)
            self.axes.set_ylim(ticks[0], ticks[-1])
        if self.x_ticks:
            self.axes.set_xticks(*zip(*self.x_ticks, strict=True))
        end = -math.inf
        for label in self.axes.get_xticklabels():  # only those that have room
            box = label.get_window_extent()
            label.set_visible(box.x0 > end)
            end = box.x1 + 4 if label.get_visible() else end

    def _write_names(self):
        """Write names beside their points, where no other point, name or line is."""
        place = self.axes.transData.transform
        taken = [Bbox([place((x, y)) - 4, place((x, y)) + 4]) for x, y, *_ in self.named]
        lines = [
            line.get_transform().transform_path(line.get_path())
            for line in self.axes.lines
            if line.get_linestyle() != "None"
        ]
        inside = Bbox([self.axes.bbox.min, (WIDTH, HEIGHT)])

        def is_free(box):
            return (
                all(inside.contains(*corner) for corner in (box.min, box.max))
                and not any(box.overlaps(other) for other in taken)
                and not any(line.intersects_bbox(box) for line in lines)
            )

        for x, y, name, colour in self.named:
            where = {"textcoords": "offset points", "va": "center", "color": _stand_in(colour)}
            text = self.axes.annotate(name, (x, y), (0, 0), **where)
            for step, sign, side in itertools.product(range(0, 60, 6), (1, -1), (1, -1)):
                text.set(position=(7 * side, sign * step), ha="left" if side > 0 else "right")
                if is_free(box := text.get_window_extent()):
                    taken.append(box)
                    break
            else:
                text.remove()  # its tip still has it


def _stand_in(colour):
    return STAND_INS[f"c{colour % COLOURS}"]


def number(value):
    """A number for people, with three significant digits or so."""
    if value is None:
        return "-"
    if value == 0 or 1000 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M" if abs(value) < 1e9 else f"{value:.2e}"
    return f"{value:.3g}" if abs(value) >= 1e-4 else f"{value:.1e}"
