"""The server under load, beside the same queries offline; and how soon it answers.

    python benchmarks/bench_serving.py --run RUN              a trained run of titles
    python benchmarks/bench_serving.py --run RUN --start DIR  also the start of a run: the one
                                                              in DIR, or one made there

Clients are processes of their own, on 127.0.0.1 only. Queries are titles of labels.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import httpx
import numpy as np
import uvloop
from common import cost, faster, figure, machine, print_rows, write_results

from solar_tf.config import SolarConfig, load_preset
from solar_tf.datasets.dataset import open_files
from solar_tf.preprocessing.stage import preprocess
from solar_tf.retrieval.searcher import open_searcher
from solar_tf.run.directory import open_run
from solar_tf.run.files import atomic_folder
from solar_tf.run.weights import save_weights, weight_shapes
from solar_tf.runtime.console import progress

CONNECTIONS = (1, 8, 64)
SECONDS = 8.0  # of load for each row
QUERIES = 2000
BOOKS_LABELS = 196_000
WORDS = 150_000


@contextlib.contextmanager
def serving(root):
    """`solar serve` in a process of its own; yields its address and the seconds it took."""
    command = [sys.executable, "-m", "solar_tf", "serve", str(root), "--port=0", "--rate=0"]
    command += [f"--num_chunks={len(open_run(root).trained_chunks())}"]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    )
    try:
        line = process.stdout.readline()
        yield re.search(r"http://\S+", line)[0], started
    finally:
        process.terminate()
        process.wait()


def load(url, texts, connections, seconds, results):
    """In a process: ask on so many connections, each one after another.

    The client is written out: a library's would take more time for a request than the server.
    """
    address = urlsplit(url)
    head = f" HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n"
    requests = [f"GET /search?{urlencode({'q': text})}{head}".encode() for text in texts]

    async def connection(number, end):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        place, times = number, []
        while time.perf_counter() < end:
            sent = time.perf_counter()
            writer.write(requests[place % len(requests)])
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            length = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
            await reader.readexactly(int(length[1]))
            times.append(time.perf_counter() - sent)
            place += connections
        writer.close()
        return times

    async def main():
        end = time.perf_counter() + seconds
        return await asyncio.gather(*(connection(number, end) for number in range(connections)))

    results.put([t for times in uvloop.run(main()) for t in times])


def measure(url, texts, connections):
    """Queries a second, and the median and 99th percentile of their milliseconds."""
    results = multiprocessing.Queue()
    client = multiprocessing.Process(target=load, args=(url, texts, connections, SECONDS, results))
    client.start()
    times = np.array(results.get())
    client.join()
    p50, p99 = 1000 * np.percentile(times, [50, 99])
    return len(times) / SECONDS, p50, p99


def offline(searcher, texts, batch):
    """Queries a second of the same search without a server, so many texts at a time."""
    blocks = [texts[i : i + batch] for i in range(0, len(texts), batch)]
    searcher.search_batch(blocks[0], explain=False)
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS / 2:
        block = blocks[done % len(blocks)]
        searcher.search_batch(block, explain=False)
        done += 1
    return done * batch / (time.perf_counter() - started)


def load_rows(root):
    searcher = open_searcher(root)
    name, generator = Path(root).name, np.random.default_rng(0)
    labels = generator.choice(searcher.num_labels, min(QUERIES, searcher.num_labels), replace=False)
    texts = [searcher.title(int(label)) for label in labels]
    rows = []
    with serving(root) as (url, _):
        httpx.get(f"{url}search", params={"q": texts[0]}, timeout=120)
        for connections in CONNECTIONS:
            what = f"{name}, {connections} connection{'s' * (connections > 1)}"
            alone = offline(searcher, texts, connections)
            rate, p50, p99 = measure(url, texts, connections)
            against = f"offline, {connections} at a time"
            rows.append(faster(f"solar serve, {what}", against, rate, alone, "queries/s"))
            rows.append(figure(f"the same, {what}: p50", p50, "ms"))
            rows.append(figure(f"the same, {what}: p99", p99, "ms"))
    return rows


def make_books(folder):
    """A run of books' size whose titles and weights are random, made with the stages' functions."""
    root, files = folder / "books_size", [folder / f"{n}.txt" for n in ("train", "test", "labels")]
    config = load_preset("books200k")
    if not all(path.exists() for path in files):
        generator = np.random.default_rng(0)
        words = np.array([f"w{i}" for i in range(WORDS)])
        # Zipf's law, and every word once.
        ids = np.minimum(generator.zipf(1.3, 6 * BOOKS_LABELS) - 1, WORDS - 1)
        ids[:WORDS] = np.arange(WORDS)
        titles = [" ".join(row) for row in words[generator.permutation(ids).reshape(-1, 6)]]
        folder.mkdir(parents=True, exist_ok=True)
        files[2].write_text("".join(f"{title}\n" for title in titles))
        for path, first, last in ((files[0], 0, 100_000), (files[1], 0, 100)):
            path.write_text("".join(f"{i}\t{titles[i]}\n" for i in range(first, last)))
    run = preprocess(root, open_files(*files), config, os.cpu_count())
    shapes = weight_shapes(config, run.input_dim)
    with progress(config.num_chunks, "random weights", "chunk") as bar:
        for chunk in range(config.num_chunks):
            if not run.paths.chunk(chunk).exists():
                save_random(run, chunk, shapes, config)
            bar.update()
    return root


def save_random(run, chunk, shapes, config: SolarConfig):
    generator = np.random.default_rng(chunk)
    weights = {
        name: generator.standard_normal(shape, np.float32) * np.float32(0.05)
        for name, shape in shapes.items()
    }
    weights["output_bias"] -= 7
    with atomic_folder(run.paths.chunk(chunk)) as folder:
        save_weights(folder, weights, {"chunk": chunk, "seed": run.seeds[chunk]})


def start_rows(folder):
    """Seconds from the command to the first answer: twice, since the first run reads the disk."""
    root = folder if (folder / "config.json").exists() else make_books(folder)
    run = open_run(root)
    chunks, labels = len(run.trained_chunks()), run.dataset["num_labels"]
    with open(run.paths.label_titles, encoding="utf-8") as titles:
        query = titles.readline().strip()
    size = sum(path.stat().st_size for path in run.paths.chunks.rglob("*.npy"))
    rows, facts = [], f"{labels:,} labels, K={chunks}, {size / 1e9:.1f} GB of weights"
    for what, forget in (("not verified yet", True), ("verified before", False)):
        if forget:
            for memory in root.rglob("verified.json"):
                memory.unlink()
        with serving(root) as (url, started):
            answer = httpx.get(f"{url}search", params={"q": query}, timeout=120)
            first = time.perf_counter() - started
            assert answer.json()["answers"][0]["labels"]
            while (health := httpx.get(f"{url}health").json())["status"] == "verifying":
                time.sleep(0.1)
            assert health["status"] == "ok", health
            verified = time.perf_counter() - started
        rows.append(figure(f"first answer, {facts}, {what}", first, "s", "under 3 s", first < 3))
        rows.append(cost(f"all verified, {what}", "the first answer", verified, first, "s"))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, action="append", required=True, help="a trained run")
    parser.add_argument("--start", type=Path, help="a run, or a folder for one of books' size")
    args = parser.parse_args()
    on = machine()
    rows = [row for root in args.run for row in load_rows(root)]
    if args.start:
        rows += start_rows(args.start)
    print_rows(rows)
    write_results("serving", rows, on)
    print(json.dumps(on["load"]))


if __name__ == "__main__":
    main()
