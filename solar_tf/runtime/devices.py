"""TensorFlow, loaded quietly, and the devices that it finds."""

import contextlib
import os
import sys
import tempfile

from solar_tf.runtime.console import say


def load_tensorflow(threads=None):
    """Import TensorFlow quietly and let it find its devices; returns its GPUs."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Off by default on CPUs without AVX-512, though a training step is 1.3 times as fast with it.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    with _quiet_start():
        import tensorflow as tf

        if threads:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
        gpus = tf.config.list_physical_devices("GPU")
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
    return gpus


@contextlib.contextmanager
def _quiet_start():
    """Hold back what TensorFlow's libraries write to stderr while they load.

    It is printed if loading fails, and where there is a GPU driver.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        worth_saying = os.path.exists("/proc/driver/nvidia")
        try:
            yield
        except BaseException:
            worth_saying = True
            raise
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            if worth_saying:
                held.seek(0)
                sys.stderr.write(held.read().decode(errors="replace"))


def use_gpu(gpu):
    """Show TensorFlow the one GPU, load it, and say what it will train on: GPU or CPU."""
    if "tensorflow" in sys.modules:
        raise RuntimeError("TensorFlow is loaded already: CUDA_VISIBLE_DEVICES comes too late")
    os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)
    if load_tensorflow():
        say(f"training on GPU {gpu}")
        return "GPU"
    say(f"no GPU {gpu} here: training on the CPU, {os.cpu_count()} cores")
    return "CPU"


def cpu_has_bfloat16(cpuinfo="/proc/cpuinfo"):
    """Whether this CPU multiplies matrices of bfloat16 faster than those of float32.

    TensorFlow crashes at it on CPUs that announce AMX (docs/paper_notes.md).
    """
    with contextlib.suppress(OSError), open(cpuinfo, encoding="ascii") as file:
        able = next((line for line in file if line.startswith("flags")), "").split()
        return "avx512_bf16" in able and "amx_bf16" not in able
    return False
