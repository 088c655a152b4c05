// Requests to the broker. Everything is relative to the page, so that it works behind a proxy with a prefix too.

const BASE = new URL("../api/v1", new URL(".", document.baseURI));

/** What the broker refused: its words, and the number of its answer. 0 is no answer at all. */
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** A name as one part of a path. */
export function part(name) {
  return encodeURIComponent(name).replace(/^\.+$/, (dots) => "%2E".repeat(dots.length));
}

/** Parameters that are set, as a query. */
export function query(parameters) {
  const pairs = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return pairs.length ? `?${pairs.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&")}` : "";
}

export function url(path) {
  return BASE + path;
}

async function request(method, path, body) {
  const options = { method, headers: { accept: "application/json" }, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(url(path), options);
  } catch {
    throw new Problem(0, "The broker does not answer.");
  }
  const text = await response.text();
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    throw new Problem(response.status, `The broker answered with something else than JSON (status ${response.status}).`);
  }
  if (!response.ok) throw new Problem(response.status, data?.detail || data?.error || `The broker answered with status ${response.status}.`);
  const total = response.headers.get("x-total-count");
  return { data, total: total === null ? (Array.isArray(data) ? data.length : null) : Number(total) };
}

export const get = async (path) => (await request("GET", path)).data;
/** A list with the number of all that there are. */
export const list = (path) => request("GET", path);
export const post = async (path, body = {}) => (await request("POST", path, body)).data;
export const put = async (path, body) => (await request("PUT", path, body)).data;
export const remove = async (path) => (await request("DELETE", path)).data;
