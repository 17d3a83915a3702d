// The OpenAPI document, to read: every route with what it takes and what it answers.
"use strict";

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

// A schema with its references filled in.
function whole(schema, schemas) {
  if (Array.isArray(schema)) return schema.map((part) => whole(part, schemas));
  if (schema === null || typeof schema !== "object") return schema;
  if (schema.$ref) return whole(schemas[schema.$ref.split("/").at(-1)], schemas);
  const kept = Object.entries(schema).filter(([name]) => name !== "title");
  return Object.fromEntries(kept.map(([name, value]) => [name, whole(value, schemas)]));
}

function folded(title, content, schemas) {
  const details = document.createElement("details");
  const schema = content?.["application/json"]?.schema;
  details.append(element("summary", title));
  if (schema) details.append(element("pre", JSON.stringify(whole(schema, schemas), null, 2)));
  return schema ? details : element("p", title);
}

async function show() {
  const { paths, components } = await (await fetch("/openapi.json")).json();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, route] of Object.entries(methods)) {
      const section = document.createElement("section");
      section.append(element("h2", `${method.toUpperCase()} ${path}`), element("p", route.description ?? ""));
      if (route.requestBody) section.append(folded("body", route.requestBody.content, components.schemas));
      for (const [status, answer] of Object.entries(route.responses)) {
        section.append(folded(`${status} ${answer.description}`, answer.content, components.schemas));
      }
      document.getElementById("routes").append(section);
    }
  }
}

show();
