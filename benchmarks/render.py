"""Render benchmarks/results/*.json as the tables of benchmarks/README.md."""

import contextlib
import io
import json

from common import RESULTS, print_rows

HEAD = """# Benchmarks

`make bench` runs every program here and renders this page from its results. Targets are ratios
against something else in the same run, because seconds depend on the machine; rows where this
project loses stay. *ratio* is how many times faster *ours* is, or, under "at most", how many times
the cost of the thing it is compared with.
"""


def main():
    text = HEAD
    for path in sorted(RESULTS.glob("*.json")):
        content = json.loads(path.read_text())
        on = content["machine"]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            print_rows(content["rows"])
        text += f"\n## {path.stem}\n\n`python benchmarks/bench_{path.stem}.py`, "
        text += f"{on['cpu']}, {on['cores']} cores, {on['memory_gb']} GB, TensorFlow "
        text += f"{on['versions']['tensorflow']}, commit {on['commit']}, {on['date']}\n\n"
        text += out.getvalue()
    (RESULTS.parent / "README.md").write_text(text)


if __name__ == "__main__":
    main()
