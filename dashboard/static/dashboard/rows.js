// A pool's row: writes each second's numbers in place, and only what changed. Cells go by column, as in pools.css.
import { make, put } from "./dom.js";
import { duration, rate, whole } from "./format.js";
import { drawMeter, drawSpark, newSpark } from "./pictures.js";
import { cause } from "./says.js";
import { say } from "./words.js";

const badges = document.querySelector("[data-badges]").content;
const cells = new WeakMap();
const TONES = { starving: "is-act", queuing: "is-watch", shrinking: "is-watch", paused: "is-off", draining: "is-off" };

const picture = (cell) => cell.querySelector("svg") ?? cell.appendChild(newSpark());

export function cellsOf(row) {
  let found = cells.get(row);
  if (!found) {
    const [pick, pool, state, use, qps, wait, waiting, ...rest] = row.cells;
    const capacity = rest.pop(), timeouts = rest.pop();
    const [badge, held, meter] = [state.firstElementChild, use.firstElementChild, use.lastElementChild];
    cells.set(row, found = {
      pick: pick.firstElementChild, pool, badge, use, held: held.firstChild, of: held.lastChild, meter,
      qps: qps.firstElementChild, wait: wait.firstElementChild, sparks: [qps, wait].map(picture),
      waiting, classes: rest, timeouts, capacity, input: capacity.querySelector("input"),
    });
  }
  return found;
}

export const nameOf = (row) => cellsOf(row).pool.firstElementChild.textContent;

// What a row needs beyond what the server sends, to whom every byte of a row counts fifty times.
export function ready(row) {
  const { meter, sparks, waiting, timeouts, input } = cellsOf(row), pool = nameOf(row);
  row.dataset.pool = pool;
  row.tabIndex = -1;
  for (const drawing of [meter, ...sparks]) drawing.ariaHidden = "true";  // the number beside it says it
  waiting.dataset.unit = say("unit-waiting");  // on a phone, where the table has no heads
  timeouts.dataset.unit = say("unit-timeouts");
  if (!input) return;
  const button = (act, words) => {
    const node = make("button", act);
    [node.name, node.value, node.ariaLabel] = ["act", `${act}:${pool}`, say(words, { pool })];
    return node;
  };
  input.removeAttribute("aria-labelledby");
  input.inputMode = "numeric";
  input.ariaLabel = say("capacity", { pool });
  const stepper = make("div", "stepper");
  input.replaceWith(stepper);
  stepper.append(button("less", "less"), input, button("more", "more-permits"));
}

export function readyAll(main) {
  for (const row of main.querySelectorAll("[data-pools] > tr")) ready(row);
}

// What a stepper's field says: the version and the size that the person saw.
export const seen = (input) => { const [, , version, size] = input.name.split(":"); return { version, size: Number(size) }; };

export function see(row, version, size) {
  const { input, capacity } = cellsOf(row);
  if (!input) { put(capacity, whole(size)); return; }
  const untouched = Number(input.value) === seen(input).size;
  input.name = `size:${row.dataset.pool}:${version}:${size}`;
  if (untouched) input.value = String(size);
  input.parentElement.classList.toggle("is-changed", input.value !== String(size));
}

// An empty cell is a quiet dot.
function quiet(cell, value) {
  put(cell, value ? whole(value) : "");
}

export function updateRow(row, pool, classes) {
  const { get } = pool, cell = cellsOf(row), capacity = whole(get("capacity"));
  put(cell.held, whole(get("in_use")));
  if (cell.of.data !== ` / ${capacity}`) cell.of.data = ` / ${capacity}`;
  if (!cell.input) put(cell.capacity, capacity);
  drawMeter(cell.meter, get("in_use"), get("capacity"));
  put(cell.qps, rate(get("window_qps")));
  put(cell.wait, duration(get("window_average_wait_s")).join(" ").trim());
  quiet(cell.waiting, get("waiting"));
  cell.classes.forEach((node, index) => quiet(node, pool.waiting?.by[classes[index]] ?? 0));
  quiet(cell.timeouts, get("window_timeouts"));
  updateWords(row, cell, pool);
}

function updateWords(row, { badge, pool: head }, pool) {
  if (!badge.classList.contains(`badge-${pool.health}`)) {
    badge.className = `badge badge-${pool.health}`;
    put(badge, badges.querySelector(`.badge-${pool.health}`).textContent);
    for (const tone of ["is-act", "is-watch", "is-off"]) row.classList.toggle(tone, TONES[pool.health] === tone);
  }
  const words = cause(pool);
  if (!words) return;
  const [who, what] = words, why = head.querySelector(".why");
  if ((why?.textContent ?? "") !== (who ? `${who} ${what}` : what)) explain(row, ...who ? [make("b", "", who), " "] : [], what);
}

// The row's line of cause; nothing, or "", takes it away.
export function explain(row, ...content) {
  const { pool } = cellsOf(row), why = pool.querySelector(".why"), some = content.some(Boolean);
  row.classList.toggle("has-why", some);
  if (!some) why?.remove();
  else (why ?? pool.appendChild(make("div", "why"))).replaceChildren(...content);
}

export function drawLines(row, { qps, wait }) {
  const [qpsLine, waitLine] = cellsOf(row).sparks;
  drawSpark(qpsLine, qps, false);
  drawSpark(waitLine, wait, true);
}
