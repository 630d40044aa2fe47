"""Check numerically what the paper derives: §3.1, §3.3, §4, §5.2 and appendix C.

    python -m solar_tf.analysis.theory                          a page, theory.html
    python -m solar_tf.analysis.theory --markdown theory.md     the same as Markdown, too
    python -m solar_tf.analysis.theory --quick                  small sizes only, for a first look

Takes a few minutes on one core and 2 GB of memory.
"""

from solar_tf.analysis.theory import findings
from solar_tf.cli.programs import errors_explained, program
from solar_tf.run.files import atomic_write
from solar_tf.runtime.console import say


def main(arguments=None):
    parser = program("solar_tf.analysis.theory", __doc__)
    parser.add_argument("--out", default="theory.html", help="the page's path [theory.html]")
    parser.add_argument("--markdown", help="write it as Markdown as well")
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    args = parser.parse_args(arguments)
    with errors_explained():
        sections = findings.measure(args.quick)
        for path, text in (
            (args.out, findings.as_page(sections)),
            (args.markdown, findings.as_markdown(sections)),
        ):
            if path:
                with atomic_write(path, "w") as file:
                    file.write(text)
                say(f"wrote {path}")


if __name__ == "__main__":
    main()
