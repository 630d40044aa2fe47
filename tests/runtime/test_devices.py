"""TensorFlow's devices."""

import pytest

from solar_tf.runtime.devices import cpu_has_bfloat16


@pytest.mark.parametrize(
    ("flags", "able"),
    [
        ("fpu avx512f avx512_bf16", True),
        ("fpu avx512f", False),
        ("fpu avx512f avx512_bf16 amx_bf16 amx_tile", False),  # TensorFlow crashes there
        (None, False),
    ],
)
def test_bfloat16_only_on_cpus_that_are_faster_with_it(tmp_path, flags, able):
    path = tmp_path / "cpuinfo"
    if flags:
        path.write_text(f"processor\t: 0\nmodel name\t: a CPU\nflags\t\t: {flags}\n")
    assert cpu_has_bfloat16(path) is able
