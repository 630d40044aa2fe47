"""Package metadata; pyproject.toml holds the settings of the tools."""

import re
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
version = re.search(r'__version__ = "(.+)"', (here / "solar_tf/__init__.py").read_text())[1]
datasets = sorted(card.parent.name for card in here.glob("data/*/card.json"))

setup(
    name="solar-tf",
    version=version,
    description="SOLAR: Sparse Orthogonal Learned and Random Embeddings, in TensorFlow",
    long_description=(here / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["solar_tf", "solar_tf.*"]),
    # The embedded datasets travel inside the package: solar_tf/embedded is a link to data/.
    package_data={"solar_tf": [f"embedded/{name}/*" for name in datasets]},
    scripts=["preprocess/preprocess.py", "train/train.py", "infer/infer.py"],
    install_requires=[
        "absl-py>=2.1",
        "numba>=0.60",
        "numpy>=1.26",
        "scikit-learn>=1.4",
        "scipy>=1.11",
        "tensorflow>=2.18",
        "tqdm>=4.66",
    ],
    extras_require={
        "bench": ["sparse_dot_topn>=1.1"],
        "tensorboard": ["tensorboard>=2.18"],
        "test": ["hypothesis>=6.100", "pytest>=8", "ruff~=0.17.4", "tensorboard>=2.18"],
    },
)
