"""What all programs share."""

import pytest

from solar_tf.cli.programs import errors_explained
from solar_tf.errors import UserError


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("a.txt:3: no number"), 1, "error: a.txt:3: no number\n"),
        (KeyboardInterrupt(), 130, "error: interrupted: run the same command again to go on\n"),
        (FileNotFoundError(2, "No such file", "b"), 1, "error: b: No such file: make room"),
        (OSError(28, "No space left"), 1, "error: No space left: make room or give access, then"),
        (MemoryError(), 1, "error: not enough memory: "),
    ],
)
def test_what_the_user_can_mend_is_one_line(capsys, error, code, line):
    with pytest.raises(SystemExit) as end, errors_explained():
        raise error
    assert end.value.code == code
    said = capsys.readouterr().err
    assert said.startswith(line) and said.count("\n") == 1
