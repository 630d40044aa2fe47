// Requests to the server, and the guard against answers that arrive out of order.

export class ServerError extends Error {}

export async function get(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(parameters).toString();
  const response = await fetch(query ? `${path}?${query}` : path, { signal });
  const content = await response.json().catch(() => null);
  if (!response.ok) {
    throw new ServerError(content?.error?.message ?? `the server answered ${response.status}`);
  }
  return content;
}

// Only the latest of overlapping requests is shown: an older one is aborted, and should its
// answer have arrived already, dropped.
export class Latest {
  #turn = 0;
  #abort = null;

  cancel() {
    this.#turn += 1;
    this.#abort?.abort();
  }

  async run(request, show, fail) {
    this.cancel();
    const turn = this.#turn;
    this.#abort = new AbortController();
    try {
      const answer = await request(this.#abort.signal);
      if (turn === this.#turn) show(answer);
    } catch (error) {
      if (turn === this.#turn && error.name !== "AbortError") fail(error);
    }
  }
}
