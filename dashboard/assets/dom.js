// Makes elements. Text always goes in as text: nothing that a queue, a client or a message is called can become markup.

/** h("td.num", { title: "x", onclick: f }, "text", child): an element with classes, attributes, listeners, children. */
export function h(spec, ...rest) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  return fill(element, rest);
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for elements of pictures. */
export function s(spec, ...rest) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElementNS(SVG, tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  return fill(element, rest);
}

function fill(element, rest) {
  for (const part of rest.flat(Infinity)) {
    if (part === null || part === undefined || part === false) continue;
    if (part instanceof Node) element.append(part);
    else if (typeof part === "object") set(element, part);
    else element.append(String(part));
  }
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** Puts text into an element unless it is there already. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const PATHS = {
  overview: "M4 13h6V4H4zM14 9h6V4h-6zM14 20h6v-7h-6zM4 20h6v-3H4z",
  queues: "M4 6h16M4 12h16M4 18h10",
  exchanges: "M4 12h5M9 12l6-6h5M9 12l6 6h5M17 3l3 3-3 3M17 15l3 3-3 3",
  connections: "M9 12h6M7 8H5a4 4 0 0 0 0 8h2M17 8h2a4 4 0 0 1 0 8h-2",
  schemas: "M8 4C5 4 8 12 4 12c4 0 1 8 4 8M16 4c3 0 0 8 4 8-4 0-1 8-4 8",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M13 7a2 2 0 1 0 4 0 2 2 0 1 0-4 0M7 17a2 2 0 1 0 4 0 2 2 0 1 0-4 0",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  plus: "M12 5v14M5 12h14",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5 19 19M5 19l1.5-1.5M17.5 6.5 19 5",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z",
  alert: "M12 4 2.5 20h19zM12 10v4M12 17v.5",
  send: "M4 12 20 4l-6 16-3-7z",
  help: "M9 9a3 3 0 1 1 4.5 2.6C12.5 12.3 12 13 12 14M12 17.5v.5",
};

/** A picture that says nothing by itself: the text beside it does. */
export function icon(name, small = false) {
  return s(small ? "svg.icon.sm" : "svg.icon", { viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: PATHS[name] }));
}
