// Choices among the attributes of labels: a list for each, or a range of numbers.

import { count, make, plural } from "./dom.js";

const quoted = (text) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;

// What a field of the form asks for, by the start of its name, which ends with the attribute's.
const MEANINGS = {
  "is.": { condition: (name, value) => `${quoted(name)}=${quoted(value)}`, words: (name, value) => value },
  "from.": { condition: (name, value) => `${quoted(name)}>=${value}`, words: (name, value) => `${name} ≥ ${value}` },
  "to.": { condition: (name, value) => `${quoted(name)}<=${value}`, words: (name, value) => `${name} ≤ ${value}` },
};

const meaning = (field) => Object.keys(MEANINGS).find((start) => field.name.startsWith(start));

export class Filters {
  #details;
  #fields = [];

  constructor(details, attributes) {
    this.#details = details;
    const used = attributes.filter(({ distinct }) => distinct > 0);
    details.hidden = !used.length;
    const clear = make("button", { type: "button", class: "clear", on: { click: () => this.#clear() } }, "Clear");
    details.querySelector("div").replaceChildren(...used.map(choice), clear);
    this.#fields = [...details.querySelectorAll("input, select")];
  }

  #given() {
    return this.#fields.filter((field) => field.value.trim() !== "");
  }

  #clear() {
    for (const field of this.#fields) field.value = "";
    this.#fields[0].dispatchEvent(new Event("change", { bubbles: true }));
    this.#fields[0].focus();
  }

  // The conditions, as the server takes them; empty if all labels will do.
  where() {
    return this.#each("condition").join(" ");
  }

  #each(what) {
    return this.#given().map((field) => {
      const start = meaning(field);
      return MEANINGS[start][what](field.name.slice(start.length), field.value.trim());
    });
  }

  save(parameters) {
    for (const field of this.#given()) parameters.set(field.name, field.value.trim());
    this.#tell();
  }

  load(parameters) {
    for (const field of this.#fields) {
      const value = parameters.get(field.name) ?? "";
      // A value that is not among the most frequent ones, or none any more: the server knows.
      if (value && field.options && ![...field.options].some((option) => option.value === value)) {
        field.append(make("option", { value }, value));
      }
      field.value = value;
    }
    this.#tell();
  }

  #tell() {
    const words = this.#each("words");
    this.#details.querySelector("summary span").textContent = words.join(", ");
    this.#details.classList.toggle("active", words.length > 0);
  }

  focus() {
    if (this.#details.hidden) return false;
    this.#details.open = true;
    this.#fields[0].focus();
    return true;
  }

  close() {
    this.#details.open = false;
  }
}

function choice(attribute) {
  const { name, kind, values, distinct } = attribute;
  if (kind === "number") return range(attribute);
  const field = `is.${name}`;
  if (distinct <= values.length) {
    const options = values.map(({ value, labels }) => make("option", { value }, `${value} (${count(labels)})`));
    return make("label", {}, make("span", {}, name), make("select", { name: field }, make("option", { value: "" }, "any"), options));
  }
  const id = `values-of-${name}`;
  return make(
    "label",
    {},
    make("span", {}, name),
    make("input", { name: field, list: id, type: "text", placeholder: `any of ${count(distinct)}`, spellcheck: "false", autocapitalize: "off" }),
    make("datalist", { id }, values.map(({ value, labels }) => make("option", { value }, plural(labels, "label")))),
  );
}

function range({ name, least, most }) {
  const end = (start, word, hint) =>
    make("input", { name: `${start}${name}`, type: "number", step: "any", placeholder: `${hint}`, "aria-label": `${name}, ${word}`, inputmode: "decimal" });
  return make(
    "div",
    { class: "range", role: "group", "aria-label": name },
    make("span", {}, name),
    end("from.", "at least", least),
    make("i", { "aria-hidden": "true" }, "–"),
    end("to.", "at most", most),
  );
}
