// Lines over time. The numbers behind a line are in its legend, as text; under the pointer the legend shows that moment.

import { h, s, setText } from "./dom.js";
import { KEPT } from "./live.js";

const HEIGHT = 190;
const LEFT = 46;
const BOTTOM = 22;
const TOP = 8;

/** A round number that is at least this. */
function roundUp(number) {
  if (number <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 4, 5, 10].map((step) => step * power).find((step) => step >= number);
}

/**
 * `series` are { label, key, mark } with the mark s1, s2 or s3. Returns { element, update(points) }.
 */
export function chart(title, series, format) {
  const svg = s("svg.chart", { role: "img", "aria-label": title });
  const values = series.map(() => h("b", "–"));
  const legend = h("div.legend-row", series.map((one, at) => h("span.key",
    s("svg", { viewBox: "0 0 14 8", "aria-hidden": "true" }, s(`path.${one.mark}`, { d: "M1 4h12", "stroke-width": 3, "stroke-linecap": "round" })),
    `${one.label} `, values[at])));
  const when = h("span.muted.small", "");
  const element = h("section.card", { "aria-label": title }, h("div.card-head", h("h2", title), when), svg, legend);
  let points = [];
  let hover = null;
  let width = 0;
  // Seconds that fit: one minute at first, then as much as there is to show.
  let shownFor = 60;

  const x = (at) => LEFT + (width - LEFT - 4) * (1 - (points.at(-1).at - at) / (shownFor * 1000));
  function draw() {
    width = svg.clientWidth || 600;
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const age = points.length ? (points.at(-1).at - points[0].at) / 1000 : 0;
    shownFor = Math.min(KEPT, Math.max(60, Math.ceil(age / 60) * 60));
    const minutes = shownFor / 60;
    const highest = Math.max(1, ...points.flatMap((point) => series.map((one) => point[one.key] ?? 0)));
    const top = roundUp(highest);
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
    const parts = [];
    for (let step = 0; step <= 4; step += 1) {
      const value = (top / 4) * step;
      parts.push(s("path.grid", { d: `M${LEFT} ${y(value)}H${width}` }));
      parts.push(s("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, format(value).replace("/s", "")));
    }
    const steps = minutes === 1 ? 4 : minutes;
    for (let step = 0; step <= steps; step += 1) {
      const at = LEFT + (width - LEFT - 4) * (step / steps);
      const left = shownFor * (1 - step / steps);
      const label = left === 0 ? "now" : minutes === 1 ? `−${left} s` : `−${left / 60} min`;
      parts.push(s("text", { x: at, y: HEIGHT - 5, "text-anchor": left ? "middle" : "end" }, label));
    }
    for (const one of series) {
      for (const run of runs(points, one.key)) {
        const path = run.map((point) => `${x(point.at).toFixed(1)} ${y(point[one.key]).toFixed(1)}`).join("L");
        const ends = [x(run[0].at), x(run.at(-1).at)].map((end) => end.toFixed(1));
        parts.push(s(`path.area.${one.mark.replace("s", "f")}`, { d: `M${ends[0]} ${y(0)}L${path}L${ends[1]} ${y(0)}z` }));
        parts.push(s(`path.curve.${one.mark}`, { d: `M${path}` }));
      }
    }
    if (hover) parts.push(s("path.cursor", { d: `M${x(hover.at)} ${TOP}V${HEIGHT - BOTTOM}` }));
    svg.replaceChildren(...parts);
    const shown = hover ?? points.at(-1);
    series.forEach((one, at) => setText(values[at], shown && shown[one.key] !== null ? format(shown[one.key]) : "–"));
    setText(when, hover ? `${Math.round((points.at(-1).at - hover.at) / 1000)} s ago` : "");
    const now = points.at(-1);
    const words = series.map((one) => `${one.label} ${now && now[one.key] !== null ? format(now[one.key]) : "not known"}`);
    svg.setAttribute("aria-label", `${title} over time. Now ${words.join(", ")}. Highest ${format(highest)}.`);
  }

  svg.addEventListener("pointermove", (event) => {
    if (!points.length) return;
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) * (width / box.width);
    hover = points.reduce((best, point) => (Math.abs(x(point.at) - at) < Math.abs(x(best.at) - at) ? point : best));
    draw();
  });
  svg.addEventListener("pointerleave", () => {
    hover = null;
    draw();
  });
  const observer = new ResizeObserver(() => draw());
  observer.observe(svg);
  return {
    element,
    update(fresh) {
      points = fresh;
      if (hover && !points.includes(hover)) hover = null;
      draw();
    },
  };
}

/** The stretches of points that have a value. */
function runs(points, key) {
  const all = [];
  let run = [];
  for (const point of points) {
    if (point[key] === null) {
      if (run.length > 1) all.push(run);
      run = [];
    } else run.push(point);
  }
  if (run.length > 1) all.push(run);
  return all;
}

export const RATES = [
  { label: "Published", key: "published", mark: "s1" },
  { label: "Delivered", key: "delivered", mark: "s2" },
  { label: "Settled", key: "acked", mark: "s3" },
];

export const DEPTHS = [
  { label: "Ready", key: "ready", mark: "s1" },
  { label: "In flight", key: "held", mark: "s3" },
];
