"""Numba kernels that parse rows of numbers from bytes.

Imported only where such rows are parsed, since importing numba takes half a second.
A kernel returns an error code and the place of the error; `number_text` makes the messages.
"""

import numpy as np

from solar_tf.runtime.compiled import compiled

OK, BAD_LABEL, LABEL_RANGE, BAD_FEATURE, FEATURE_RANGE, BAD_VALUE, ROW_WIDTH = range(7)

SPACE, TAB, NEWLINE, COMMA, COLON = (ord(c) for c in " \t\n,:")
PLUS, MINUS, POINT, ZERO, NINE = (ord(c) for c in "+-.09")
LOWER_E, UPPER_E = ord("e"), ord("E")

MAX_MANTISSA = 10**17  # one more digit still fits in int64; enough to tell any two float32
MIN_POWER, MAX_POWER = -60, 39
POWERS = np.array([float(f"1e{k}") for k in range(MIN_POWER, MAX_POWER)])


@compiled
def _is_digit(byte):
    return ZERO <= byte <= NINE


@compiled
def _is_blank(byte):
    return byte in (SPACE, TAB)


@compiled
def _integer(data, at):
    """The number that starts at `at`, no more than 2^31, and where it ends."""
    value = 0
    while _is_digit(data[at]):
        value = min(value * 10 + data[at] - ZERO, 2**31)
        at += 1
    return value, at


@compiled
def _number(data, at):
    """The float32 that starts at `at`, where it ends (-1: no number), and whether it is certain.

    Mantissa times power of ten is within 2^-50 of the true value. When both ends of that
    interval round to the same float32, so does the truth; else the caller has to ask
    Python's float, once in some millions of values.
    """
    negative = data[at] == MINUS
    if negative or data[at] == PLUS:
        at += 1
    mantissa, power, start, point = 0, 0, at, 0
    while _is_digit(data[at]) or (data[at] == POINT and not point):
        if data[at] == POINT:
            point = 1
        elif mantissa < MAX_MANTISSA:
            mantissa = mantissa * 10 + (data[at] - ZERO)
            power -= point
        else:
            power += 1 - point
        at += 1
    if at == start + point:
        return np.float32(0), -1, True
    if data[at] == LOWER_E or data[at] == UPPER_E:
        at += 1
        sign = -1 if data[at] == MINUS else 1
        if data[at] == MINUS or data[at] == PLUS:
            at += 1
        start = at
        exponent, at = _integer(data, at)
        if at == start:
            return np.float32(0), -1, True
        power += sign * exponent
    if mantissa == 0:
        return np.float32(-0.0 if negative else 0.0), at, True
    if not MIN_POWER <= power < MAX_POWER:
        return np.float32(0), at, False
    value = mantissa * POWERS[power - MIN_POWER]
    low, high = np.float32(value * (1 - 2.0**-50)), np.float32(value * (1 + 2.0**-50))
    return -low if negative else low, at, low == high and np.isfinite(high)


@compiled
def _labels(data, at, max_labels, labels, count):
    """Read `l,l,l` up to a blank or the line's end. Returns error, place, number of labels.

    A first token `f:v` is left alone: the row has no labels.
    """
    first = at
    while not (at == first and (_is_blank(data[at]) or data[at] == NEWLINE)):
        start = at
        label, at = _integer(data, at)
        after = data[at]
        if after == COLON and start == first and at > start:
            return OK, start, count
        if at == start or not (_is_blank(after) or after in (COMMA, NEWLINE)):
            return BAD_LABEL, start, count
        if label >= max_labels:
            return LABEL_RANGE, start, count
        labels[count] = label
        count += 1
        if after != COMMA:
            break
        at += 1
    return OK, at, count


@compiled
def parse_rows(
    data, labelled, width, max_labels, max_features,
    label_splits, labels, feature_splits, features, values, doubtful,
):  # fmt: skip
    """Parse lines `l,l f:v f:v`, or `f:v f:v` unless `labelled`, from bytes that end in newline.

    With a `width` above 0 there are no `f:`, but exactly that many values in every row.
    Fills label_splits and feature_splits [n + 1], and labels, features and values as far as
    needed; doubtful [., 2] gets (position in values, position in data) of the values whose
    rounding is not certain. Returns (error, its place in data, number of doubtful).
    """
    at, num_labels, num_values, num_doubtful = 0, 0, 0, 0
    for row in range(len(label_splits) - 1):
        line = at
        if labelled:
            error, at, num_labels = _labels(data, at, max_labels, labels, num_labels)
            if error:
                return error, at, num_doubtful
        while True:
            while _is_blank(data[at]):
                at += 1
            if data[at] == NEWLINE:
                break
            start = at
            if not width:
                feature, at = _integer(data, at)
                if at == start or data[at] != COLON:
                    return BAD_FEATURE, start, num_doubtful
                if feature >= max_features:
                    return FEATURE_RANGE, start, num_doubtful
                features[num_values] = feature
                start = at + 1
            value, at, certain = _number(data, start)
            if at < 0 or not (_is_blank(data[at]) or data[at] == NEWLINE):
                return BAD_VALUE, start, num_doubtful
            if not certain:
                doubtful[num_doubtful] = num_values, start
                num_doubtful += 1
            values[num_values] = value
            num_values += 1
        if width and num_values - feature_splits[row] != width:
            return ROW_WIDTH, line, num_doubtful
        at += 1
        label_splits[row + 1] = num_labels
        feature_splits[row + 1] = num_values
    return OK, at, num_doubtful
