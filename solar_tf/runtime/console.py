"""What a person sees: progress bars and tables."""

import contextlib
import contextvars
import sys

from tqdm import tqdm

_silent = contextvars.ContextVar("silent", default=False)


@contextlib.contextmanager
def silence():
    """Say nothing and draw no bars within the block, in this thread."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def progress(total, what, unit, initial=0, line=0):
    """A progress bar with rate and ETA, `line` lines down; drawn on terminals only."""
    return tqdm(
        total=total,
        desc=what,
        unit=unit,
        unit_scale=True,
        initial=initial,
        disable=_silent.get() or None,  # None: unless stderr is a terminal
        leave=False,
        file=sys.stderr,
        dynamic_ncols=True,
        delay=1,
        position=line,
    )


def say(text):
    """Print a line without breaking a progress bar."""
    if not _silent.get():
        tqdm.write(text, file=sys.stdout)
        sys.stdout.flush()


def table(header, rows):
    """A Markdown table with aligned columns: text to the left, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [
        all(is_number(row[i]) for row in cells[1:]) and len(cells) > 1 for i in range(len(header))
    ]

    def line(row):
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    rule = "|".join(
        "-" * (width + 1) + (":" if right else "-")
        for width, right in zip(widths, numeric, strict=True)
    )
    return "\n".join([line(cells[0]), f"|{rule}|", *map(line, cells[1:])])


def is_number(text):
    """Whether a cell may stand in a column of numbers."""
    return text in ("", "-") or text.replace(",", "").replace(".", "", 1).lstrip("-").isdigit()


def seconds(value):
    """A duration for people: 48 s, 6 min 10 s, 2 h 5 min."""
    whole = round(value)
    if whole < 60:
        return f"{value:.1f} s" if value < 9.95 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(value):
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:  # 1000 of a unit is 1 of the next
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"
