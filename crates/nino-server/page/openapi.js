// The routes of /openapi.json as a page: by dialect, with what each takes and gives.

const titles = {
  comfyui: "ComfyUI (each also under /api)",
  openai: "OpenAI",
  a1111: "A1111",
  nino: "nino",
};

const make = (tag, text, kind) => {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};

/** The fields of a body, a line for each. */
const fields = (operation) => {
  const content = Object.entries(operation.requestBody?.content ?? {});
  return content.flatMap(([kind, { schema }]) => [
    make("p", kind, "kind"),
    ...Object.entries(schema.properties ?? {}).map(([name, field]) => {
      const line = make("p");
      line.append(make("code", name), ` ${field.description ?? field.type ?? ""}`);
      return line;
    }),
  ]);
};

const row = (path, method, operation) => {
  const details = make("details", "", "route");
  const head = make("summary");
  head.append(make("b", method.toUpperCase(), method), make("code", path), make("span", operation.summary));
  details.append(head);
  for (const parameter of operation.parameters ?? []) {
    const line = make("p");
    line.append(make("code", parameter.name), ` ${parameter.description ?? `in the ${parameter.in}`}`);
    details.append(line);
  }
  details.append(...fields(operation));
  for (const [status, answer] of Object.entries(operation.responses)) {
    details.append(make("p", `${status}: ${answer.description}`));
  }
  details.dataset.words = `${method} ${path} ${operation.summary}`.toLowerCase();
  return details;
};

const show = ({ paths }) => {
  const place = document.getElementById("routes");
  const groups = {};
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      (groups[operation.tags[0]] ??= []).push(row(path, method, operation));
    }
  }
  for (const [tag, title] of Object.entries(titles)) {
    const section = make("section");
    section.append(make("h2", title), ...(groups[tag] ?? []));
    place.append(section);
  }
};

document.getElementById("search").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const route of document.querySelectorAll(".route")) {
    route.hidden = !words.every((word) => route.dataset.words.includes(word));
  }
  for (const section of document.querySelectorAll("#routes section")) {
    section.hidden = !section.querySelector(".route:not([hidden])");
  }
});

const answer = await fetch("/openapi.json");
show(await answer.json());
