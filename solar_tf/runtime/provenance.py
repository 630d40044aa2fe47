"""Where a figure comes from: the machine, the versions and the commit that measured it."""

import datetime
import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

PACKAGES = ("numpy", "numba", "scipy", "scikit-learn", "tensorflow")
HERE = Path(__file__).parent


def machine():
    """Processor, memory, versions and commit: what a measured time depends on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(": ")[1] for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load": round(os.getloadavg()[0], 1),  # of other work, when asked before the work begins
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }


@functools.cache
def commit():
    """The commit of this checkout, with -dirty where code differs from it; None if installed."""
    try:
        # An installation may lie inside a repository of something else.
        _git("ls-files", "--error-unmatch", "__init__.py")
        changed = _git("diff", "--name-only", "HEAD", "--", ":(top)*.py")
        return _git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments):
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
