// The overview: writes each second's numbers in place; asks the server for the page's inside when more than numbers changed.
import { duration, percent, rate, whole } from "./format.js";
import { drawMeter, drawSpark } from "./pictures.js";
import { Stream } from "./stream.js";
import { watchBanner } from "./banner.js";
import { enhanceForms } from "./forms.js";

const STEPS = 60, REFRESH_GAP_MS = 2000, REFRESH_CALM_MS = 10000;
const main = document.querySelector("[data-overview]");
const badges = document.querySelector("[data-badges]").content;
const steps = new Map();    // pool -> { qps: [], wait: [], second: [] }, for the small lines
let fields = {}, healths = [], stepS = 5, step = 0;
let refreshedAt = Date.now(), refreshTimer = 0, behind = false;

const put = (node, text) => { if (node && node.textContent !== text) node.textContent = text; };
const find = (key, within = main) => within.querySelector(`[data-live="${key}"]`);

function quiet(node, value) {
  put(node, value ? whole(value) : "·");
  node.classList.toggle("zero", !value);
}

function updateCapacity(row, capacity) {
  put(find("capacity", row), whole(capacity));
  const stepper = row.querySelector("[data-stepper]");
  if (!stepper || Number(stepper.elements.shown.value) === capacity) return;
  stepper.elements.shown.value = capacity;
  if (document.activeElement !== stepper.elements.capacity) stepper.elements.capacity.value = capacity;
}

function updateRow(row, get) {
  put(find("use", row), whole(get("in_use")));
  updateCapacity(row, get("capacity"));
  drawMeter(row.querySelector("[data-meter]"), get("in_use"), get("capacity"));
  const qps = find("qps", row);
  put(qps, rate(get("window_qps")));
  qps.classList.toggle("zero", get("window_qps") === 0);
  put(find("wait", row), duration(get("window_average_wait_s")).join(" ").trim());
  quiet(find("waiting", row), get("waiting"));
  const timeouts = find("timeouts", row);
  quiet(timeouts, get("window_timeouts"));
  timeouts.classList.toggle("is-act", get("window_timeouts") > 0);
  const word = healths[get("health")];
  const badge = row.querySelector(".badge");
  if (badge.dataset.health !== word) {
    badge.replaceWith(badges.querySelector(`[data-health="${word}"]`).cloneNode(true));
    row.classList.toggle("is-act", word === "starving");
    row.classList.toggle("is-watch", word === "queuing" || word === "shrinking");
    row.classList.toggle("is-off", word === "paused" || word === "draining");
  }
  return word !== row.dataset.word;
}

function total(key, text, unit) {
  put(find(key, main.querySelector("[data-strip]")), text);
  if (unit !== undefined) put(main.querySelector(`[data-unit-of="${key}"]`), unit);
}

function updateTotals(pools, tokens) {
  const strip = main.querySelector("[data-strip]");
  if (!strip) return;
  const sum = (name) => pools.reduce((all, get) => all + (get(name) ?? 0), 0);
  const grants = sum("window_grants");
  const waited = pools.reduce((all, get) => all + (get("window_average_wait_s") ?? 0) * get("window_grants"), 0);
  total("qps", rate(sum("window_qps")));
  total("average", ...duration(grants ? waited / grants : null));
  total("in-use", whole(sum("in_use")), `/ ${whole(sum("capacity"))}`);
  total("waiting", whole(sum("waiting")));
  const timeouts = sum("window_timeouts");
  total("timeouts", whole(timeouts));
  find("timeouts", strip).parentElement.classList.toggle("is-act", timeouts > 0);
  total("hits", percent(tokens.hit_rate), tokens.hit_rate === null ? "" : "%");
  const note = find("tokens");
  if (note) put(note, note.dataset.text.replace("%(rate)s", rate(tokens.tokens_s)));
}

// A step of 5 s is drawn when it is full, as the server does.
function keepStep(name, row, at, get) {
  let kept = steps.get(name);
  if (!kept) steps.set(name, kept = { qps: Array(STEPS).fill(null), wait: Array(STEPS).fill(null), second: [] });
  const current = Math.floor(at / stepS) * stepS;
  if (step && current > step) {
    for (let missed = step; missed < current; missed += stepS) {
      const samples = missed === step ? kept.second : [];
      const granted = samples.reduce((all, sample) => all + sample.granted, 0);
      kept.qps.push(samples.length ? samples.reduce((all, sample) => all + sample.qps, 0) / samples.length : null);
      kept.wait.push(granted ? samples.reduce((all, sample) => all + sample.waited, 0) / granted : null);
    }
    kept.qps.splice(0, kept.qps.length - STEPS);
    kept.wait.splice(0, kept.wait.length - STEPS);
    kept.second = [];
    drawSpark(row.querySelector('[data-spark="qps"]'), kept.qps, false);
    drawSpark(row.querySelector('[data-spark="wait"]'), kept.wait, true);
  }
  kept.second.push({ qps: get("qps"), granted: get("granted"), waited: (get("average_wait_s") ?? 0) * get("granted") });
}

function onHello({ detail: hello }) {
  fields = Object.fromEntries(hello.fields.map((name, index) => [name, index]));
  healths = hello.healths;
  stepS = hello.history.step_s;
  step = 0;
  steps.clear();
  for (const [name, [qps, wait]] of Object.entries(hello.history.pools)) steps.set(name, { qps, wait, second: [] });
}

function onSample({ detail: frame }) {
  const at = Date.parse(frame.at) / 1000;
  const rows = new Map([...main.querySelectorAll("[data-pool]")].map((row) => [row.dataset.pool, row]));
  const names = Object.keys(frame.pools);
  let changed = names.length !== rows.size, restless = false;
  const pools = names.map((name) => {
    const values = frame.pools[name];
    const get = (field) => values[fields[field]];
    const row = rows.get(name);
    if (row) {
      changed = updateRow(row, get) || changed;
      keepStep(name, row, at, get);
    } else changed = true;
    restless ||= !["flowing", "idle", "full"].includes(healths[get("health")]);
    return get;
  });
  for (const [name, row] of rows) if (!(name in frame.pools)) row.remove();
  step = Math.floor(at / stepS) * stepS;
  updateTotals(pools, frame.tokens);
  if (changed || behind) refresh(REFRESH_GAP_MS);
  else if (restless) refresh(REFRESH_CALM_MS);
}

// Words, order and rows come from the server, at most every two seconds.
function refresh(gapMs) {
  if (refreshTimer) return;
  const wait = Math.max(0, refreshedAt + gapMs - Date.now());
  if (gapMs === REFRESH_CALM_MS && wait) return;
  refreshTimer = setTimeout(async () => {
    try {
      const answer = await fetch("/?fragment=1", { headers: { "X-Requested-With": "fetch" } });
      if (answer.redirected) location.reload();
      else if (answer.ok) swap(await answer.text());
    } catch { /* the stream's banner already says that the service is away */ }
    refreshedAt = Date.now();
    refreshTimer = 0;
  }, wait);
}

// Never under somebody's hand: with a row hovered, focused or marked, only the verdict is renewed now.
function swap(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").body;
  const table = main.querySelector("table");
  const used = main.contains(document.activeElement) || table?.querySelector("tbody tr:hover")
    || main.querySelector("details[open]") || main.contains(getSelection().isCollapsed ? null : getSelection().anchorNode);
  behind = Boolean(used);
  if (!used) main.replaceChildren(...fresh.childNodes);
  else if (fresh.querySelector("h1")) {
    const heading = main.querySelector("h1"), lede = main.querySelector(".lede");
    if (!main.querySelector("[data-verdict]")?.contains(document.activeElement) && heading?.innerHTML !== fresh.querySelector("h1").innerHTML) {
      heading?.replaceChildren(...fresh.querySelector("h1").childNodes);
    }
    if (lede && fresh.querySelector(".lede")) put(lede.firstChild, fresh.querySelector(".lede").firstChild.textContent);
  }
}

const stream = new Stream();
stream.addEventListener("hello", onHello);
stream.addEventListener("sample", onSample);
stream.addEventListener("change", () => { behind = true; refresh(150); });
watchBanner(stream);
enhanceForms(main, () => { behind = true; refresh(0); });
stream.start();
