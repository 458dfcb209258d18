// Bars and small lines: the same ones as dashboard/pictures.py draws first, the lines to a tenth of a pixel.
import { set } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg", MAX_CELLS = 24;
const WIDTH = 80, HEIGHT = 24, FLOOR_S = 0.001, DECADES = 4;
const drawn = new WeakMap();    // meter -> what its parts depend on

function part(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

const percent = (share, whole) => `${Number((100 * share / whole).toFixed(1))}%`;

// Most ticks change the width of what is held, and nothing else.
export function drawMeter(svg, inUse, capacity) {
  const due = Number(svg.dataset.due ?? 0), whole = Math.max(inUse, capacity);
  const parts = `${capacity} ${Math.max(0, inUse - capacity)} ${due}`;
  if (drawn.get(svg) !== parts) {
    drawn.set(svg, parts);
    svg.parentElement.className = capacity <= MAX_CELLS && inUse <= capacity ? `k${capacity}` : "";
    svg.replaceChildren(...meterParts(inUse, capacity, due));
  }
  set(svg.firstChild, "width", percent(Math.min(inUse, capacity), whole));
}

function meterParts(inUse, capacity, due) {
  const whole = Math.max(inUse, capacity), edge = percent(capacity, whole), over = inUse > capacity;
  const found = [part("rect", {})];
  if (over) found.push(part("rect", { class: "m-over", x: edge, width: percent(inUse - capacity, whole) }));
  if (due > 0 && due < whole) found.push(part("rect", { class: "m-due", x: percent(due, whole) }));
  if (over) found.push(part("rect", { class: "m-cap", x: edge }));
  return found;
}

export const newSpark = () => part("svg", {});

export function drawSpark(svg, values, log) {
  const { line, dot } = sparkPaths(values, log);
  while (svg.childElementCount < 2) svg.append(part("path", {}));
  set(svg.firstChild, "d", line);
  set(svg.lastChild, "d", dot);
}

function sparkPaths(values, log) {
  const top = Math.max(...values.map((value) => value ?? 0)) * 1.15;
  if (!top) return { line: "", dot: "" };
  const share = (value) => log ? Math.min(1, Math.log10(Math.max(value, FLOOR_S) / FLOOR_S) / DECADES) : value / top;
  let line = "", pen = "M", at = "";
  values.forEach((value, index) => {
    if (value === null) { pen = "M"; return; }
    const x = 2 + (WIDTH - 5) * index / (values.length - 1), y = HEIGHT - 1 - (HEIGHT - 3) * share(value);
    at = `${Number(x.toFixed(1))} ${Number(y.toFixed(1))}`;
    line += pen + at;
    pen = "L";
  });
  return { line, dot: values.at(-1) === null ? "" : `M${at}h0` };
}
