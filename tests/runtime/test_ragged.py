import numpy as np

from solar_tf.runtime.ragged import row_numbers, row_splits, slice_rows, take_rows

ROWS = [[1, 2], [], [3], [4, 5, 6], []]


def test_rows_survive_every_way_of_taking_them():
    splits, values = row_splits([len(row) for row in ROWS]), np.concatenate(ROWS).astype(int)
    assert splits.tolist() == [0, 2, 2, 3, 6, 6] and splits.dtype == np.int64
    assert row_numbers(splits).tolist() == [0, 0, 2, 3, 3, 3]
    part = slice_rows(splits, values, 1, 4)
    assert part[0].tolist() == [0, 0, 1, 4] and part[1].tolist() == [3, 4, 5, 6]
    assert row_numbers(splits[2:5]).tolist() == [0, 1, 1, 1]
    chosen, places = take_rows(splits, np.array([3, 1, 0, 3]))
    assert chosen.tolist() == [0, 3, 3, 5, 8]
    assert values[places].tolist() == [4, 5, 6, 1, 2, 4, 5, 6]
    assert row_splits([]).tolist() == [0]
