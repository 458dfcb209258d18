// Bars and small lines: the same ones as dashboard/pictures.py draws first.
import { set } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg", MAX_CELLS = 24;
const WIDTH = 80, HEIGHT = 24, FLOOR_S = 0.001, DECADES = 4;
const drawn = new WeakMap();    // meter -> what its parts depend on; sparkline -> its paths
let patterns = 0;

function part(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

const percent = (share, whole) => `${Number((100 * share / whole).toFixed(3))}%`;

// Most ticks change the width of what is held, and nothing else.
export function drawMeter(svg, inUse, capacity) {
  const due = Number(svg.dataset.due ?? 0), whole = Math.max(inUse, capacity);
  const parts = `${capacity} ${Math.max(0, inUse - capacity)} ${due}`;
  if (drawn.get(svg) !== parts) {
    drawn.set(svg, parts);
    svg.replaceChildren(...meterParts(inUse, capacity, due));
  }
  set(svg.querySelector(".m-use"), "width", percent(Math.min(inUse, capacity), whole));
  set(svg, "aria-label", `${inUse} / ${capacity}`);
}

function meterParts(inUse, capacity, due) {
  const whole = Math.max(inUse, capacity), edge = percent(capacity, whole), over = inUse > capacity;
  const found = [part("rect", { class: "m-ground", width: edge, height: 12 }), part("rect", { class: "m-use", height: 12 })];
  if (over) found.push(part("rect", { class: "m-over", x: edge, width: percent(inUse - capacity, whole), height: 12 }));
  if (capacity <= MAX_CELLS && !over) {
    const id = `cells-${patterns += 1}`;
    const pattern = part("pattern", { id, width: percent(1, capacity), height: 12, patternUnits: "userSpaceOnUse" });
    pattern.append(part("rect", { class: "m-cell", width: 1, height: 12 }));
    found.push(pattern, part("rect", { class: "m-cells", fill: `url(#${id})`, width: "100%", height: 12 }));
  }
  if (due > 0 && due < whole) found.push(part("rect", { class: "m-due", x: percent(due, whole), y: -3, width: 1.5, height: 18 }));
  if (over) found.push(part("rect", { class: "m-cap", x: edge, y: -3, width: 1.5, height: 18 }));
  return found;
}

export function drawSpark(svg, values, log) {
  const { line, dot } = sparkPaths(values, log);
  let paths = drawn.get(svg);
  if (!paths) {
    const find = (name) => svg.querySelector(`.${name}`) ?? svg.appendChild(part("path", { class: name }));
    drawn.set(svg, paths = { line: find("s-line"), dot: find("s-dot") });
  }
  set(paths.line, "d", line);
  set(paths.dot, "d", dot);
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
