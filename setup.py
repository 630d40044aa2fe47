"""Package metadata; pyproject.toml holds the settings of the tools."""

import json
import re
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
version = re.search(r'__version__ = "(.+)"', (here / "solar_tf/__init__.py").read_text())[1]

# The cards and the datasets that they pin travel inside the package, where solar_tf/embedded is
# a link to data/; what else lies beside a card, such as a download of gigabytes, does not.
cards = {card.parent.name: json.loads(card.read_bytes()) for card in here.glob("data/*/card.json")}
embedded = [
    f"embedded/{name}/{file}"
    for name, card in sorted(cards.items())
    for file in ("card.json", *card.get("sha256", ()))
]

# Without httptools and uvloop, uvicorn parses HTTP in Python.
serve = [
    "fastapi>=0.115",
    "httptools>=0.6.3",
    "prometheus_client>=0.20",
    "uvicorn>=0.34",
    "uvloop>=0.21; os_name == 'posix'",
]

setup(
    name="solar-tf",
    version=version,
    description="SOLAR: Sparse Orthogonal Learned and Random Embeddings, in TensorFlow",
    long_description=(here / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["solar_tf", "solar_tf.*"]),
    package_data={"solar_tf.serving": ["page/*"], "solar_tf": ["py.typed", *embedded]},
    scripts=["preprocess/preprocess.py", "train/train.py", "infer/infer.py"],
    entry_points={"console_scripts": ["solar = solar_tf.cli.solar:main"]},
    install_requires=[
        "absl-py>=2.1",
        "matplotlib>=3.8",
        "numba>=0.60",
        "numpy>=1.26",
        "scikit-learn>=1.4",
        "scipy>=1.11",
        "tensorflow>=2.18",
        "tqdm>=4.66",
    ],
    extras_require={
        "baselines": ["faiss-cpu>=1.9", "omikuji>=0.5"],
        "bench": ["sparse_dot_topn>=1.1"],
        "milvus": ["pymilvus>=2.5"],
        "qdrant": ["qdrant-edge-py>=0.5"],
        "ray": ["ray>=2.52"],
        "serve": serve,
        "store": ["fsspec>=2024.2"],
        "tensorboard": ["tensorboard>=2.18"],
        "test": [
            *serve,
            "faiss-cpu>=1.9",
            "flask>=3",  # with moto, an S3 server
            "flask-cors>=4",
            "httpx>=0.27",
            "hypothesis>=6.100",
            "milvus-lite>=3; platform_system == 'Linux'",
            "moto[s3]>=5.1",
            "mypy>=1.11",
            "omikuji>=0.5",
            "pymilvus>=2.5",
            "pytest>=8",
            "pytest-xdist>=3.6",
            "PyYAML>=6",
            "qdrant-edge-py>=0.5",
            "ray>=2.52",
            "ruff~=0.17.4",
            "s3fs>=2024.2",
            "schemathesis>=4",
            "selenium>=4.20",
            "tensorboard>=2.18",
        ],
    },
)
