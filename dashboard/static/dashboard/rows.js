// A pool's row: writes each second's numbers in place, and only what changed.
import { make, put } from "./dom.js";
import { duration, rate, whole } from "./format.js";
import { drawMeter, drawSpark } from "./pictures.js";
import { cause } from "./says.js";

const badges = document.querySelector("[data-badges]").content;
const cells = new WeakMap();
const TONES = { starving: "is-act", queuing: "is-watch", shrinking: "is-watch", paused: "is-off", draining: "is-off" };

function cellsOf(row) {
  if (!cells.has(row)) {
    const find = (css) => row.querySelector(css);
    cells.set(row, {
      use: find(".use b"), capacity: find(".use i"), meter: find(".meter"), why: find(".why"), state: find(".c-state"),
      qps: find(".c-qps .num"), wait: find(".c-wait .num"), waiting: find(".c-wait-sum"), timeouts: find(".c-to"),
      classes: [...row.querySelectorAll(".c-prio")], sparks: [find(".spark-qps"), find(".spark-wait")],
      input: find(".stepper input"), plain: find(".c-cap"),
    });
  }
  return cells.get(row);
}

function quiet(cell, value) {
  put(cell, value ? whole(value) : "·");
  cell.classList.toggle("zero", !value);
}

// What a stepper's field says: the version and the size that the person saw.
export const seen = (input) => { const [, , version, size] = input.name.split(":"); return { version, size: Number(size) }; };

export function see(row, version, size) {
  const { input, plain } = cellsOf(row);
  if (!input) { put(plain, whole(size)); return; }
  const untouched = Number(input.value) === seen(input).size;
  input.name = `size:${row.dataset.pool}:${version}:${size}`;
  if (untouched) input.value = String(size);
  row.querySelector(".stepper").classList.toggle("is-changed", input.value !== String(size));
}

export function updateRow(row, pool, classes) {
  const { get } = pool, cell = cellsOf(row);
  put(cell.use, whole(get("in_use")));
  put(cell.capacity, whole(get("capacity")));
  if (!cell.input) put(cell.plain, whole(get("capacity")));
  drawMeter(cell.meter, get("in_use"), get("capacity"));
  put(cell.qps, rate(get("window_qps")));
  cell.qps.classList.toggle("zero", get("window_qps") === 0);
  put(cell.wait, duration(get("window_average_wait_s")).join(" ").trim());
  quiet(cell.waiting, get("waiting"));
  cell.classes.forEach((node, index) => quiet(node, pool.waiting?.by[classes[index]] ?? 0));
  quiet(cell.timeouts, get("window_timeouts"));
  cell.timeouts.classList.toggle("is-act", get("window_timeouts") > 0);
  updateWords(row, cell, pool);
}

function updateWords(row, cell, pool) {
  const badge = cell.state.firstElementChild;
  if (!badge.classList.contains(`badge-${pool.health}`)) {
    badge.replaceWith(badges.querySelector(`.badge-${pool.health}`).cloneNode(true));
    for (const tone of ["is-act", "is-watch", "is-off"]) row.classList.toggle(tone, TONES[pool.health] === tone);
  }
  const words = cause(pool);
  if (!words) return;
  const [who, what] = words;
  if (cell.why.textContent !== (who ? `${who} ${what}` : what)) cell.why.replaceChildren(...who ? [make("b", "", who), " "] : [], what);
  if (cell.why.hidden === Boolean(what)) plain(row, cell.why, !what);
}

export function plain(row, why, isPlain) {
  why.hidden = isPlain;
  row.classList.toggle("is-plain", isPlain);
}

export function drawLines(row, { qps, wait }) {
  const [qpsLine, waitLine] = cellsOf(row).sparks;
  drawSpark(qpsLine, qps, false);
  drawSpark(waitLine, wait, true);
}
