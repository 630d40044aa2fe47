"""A table of results as text, Markdown, LaTeX and HTML."""

import html
import re
from dataclasses import dataclass, field

from solar_tf.runtime import console

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "§": r"\S{}",
    "×": r"$\times$",
    "≤": r"$\le$",
    "✓": r"$\checkmark$",
    "…": r"\ldots{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}

LONG = 24  # characters; a browser may wrap longer cells


@dataclass(frozen=True)
class Table:
    """Text cells under a header; `notes` are sentences below it."""

    title: str
    header: list
    rows: list
    notes: list = field(default_factory=list)
    key: str = ""  # a short name, for files and anchors

    def __post_init__(self):
        if odd := [row for row in self.rows if len(row) != len(self.header)]:
            raise ValueError(f"{self.title}: a row of {len(odd[0])} cells: {odd[0]}")

    def text(self):
        """For a terminal."""
        body = console.table(self.header, self.rows) if self.rows else "(nothing)"
        return "\n\n".join([self.title, body, *self.notes])

    def markdown(self, level=2):
        # A bar would end its cell.
        header, *rows = [
            [str(cell).replace("|", "\\|") for cell in row] for row in (self.header, *self.rows)
        ]
        body = console.table(header, rows) if rows else "(nothing)"
        return "\n\n".join([f"{'#' * level} {self.title}", body, *self.notes]) + "\n"

    def latex(self):
        """A `table*` for a document that loads amssymb and booktabs."""
        columns = "".join("r" if numeric else "l" for numeric in self._numeric())
        lines = [_latex_row(self.header), r"\midrule", *map(_latex_row, self.rows)]
        notes = " ".join(map(_latex, self.notes))
        return "\n".join(
            [
                r"\begin{table*}[t]",
                r"\centering",
                f"\\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                *lines,
                r"\bottomrule",
                r"\end{tabular}",
                f"\\caption{{{_latex(self.title)}. {notes}}}",
                f"\\label{{tab:{self.key or 'results'}}}",
                r"\end{table*}",
                "",
            ]
        )

    def html(self):
        numeric = ["n" if right else "" for right in self._numeric()]
        head = _html_row(self.header, numeric, "th")
        body = "".join(_html_row(row, numeric, "td") for row in self.rows)
        notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in self.notes)
        return (
            f"<div class=scroll><table><thead>{head}</thead><tbody>{body}</tbody></table></div>"
            f"{notes}"
        )

    def _numeric(self):
        """Which columns hold only numbers: they are aligned to the right."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.header)
        return [bool(c) and all(console.is_number(str(cell)) for cell in c) for c in columns]


def _latex(text):
    return re.sub("|".join(map(re.escape, LATEX)), lambda found: LATEX[found[0]], str(text))


def _latex_row(cells):
    return " & ".join(map(_latex, cells)) + r" \\"


def _html_row(cells, classes, tag):
    body = ""
    for cell, kind in zip(cells, classes, strict=True):
        text = str(cell)
        kind = f"{kind} w".strip() if len(text) > LONG else kind
        body += f'<{tag} class="{kind}">' if kind else f"<{tag}>"
        body += f"{html.escape(text)}</{tag}>"
    return f"<tr>{body}</tr>"
