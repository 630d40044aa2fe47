// How the query was answered, with its own numbers: words, buckets, the label's vector, the sum.

import { count, draw, make, percent, plural, probability } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 22;

const ordinal = (n) => {
  const rest = n % 100;
  const ending = rest > 10 && rest < 14 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return `${count(n)}${ending}`;
};

const step = (number, title, ...content) =>
  make(
    "section",
    { class: "step" },
    make("h3", {}, make("b", { "aria-hidden": "true" }, `${number}`), title),
    ...content,
  );

function words(explanation, run) {
  const most = Math.max(...explanation.words.map((word) => word.weight ?? 0), 1e-9);
  const known = explanation.words.filter((word) => word.weight !== null).length;
  const chips = explanation.words.map(({ word, weight }) =>
    make(
      "li",
      {
        class: weight === null ? "unknown" : "known",
        style: { "--share": weight === null ? 0 : weight / most },
        title: weight === null ? "not in the vocabulary" : `weight ${weight.toFixed(2)}`,
      },
      word,
      make("span", { class: "unseen" }, weight === null ? " (unknown)" : ` (weight ${weight.toFixed(2)})`),
    ),
  );
  return step(
    1,
    "The words of the query",
    make(
      "p",
      {},
      `${known} of ${plural(explanation.words.length, "word")} ${known === 1 ? "is" : "are"} among the ${count(run.vocabulary)} of the vocabulary. `,
      `Each chunk hashes them to ${count(run.input)} inputs with a seed of its own.`,
    ),
    make("ul", { class: "words" }, chips),
  );
}

// One chunk's output as an axis of B buckets: a line for each of the likeliest, and the label's.
function strip(chunk, part, run, floor) {
  const x = (bucket) => (WIDTH * (bucket + 0.5)) / run.buckets;
  const height = (p) => Math.max(1.5, (HEIGHT - 4) * Math.max(0, Math.log(p / floor) / Math.log(1 / floor)));
  const spike = (bucket, p, own, hint) =>
    draw(
      "line",
      { class: own ? "spike own" : "spike", x1: x(bucket), x2: x(bucket), y1: HEIGHT, y2: HEIGHT - height(p) },
      hint && draw("title", {}, hint),
    );
  const lines = chunk.buckets.map((bucket, i) => {
    const p = chunk.probabilities[i];
    return spike(bucket, p, false, `bucket ${count(bucket)}: p ${probability(p)}, ${plural(chunk.labels[i], "label")}`);
  });
  if (part) {
    const foot = { x1: x(part.bucket), x2: x(part.bucket), y1: HEIGHT, y2: HEIGHT + 4 };
    if (part.weight > 0) lines.push(spike(part.bucket, part.probability, true));
    lines.push(draw("line", { class: part.weight > 0 ? "mark" : "mark miss", ...foot }));
  }
  return draw(
    "svg",
    { class: "strip", viewBox: `-3 0 ${WIDTH + 6} ${HEIGHT + 4}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
    ...lines,
  );
}

function buckets(explanation, found, run, floor) {
  const rows = explanation.chunks.map((chunk, k) => {
    const part = found?.chunks?.[k];
    const cells = part
      ? [
          make("td", {}, count(part.bucket)),
          make("td", {}, probability(part.probability)),
          make("td", {}, part.rank === null ? "–" : ordinal(part.rank)),
          make("td", { class: "adds" }, part.weight > 0 ? `+${part.weight.toFixed(2)}` : "miss"),
        ]
      : [
          make("td", {}, count(chunk.buckets[0])),
          make("td", {}, probability(chunk.probabilities[0])),
          make("td", {}, "1st"),
          make("td", {}, plural(chunk.labels[0], "label")),
        ];
    return make(
      "tr",
      { class: part && !part.weight ? "miss" : null },
      make("th", { scope: "row" }, `${chunk.chunk}`),
      make("td", { class: "wide" }, strip(chunk, part, run, floor)),
      ...cells,
    );
  });
  const head = ["chunk", `likeliest of ${count(run.buckets)} buckets`, "bucket", "p", "rank", "adds"];
  const foot = found?.chunks
    ? make(
        "tfoot",
        {},
        make(
          "tr",
          {},
          make("th", { scope: "row", colspan: 5 }, "sum, the label's score"),
          make("td", { class: "adds" }, found.score.toFixed(2)),
        ),
      )
    : null;
  return make(
    "table",
    {},
    make("thead", {}, make("tr", {}, head.map((text, i) => make("th", { scope: "col", class: i === 1 ? "wide" : null }, text)))),
    make("tbody", {}, rows),
    foot,
  );
}

function lookup(answer, run, m, where) {
  const all = run.labels;
  const passed = where ? " that the filter lets pass" : "";
  const text =
    m === "full"
      ? [`Every one of the ${count(where ? answer.candidates : all)} labels${passed} is scored from its ${plural(run.chunks, "bucket")} (SOLAR-full): no shortlist.`]
      : [
          `The ${count(Math.min(m, run.buckets))} likeliest buckets of each chunk are looked up in ${plural(run.chunks, "inverted index", "inverted indexes")}. `,
          `Of ${count(all)} labels they hold ${count(answer.candidates)}${passed}, ${percent(answer.candidates / all)}: only those are scored.`,
        ];
  return make("p", {}, ...text);
}

function vector(found, run) {
  const origin =
    found.label < run.trained
      ? "set by a hash of that number and never learned"
      : "chosen when it was added, as a rule by what the networks made of its title";
  const ones = found.chunks.map((chunk, k) => count(chunk.bucket + k * run.buckets));
  return step(
    3,
    "The vector of the label",
    make(
      "p",
      {},
      make("q", {}, found.title ?? `label ${count(found.label)}`),
      ` is number ${count(found.label)}. Its vector has ${plural(run.chunks, "one")} in ${count(run.buckets * run.chunks)} places, ${origin}:`,
    ),
    make("p", { class: "ones" }, ones.join(" · ")),
    make(
      "p",
      { class: "fine" },
      `Two labels share ${(run.chunks / run.buckets).toFixed(4)} buckets on average (K/B): nearly orthogonal, which is why ${plural(run.chunks, "small network")} can be trained apart.`,
    ),
  );
}

function sum(found, score, floor) {
  const hits = found.chunks.filter((chunk) => chunk.weight > 0).length;
  const rule =
    score === "probability"
      ? "The probabilities of its hit buckets add up, as in the paper."
      : `Each hit bucket adds its evidence, log(p / ${floor}), so that agreement of many chunks beats one that is sure.`;
  return step(
    4,
    "Its score",
    make("p", {}, `${hits} of ${found.chunks.length} chunks found the label. ${rule}`),
  );
}

export function renderExplanation(panel, { answer, found, run, m, score, where }) {
  const explanation = answer?.explanation;
  if (!explanation) {
    panel.replaceChildren(introduction(run));
    return;
  }
  if (!explanation.chunks.length) {
    panel.replaceChildren(make("h2", {}, "How this was found"), words(explanation, run));
    return;
  }
  const labelled = found?.chunks ? found : null;
  panel.replaceChildren(
    make("h2", {}, "How this was found"),
    words(explanation, run),
    step(
      2,
      `${plural(run.chunks, "network")}, ${count(run.buckets)} buckets each`,
      lookup(answer, run, m, where),
      buckets(explanation, labelled, run, run.floor),
    ),
    ...(labelled ? [vector(labelled, run), sum(labelled, score, run.floor)] : []),
  );
}

function introduction(run) {
  const item = (title, text) => make("li", {}, make("b", {}, title), ` ${text}`);
  return make(
    "div",
    { class: "step" },
    make("h2", {}, "How it works"),
    make(
      "ol",
      { class: "idea" },
      item("Labels get random vectors.", `A hash puts each of the ${count(run.labels)} labels into one of ${count(run.buckets)} buckets, ${run.chunks} times over.`),
      item("Queries learn theirs.", `${plural(run.chunks, "small network")}, trained apart, tell the likely buckets of a text.`),
      item("Search is a lookup.", "The likeliest buckets of each network hold few labels. Those found again and again win."),
    ),
    make("p", { class: "fine" }, "Ask something, and the numbers of that query appear here."),
  );
}
