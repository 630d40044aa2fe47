// The list of results: title, score, and a bar for what each chunk added to it.

import { count, draw, make, probability } from "./dom.js";

const SPARE = 0.08; // of a bar's height, so that a hit that adds little can be seen

export function bars(chunks, most) {
  const hits = chunks.filter((chunk) => chunk.weight > 0).length;
  const parts = chunks.map((chunk, number) => {
    const hit = chunk.weight > 0;
    const share = Math.min(1, chunk.weight / most);
    return make("i", {
      class: hit ? "hit" : "miss",
      style: { "--share": hit ? SPARE + (1 - SPARE) * share : 0 },
      title: hit
        ? `chunk ${number}: bucket ${count(chunk.bucket)}, p ${probability(chunk.probability)}, adds ${chunk.weight.toFixed(2)}`
        : `chunk ${number}: bucket ${count(chunk.bucket)}, p ${probability(chunk.probability)}, adds nothing`,
    });
  });
  return make(
    "span",
    { class: "bars", role: "img", "aria-label": `found in ${hits} of ${chunks.length} chunks` },
    parts,
    make("small", { "aria-hidden": "true" }, `${hits}/${chunks.length}`),
  );
}

// One in the midst of others.
const web = () =>
  draw(
    "svg",
    { viewBox: "0 0 20 20", "aria-hidden": "true" },
    draw("path", { d: "M10 10 3.5 5M10 10l7-4M10 10l-3 7M10 10l6 5" }),
    ...[[10, 10, 3], [3.5, 5, 2], [17, 6, 2], [7, 17, 2], [16, 15, 2]].map(([cx, cy, r]) => draw("circle", { cx, cy, r })),
  );

// What one chunk can add at most, so that bars of different results compare.
export const mostOf = (score, floor) => (score === "probability" ? 1 : Math.log(1 / floor));

// A number means nothing without its name.
const facts = (attributes) =>
  attributes && Object.keys(attributes).length
    ? make(
        "small",
        { class: "facts" },
        Object.entries(attributes).map(([name, value]) =>
          make("span", { title: name }, typeof value === "number" ? `${name} ${count(value)}` : value),
        ),
      )
    : null;

export function renderResults(list, labels, { most, select, neighbours }) {
  list.replaceChildren(
    ...labels.map((found, place) => {
      const title = found.title ?? `label ${count(found.label)}`;
      const row = make(
        "button",
        {
          type: "button",
          class: "row",
          "data-place": place,
          on: { click: () => select(place), focus: () => select(place) },
        },
        make("span", { class: "rank", "aria-hidden": "true" }, `${place + 1}`),
        make("span", { class: "what" }, make("span", { class: "title" }, title), facts(found.attributes)),
        found.chunks ? bars(found.chunks, most) : make("span", { class: "bars" }),
        make("span", { class: "score" }, found.score.toFixed(2)),
      );
      const more = make(
        "button",
        {
          type: "button",
          class: "more",
          "aria-label": `Neighbours of ${title}`,
          title: "Neighbours (n)",
          on: { click: () => neighbours(place) },
        },
        web(),
        make("span", {}, "neighbours"),
      );
      return make("li", {}, row, more);
    }),
  );
}

export function markSelected(list, place) {
  [...list.children].forEach((item, i) => {
    item.classList.toggle("selected", i === place);
    const row = item.firstElementChild;
    if (i === place) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  });
}
