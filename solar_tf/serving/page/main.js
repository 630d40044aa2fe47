// The search page: a box, results as you type, neighbours by click, and the way they were found.

import { get, Latest } from "./api.js";
import { make, milliseconds, plural } from "./dom.js";
import { renderExplanation } from "./explain.js";
import { Filters } from "./filters.js";
import { markSelected, mostOf, renderResults } from "./results.js";

const DEBOUNCE = 70; // milliseconds without a key
const K = 10;

const $ = (id) => document.getElementById(id);
const [form, input, list, status, crumb, start, panel] = ["form", "q", "results", "status", "crumb", "start", "how"].map($);
const latest = new Latest();
const view = { run: null, answer: null, labels: [], place: 0, of: null, filters: null };
let timer = null;

const settings = () => {
  const data = new FormData(form);
  const m = data.get("m");
  return { m: m === "full" ? m : Number(m), score: data.get("score"), where: view.filters.where() };
};

// The address says what is shown, so that it can be shared and gone back to.
function remember(push = false) {
  const { m, score } = settings();
  const parameters = new URLSearchParams();
  if (input.value.trim()) parameters.set("q", input.value.trim());
  if (view.of !== null) parameters.set("neighbours", view.of);
  if (m !== 100) parameters.set("m", m);
  if (score !== "evidence") parameters.set("score", score);
  view.filters.save(parameters);
  const query = parameters.toString();
  const address = query ? `?${query}` : location.pathname;
  if (push) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

function recall() {
  const parameters = new URLSearchParams(location.search);
  input.value = parameters.get("q") ?? "";
  for (const name of ["m", "score"]) {
    const radio = form.querySelector(`[name=${name}][value="${CSS.escape(parameters.get(name) ?? "")}"]`);
    (radio ?? form.querySelector(`[name=${name}][checked]`)).checked = true;
  }
  view.filters.load(parameters);
  const of = Number.parseInt(parameters.get("neighbours"), 10);
  view.of = Number.isNaN(of) ? null : of;
}

function refresh() {
  clearTimeout(timer);
  if (view.of !== null) return showNeighbours();
  const q = input.value.trim();
  if (!q) return clear();
  return request("search", { q });
}

const showNeighbours = () => request(`labels/${view.of}/neighbours`, {});

function request(path, parameters) {
  const { m, score, where } = settings();
  const sent = performance.now();
  const wanted = { ...parameters, k: K, m, score, explain: true, ...(where && { where }) };
  return latest.run(
    (signal) => get(path, wanted, signal),
    ({ answers: [answer], ms }) => {
      show(answer);
      const all = performance.now() - sent;
      status.textContent = `${plural(answer.candidates, "label")} scored · ${milliseconds(ms.searched)} to search, ${milliseconds(all)} in all`;
    },
    failed,
  );
}

function show(answer) {
  const labels = answer.labels;
  Object.assign(view, { answer, labels, place: 0 });
  start.replaceChildren(...(labels.length ? [] : [nothing(answer)]));
  crumb.hidden = view.of === null;
  if (view.of !== null) {
    crumb.replaceChildren(
      make("button", { type: "button", "aria-label": "Back to the results", on: { click: back } }, "←"),
      make("span", {}, "Neighbours of ", make("b", {}, answer.query)),
    );
  }
  const most = mostOf(settings().score, view.run.floor);
  renderResults(list, labels, { most, select, neighbours });
  select(0);
}

function nothing(answer) {
  const unknown = answer?.explanation?.words.every((word) => word.weight === null);
  const widen = settings().where ? " within the filter. Widen it." : ".";
  const text = unknown ? "None of these words is in the vocabulary of this run. Try others." : `Nothing was found${widen}`;
  return make("p", { class: "notice" }, text);
}

function failed(error) {
  list.replaceChildren();
  panel.replaceChildren();
  start.replaceChildren(make("p", { class: "notice error", role: "alert" }, `${error.message}`));
  status.textContent = "";
}

function clear() {
  latest.cancel();
  Object.assign(view, { answer: null, labels: [], place: 0, of: null });
  list.replaceChildren();
  crumb.hidden = true;
  status.textContent = "";
  const tries = view.run.examples.map((text) =>
    make("button", { type: "button", on: { click: () => ask(text) } }, text),
  );
  start.replaceChildren(...(tries.length ? [make("p", {}, "Try"), make("div", { class: "examples" }, tries)] : []));
  renderExplanation(panel, { run: view.run });
}

function ask(text) {
  input.value = text;
  view.of = null;
  remember(true);
  input.focus();
  refresh();
}

function select(place) {
  view.place = place;
  markSelected(list, place);
  renderExplanation(panel, { answer: view.answer, found: view.labels[place], run: view.run, ...settings() });
}

function neighbours(place) {
  view.of = view.labels[place].label;
  remember(true);
  refresh().then(() => list.querySelector(".row")?.focus());
}

function back() {
  view.of = null;
  remember(true);
  input.focus();
  refresh();
}

function move(by) {
  const rows = [...list.querySelectorAll(".row")];
  const at = rows.indexOf(document.activeElement.closest("li")?.querySelector(".row"));
  const to = at + by;
  if (to < 0) input.focus();
  else rows[Math.min(to, rows.length - 1)]?.focus();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target === input;
  if (event.target.closest?.("#filters")) {
    // Arrows and letters belong to its fields.
    if (event.key === "Escape") (view.filters.close(), input.focus(), event.preventDefault());
    return;
  }
  const radio = event.target.type === "radio"; // where arrows have a meaning already
  const actions = {
    "/": () => !typing && (input.focus(), input.select()),
    ArrowDown: () => !radio && move(1),
    ArrowUp: () => !radio && !typing && move(-1),
    f: () => !typing && view.filters.focus(),
    n: () => !typing && list.contains(event.target) && neighbours(view.place),
    Escape: () => {
      if (view.of !== null) back();
      else if (!typing) input.focus();
      else if (input.value) ((input.value = ""), edited());
      else return false;
      return true;
    },
  };
  const action = actions[event.key];
  if (action && action() !== false) event.preventDefault();
}

function edited() {
  view.of = null;
  remember();
  clearTimeout(timer);
  timer = setTimeout(refresh, input.value.trim() ? DEBOUNCE : 0);
}

async function main() {
  try {
    view.run = await get("run");
    const { attributes } = view.run.attributes.length ? await get("attributes") : { attributes: [] };
    view.filters = new Filters($("filters"), attributes);
    $("filter-key").hidden = $("filters").hidden;
  } catch (error) {
    failed(error);
    return;
  }
  const { run, labels, chunks, buckets } = view.run;
  $("run").replaceChildren(
    make("b", {}, run),
    make("span", {}, plural(labels, "label")),
    make("span", {}, `${plural(chunks, "chunk")} × ${plural(buckets, "bucket")}`),
  );
  document.title = `${run} · SOLAR search`;
  input.placeholder = `Search ${plural(labels, "label")}`;
  input.addEventListener("input", edited);
  form.addEventListener("submit", (event) => (event.preventDefault(), refresh()));
  form.addEventListener("change", (event) => event.target !== input && (remember(), refresh()));
  document.addEventListener("keydown", onKey);
  window.addEventListener("popstate", () => (recall(), refresh()));
  recall();
  refresh();
}

main();
