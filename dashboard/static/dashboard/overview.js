// The overview: the stream moves the numbers in place; the server is asked only when pools or their configuration changed.
import { enhanceActs } from "./acts.js";
import { watchBanner } from "./banner.js";
import { enhanceCopies } from "./copy.js";
import { inHand, localTimes } from "./dom.js";
import { List, worstFirst } from "./list.js";
import { enhanceNewPool } from "./new_pool.js";
import { Refresh } from "./refresh.js";
import { drawLines, readyAll, updateRow } from "./rows.js";
import { sayTotals, sayVerdict } from "./says.js";
import { Sight } from "./sight.js";
import { Steps } from "./steps.js";
import { Stream } from "./stream.js";

const OTHERS_MS = 700;
const ROW_PX = 42, BELOW = 10;  // no row is lower than that, and so many more are kept in order below the window
const main = document.querySelector("[data-overview]");
const steps = new Steps(), list = new List(main), refresh = new Refresh(main, list), stream = new Stream();
const lines = new WeakMap();  // row -> the step up to which its small lines are drawn
let fields = {}, healths = [], shown = new Map();

function poolsOf(frame) {
  return Object.entries(frame.pools).map(([name, values]) => {
    const get = (field) => values[fields[field]];
    return { name, get, health: healths[get("health")], waiting: frame.waiting?.[name] };
  });
}

function show(row) {
  const pool = shown.get(row.dataset.pool);
  if (!pool) return;
  updateRow(row, pool, row.closest("table").dataset.classes.split(" "));
  if (lines.get(row) === steps.newest) return;
  lines.set(row, steps.newest);
  drawLines(row, steps.of(pool.name));
}

const sight = new Sight(show);

stream.addEventListener("hello", ({ detail: hello }) => {
  fields = Object.fromEntries(hello.fields.map((name, index) => [name, index]));
  healths = hello.healths;
  steps.hello(hello.history);
  refresh.soon(OTHERS_MS);  // what changed while nobody listened
});

stream.addEventListener("tick", ({ detail: frame }) => {
  steps.take(Date.parse(frame.at) / 1000, poolsOf(frame));
});

stream.addEventListener("sample", ({ detail: frame }) => {
  const table = main.querySelector("table"), pools = poolsOf(frame);
  if (!table) { if (pools.length) refresh.soon(); return; }
  const rows = new Map([...table.tBodies[0].rows].map((row) => [row.dataset.pool, row]));
  // Asked before anything is written: after that, each question makes the browser lay out the page first.
  const selection = getSelection(), selecting = !selection.isCollapsed, held = inHand(table.tBodies[0]);
  const depth = Math.ceil((innerHeight - table.getBoundingClientRect().top) / ROW_PX) + BELOW;
  shown = new Map(pools.map((pool) => [pool.name, pool]));
  sight.next();
  pools.forEach((pool, index) => {
    const row = rows.get(pool.name);
    if (row && sight.due(row, index) && !(selecting && selection.containsNode(row, true))) show(row);
  });
  if (pools.length !== rows.size || pools.some((pool) => !rows.has(pool.name))) refresh.soon();
  sayVerdict(main.querySelector("[data-verdict]"), worstFirst(pools));
  sayTotals(main.querySelector("[data-strip]"), pools, frame.tokens, steps);
  list.take(pools, held, depth);
});

stream.addEventListener("change", () => refresh.soon(OTHERS_MS));

localTimes(main);
readyAll(main);
watchBanner(stream);
enhanceCopies(main);
enhanceActs(main);
enhanceNewPool(main, () => refresh.now());
stream.start();
