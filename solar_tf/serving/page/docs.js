// The server's OpenAPI document for people to read; nothing is loaded from elsewhere.

import { get } from "./api.js";
import { make } from "./dom.js";

const resolve = (document, schema) =>
  schema?.$ref ? document.components.schemas[schema.$ref.split("/").pop()] : (schema ?? {});

function typeOf(document, schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.anyOf) return schema.anyOf.map((part) => typeOf(document, part)).join(" or ");
  if (schema.type === "array") return `list of ${typeOf(document, schema.items ?? {})}`;
  const from = schema.minimum ?? schema.minLength;
  const to = schema.maximum ?? schema.maxLength;
  const bounds = from !== undefined || to !== undefined ? ` ${from ?? ""}…${to ?? ""}` : "";
  return `${schema.type ?? "anything"}${bounds}`;
}

function rows(document, fields) {
  return make(
    "table",
    {},
    make(
      "tbody",
      {},
      fields.map(({ name, schema, required, description }) =>
        make(
          "tr",
          {},
          make("td", {}, make("code", {}, name), required ? " *" : ""),
          make("td", {}, typeOf(document, schema), schema.default !== undefined && schema.default !== null ? `, default ${JSON.stringify(schema.default)}` : ""),
          make("td", {}, description ?? schema.description ?? ""),
        ),
      ),
    ),
  );
}

const properties = (schema) =>
  Object.entries(schema.properties ?? {}).map(([name, field]) => ({ name, schema: field, required: schema.required?.includes(name) }));

function example(method, path, body) {
  const address = `${location.origin}${path.replace("{label}", "0")}`;
  const token = "-H 'Authorization: Bearer TOKEN'";
  const parts = {
    "get /search": `curl '${address}?q=web+forms&k=5'`,
    "post /search": `curl ${address} -H 'Content-Type: application/json' -d '{"queries": ["web forms"], "k": 5}'`,
    "post /labels": `curl ${address} ${token} -H 'Content-Type: application/json' -d '{"titles": ["a new label"]}'`,
    "delete /labels": `curl -X DELETE '${address}?label=0' ${token}`,
    "post /reload": `curl -X POST ${address} ${token}`,
  };
  return parts[`${method} ${path}`] ?? `curl ${address}${body ? " -d '{}'" : ""}`;
}

function operation(document, path, method, facts) {
  const parameters = (facts.parameters ?? []).map(({ name, schema, required, description }) => ({ name, schema, required, description }));
  const body = resolve(document, facts.requestBody?.content["application/json"]?.schema);
  const answers = Object.entries(facts.responses).filter(([status]) => status.startsWith("2"));
  const answer = resolve(document, answers[0]?.[1].content?.["application/json"]?.schema);
  const part = (title, fields) => (fields.length ? [make("h3", {}, title), rows(document, fields)] : []);
  return make(
    "details",
    {},
    make(
      "summary",
      {},
      make("b", { class: "method" }, method.toUpperCase()),
      make("code", {}, path),
      make("span", {}, facts.description ?? facts.summary),
      facts.security ? make("span", { class: "lock" }, "token") : null,
    ),
    make(
      "div",
      { class: "inside" },
      ...part("Parameters", parameters),
      ...part("Body", properties(body)),
      ...part("Answer", properties(answer)),
      make("h3", {}, "Try it"),
      make("pre", { tabindex: 0 }, example(method, path, facts.requestBody)),
    ),
  );
}

async function main() {
  const document_ = await get("openapi.json");
  const groups = {};
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, facts] of Object.entries(methods)) {
      (groups[facts.tags?.[0] ?? "other"] ??= []).push(operation(document_, path, method, facts));
    }
  }
  const models = Object.entries(document_.components.schemas).map(([name, schema]) =>
    make("details", {}, make("summary", {}, make("code", {}, name), make("span", {}, schema.description ?? "")), make("div", { class: "inside" }, rows(document_, properties(schema)))),
  );
  document.getElementById("docs").replaceChildren(
    make("h1", {}, document_.info.title),
    make("p", {}, document_.info.description.replaceAll("`", "")),
    ...Object.entries(groups).flatMap(([name, parts]) => [make("h2", {}, name), ...parts]),
    make("h2", {}, "Models"),
    ...models,
  );
}

main();
