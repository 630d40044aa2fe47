"""What all programs share."""

import pytest

from solar_tf.cli.programs import errors_explained, program
from solar_tf.errors import UserError


def test_the_help_is_the_text_as_it_stands(capsys):
    with pytest.raises(SystemExit) as end:
        program("x", "A sum.\n\n    solar x 1    one").parse_args(["--help"])
    said = capsys.readouterr().out
    assert end.value.code == 0
    assert "usage: solar x" in said and "\n    solar x 1    one\n" in said


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("a.txt:3: no number"), 1, "error: a.txt:3: no number\n"),
        (KeyboardInterrupt(), 130, "error: interrupted: run the same command again to go on\n"),
        (FileNotFoundError(2, "No such file", "b"), 1, "error: b: No such file: make room"),
    ],
)
def test_what_the_user_can_mend_is_one_line(capsys, error, code, line):
    with pytest.raises(SystemExit) as end, errors_explained():
        raise error
    assert end.value.code == code
    said = capsys.readouterr().err
    assert said.startswith(line) and said.count("\n") == 1


def test_a_fault_of_the_program_is_not_hidden():
    with pytest.raises(ZeroDivisionError), errors_explained():
        raise ZeroDivisionError
