"""Serve a run over HTTP, add labels to it while it is served, and find them.

    python examples/serve_and_add_labels.py

The server takes any free port, and ends with the program. Needs pip install 'solar-tf[serve]'.
"""

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import urllib.request

from solar_tf import Solar

TITLES = ["red apple", "green apple", "red brick", "grey brick", "oak table", "pine table"] * 50
LABELS = [[0], [0], [1], [1], [2], [2]] * 50


def post(url, body, token=None):
    """The JSON answer to a request."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def search(url, query):
    (answer,) = post(f"{url}/search", {"queries": [query], "k": 3})["answers"]
    print(f"{query}:", ", ".join(label["title"] for label in answer["labels"]))


def main():
    token = secrets.token_hex(16)  # whoever knows it may change the run's labels
    with tempfile.TemporaryDirectory() as folder:
        solar = Solar(num_chunks=4, num_buckets=16, batch_size=8, epochs=5, learning_rate=1e-2)
        solar.fit(TITLES, LABELS, ["fruit", "building", "furniture"], run=folder)
        command = [sys.executable, "-m", "solar_tf", "serve", folder, "--port", "0"]
        env = os.environ | {"SOLAR_TOKEN": token}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:
            try:
                url = re.search(r"http://[^/\s]+", server.stdout.readline())[0]
                search(url, "brick")
                added = post(f"{url}/labels", {"titles": ["brick houses", "apple pie"]}, token)
                print("added labels", added["labels"])
                search(url, "brick")
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
