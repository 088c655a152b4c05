// Numbers, sizes and times as people read them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(number) {
  return typeof number === "number" ? WHOLE.format(number).replaceAll(",", "\u202f") : "–";
}

/** At most four characters and a unit, for places without room. */
export function short(number) {
  if (typeof number !== "number") return "–";
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (number >= size * 10) return `${WHOLE.format(number / size)}${unit}`;
    if (number >= size) return `${(number / size).toFixed(1)}${unit}`;
  }
  return number > 0 && number < 10 && !Number.isInteger(number) ? number.toFixed(1) : WHOLE.format(number);
}

export function rate(number) {
  return typeof number === "number" ? `${short(number)}/s` : "–";
}

export function bytes(number) {
  if (typeof number !== "number") return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${unit && number < 10 ? number.toFixed(1) : Math.round(number)} ${units[unit]}`;
}

/** Milliseconds as the two largest units. */
export function span(ms) {
  if (typeof ms !== "number") return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const parts = [];
  for (const [unit, size] of [["d", 86400000], ["h", 3600000], ["m", 60000], ["s", 1000]]) {
    const whole = Math.floor(ms / size);
    ms -= whole * size;
    if (whole) parts.push(`${whole}${unit}`);
    else if (parts.length) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

export function moment(text) {
  if (!text) return "–";
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toLocaleString();
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A setting as one text. */
export function setting(value, key = "") {
  if (value === null || value === undefined) return "–";
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value === "number") {
    // A port is a name, not an amount.
    if (key.endsWith("port")) return String(value);
    if (key.endsWith("_ms")) return span(value) || "0";
    return key.endsWith("_bytes") ? bytes(value) : count(value);
  }
  if (Array.isArray(value)) return value.length ? value.map((one) => setting(one)).join(", ") : "–";
  if (typeof value === "object" && "min_ms" in value) return `${span(value.min_ms)} to ${span(value.max_ms)}, ×${value.factor}`;
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}
