// The page of one pool: the stream moves its numbers and charts, the server renews its lists; the address says what is shown.
import { Acts } from "./pool-acts.js";
import { watchBanner } from "./banner.js";
import { Charts } from "./pool-charts.js";
import { enhanceCopies } from "./copy.js";
import { bindKeys } from "./keys.js";
import { showNumbers } from "./pool-numbers.js";
import { Resize } from "./pool-resize.js";
import { Samples } from "./pool-samples.js";
import { hearClock, tick } from "./pool-time.js";
import { Renewal } from "./renewal.js";
import { Stream } from "./stream.js";

const RENEW_MS = 3000, TYPED_MS = 250, GAP_MS = 400;
const main = document.querySelector("[data-pool-page]");
const stream = new Stream(), samples = new Samples();
const charts = new Charts(main, samples), resize = new Resize(main);
const renewal = new Renewal(main, shown), renew = renewal.now;
let fields = {}, healths = [], timer = 0, marking = 0, loaded = false;

const asScript = { headers: { "X-Requested-With": "fetch" } };

const isHere = () => main.querySelector("[data-strip]") !== null;  // false once the pool is gone

function shown() {
  if (resize.form && !resize.form.hasAttribute("data-dirty") && !resize.form.contains(document.activeElement)) resize.settle();
  else if (resize.form) resize.show();
  charts.sync();
}

// Neither waits for the last of many changes: an adaptive sizing may decide several times a second.
function renewSoon() {
  timer ||= setTimeout(() => { timer = 0; renew(); }, GAP_MS);
}

function loadMarksSoon(change) {
  marking ||= setTimeout(() => { marking = 0; loadHistory(); }, change.action === "resize" ? RENEW_MS : 0);
}

async function loadHistory() {
  const answer = await fetch(main.dataset.history, asScript).catch(() => null);
  if (!answer?.ok) return;
  const document_ = await answer.json();
  samples.load(document_);
  loaded = true;
  charts.marks = document_.marks;
}

function go(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  return renew(true);
}

stream.addEventListener("hello", ({ detail: hello }) => {
  fields = Object.fromEntries(hello.fields.map((name, index) => [name, index]));
  healths = hello.healths;
  loadHistory();
  renewSoon();
});

stream.addEventListener("tick", ({ detail: frame }) => {
  const at = Date.parse(frame.at), values = frame.pools[main.dataset.name];
  hearClock(at);
  if (values && loaded) samples.add(at / 1000, (name) => values[fields[name]]);
});

stream.addEventListener("sample", ({ detail: frame }) => {
  const values = frame.pools[main.dataset.name];
  if (!values) { if (isHere()) renewSoon(); return; }
  if (!isHere()) { renewSoon(); return; }  // it was deleted, and made again
  const get = (name) => values[fields[name]];
  const turned = showNumbers(main, get, healths[get("health")]);
  resize.hear({ capacity: get("capacity"), inUse: get("in_use"), waiting: get("waiting") });
  tick(main);
  charts.update();
  if (turned) renewSoon();
  else if (renewal.age >= RENEW_MS) renew();
});

stream.addEventListener("change", ({ detail: change }) => {
  if (change.pool !== main.dataset.name) return;
  if (stream.frozen) renewal.outdate();
  else renewSoon();
  if (change.kind !== "pool" || change.action !== "delete") loadMarksSoon(change);
});

main.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-go]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go(link.href).then(() => main.querySelector("[data-panel] form.cell-form")?.closest("tr").querySelector("input:not([type=hidden])")?.focus());
});
main.addEventListener("click", (event) => {
  if (!event.target.closest("[data-to-resize]")) return;
  event.preventDefault();
  resize.form.scrollIntoView({ block: "nearest" });
  resize.number.select();
});
addEventListener("popstate", () => renew(true));

let typed = 0;
main.addEventListener("input", ({ target }) => {
  if (!target.matches("[data-find] [name=q]")) return;
  clearTimeout(typed);
  typed = setTimeout(() => find(target.value), TYPED_MS);
});
main.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-find]")) return;
  event.preventDefault();
  find(event.target.elements.q.value);
});

function find(text) {
  const address = new URL(location.href);
  if (text.trim()) address.searchParams.set("q", text.trim());
  else address.searchParams.delete("q");
  go(address, { replace: true });
}

function row(by) {
  const rows = [...main.querySelectorAll("[data-rows] > tr")];
  const here = rows.indexOf(document.activeElement.closest("tr"));
  rows[Math.max(0, Math.min(rows.length - 1, here + by))]?.focus();
}

const press = (selector) => () => {
  const found = main.querySelector(selector);
  if (!found) return false;
  found.click();
  return true;
};
bindKeys({
  "/": () => main.querySelector("[data-find] [name=q]")?.focus() ?? undefined,
  j: () => row(1),
  k: () => row(-1),
  e: press("[data-to-resize]"),
  p: press("[data-pause]"),
  ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((number) => [String(number), press(`.tabs a:nth-child(${number})`)])),
});

new Acts(main, { resize, renew, go });
enhanceCopies(main);
watchBanner(stream);
charts.sync();
stream.start();
