// Bars and small lines: the same ones as dashboard/pictures.py draws first.
const MAX_CELLS = 24;
const WIDTH = 80, HEIGHT = 24, FLOOR_S = 0.001, DECADES = 4;

function set(node, name, value) {
  if (node && node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export function drawMeter(svg, inUse, capacity) {
  const all = Math.max(inUse, capacity), held = Math.min(inUse, capacity);
  const percent = (part) => `${(100 * part / all).toFixed(3)}%`;
  set(svg.querySelector(".m-ground"), "width", percent(capacity));
  set(svg.querySelector(".m-use"), "width", percent(held));
  const over = svg.querySelector(".m-over");
  set(over, "x", percent(capacity));
  set(over, "width", percent(inUse - held));
  const cap = svg.querySelector(".m-cap"), cells = capacity <= MAX_CELLS && inUse <= capacity;
  set(cap, "x", percent(capacity));
  set(cap, "visibility", inUse > capacity ? "visible" : "hidden");
  set(svg.querySelector("pattern"), "width", cells ? `${(100 / capacity).toFixed(3)}%` : "100%");
  set(svg.querySelector(".m-cells"), "visibility", cells ? "visible" : "hidden");
  set(svg, "aria-label", `${inUse} / ${capacity}`);
}

export function drawSpark(svg, values, log) {
  const known = values.filter((value) => value !== null);
  let line = "", dot = "";
  if (known.some((value) => value > 0)) {
    const top = Math.max(...known) * 1.15;
    const share = (value) => log
      ? Math.min(1, Math.log10(Math.max(value, FLOOR_S) / FLOOR_S) / DECADES)
      : value / top;
    let pen = "M", at = "";
    values.forEach((value, index) => {
      if (value === null) { pen = "M"; return; }
      at = `${(2 + (WIDTH - 5) * index / (values.length - 1)).toFixed(1)} ${(HEIGHT - 1 - (HEIGHT - 3) * share(value)).toFixed(1)}`;
      line += pen + at;
      pen = "L";
    });
    if (values.at(-1) !== null) dot = `M${at}h0`;
  }
  set(svg.querySelector(".s-line"), "d", line);
  set(svg.querySelector(".s-dot"), "d", dot);
}
