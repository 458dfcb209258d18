// Which rows are shown and in what order: filter, state and sort live in the address, so that back, forward and a link work.
// dashboard/listing.py does the same for the first paint.
import { arrange } from "./arrange.js";
import { inHand, put, set } from "./dom.js";
import { bindKeys } from "./keys.js";
import { say } from "./words.js";

const GROUP = { starving: 0, queuing: 1, shrinking: 1, paused: 2, full: 3, flowing: 4, draining: 5, idle: 6 };
const REST = ["idle", "paused", "draining"], RESORT_MS = 5000;
const TONES = { starving: "is-act", queuing: "is-watch", shrinking: "is-watch" };
const stateOf = (health) => REST.includes(health) ? "rest" : health;
const byName = (a, b) => a.name < b.name ? -1 : 1;
const most = (value) => (a, b) => value(b) - value(a) || byName(a, b);

const ORDERS = {
  worst: (a, b) => GROUP[a.health] - GROUP[b.health] || most(({ get }) => get("oldest_wait_s") * get("waiting"))(a, b),
  name: byName,
  load: most(({ get }) => get("in_use") / get("capacity")),
  qps: most(({ get }) => get("window_qps")),
  wait: most(({ get }) => get("window_average_wait_s") ?? 0),
};

export const worstFirst = (pools) => [...pools].sort(ORDERS.worst);

export class List {
  #main;
  #pools = [];
  #sortedAt = Date.now();
  #typing = false;

  constructor(main) {
    this.#main = main;
    this.#read();
    addEventListener("popstate", () => { this.#read(); this.#fill(); this.apply(true); });
    main.addEventListener("input", (event) => { if (event.target.name === "q") this.#typed(event.target.value); });
    main.addEventListener("focusout", (event) => { if (event.target.name === "q") this.#typing = false; });
    main.addEventListener("change", (event) => { if (event.target.id === "sort") this.#go({ sort: event.target.value }); });
    main.addEventListener("submit", (event) => { if (event.target.matches("[data-find]")) event.preventDefault(); });
    main.addEventListener("click", (event) => this.#clicked(event));
    this.#bind();
  }

  // `held`: somebody's hand is on the rows. `depth`: down to which row they may be in sight.
  take(pools, held, depth) {
    this.#pools = pools;
    this.apply(false, held, depth);
  }

  rows() {
    return [...this.#main.querySelectorAll("[data-pool]")].filter((row) => !row.hidden);
  }

  #read() {
    const asked = new URLSearchParams(location.search);
    this.q = (asked.get("q") ?? "").trim().toLowerCase().slice(0, 63);
    this.state = [...Object.keys(GROUP), "rest"].includes(asked.get("state")) ? asked.get("state") : "all";
    this.sort = asked.get("sort") in ORDERS ? asked.get("sort") : "worst";
  }

  #address(changes = {}) {
    const wanted = { q: this.q, state: this.state, sort: this.sort, ...changes };
    const kept = Object.entries(wanted).filter(([, value]) => !["", "all", "worst"].includes(value));
    return kept.length ? `/?${new URLSearchParams(kept)}` : "/";
  }

  get fragment() {
    const address = this.#address();
    return `${address}${address === "/" ? "?" : "&"}fragment=1`;
  }

  #typed(text) {
    const q = text.trim().toLowerCase();
    history[this.#typing ? "replaceState" : "pushState"](null, "", this.#address({ q }));
    this.#typing = true;
    this.q = q;
    this.apply(true);
  }

  #go(changes) {
    history.pushState(null, "", this.#address(changes));
    Object.assign(this, changes);
    this.#fill();
    this.apply(true);
  }

  #clicked(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const segment = event.target.closest("[data-state]"), clear = event.target.closest("[data-clear]");
    if (!segment && !clear) return;
    event.preventDefault();
    this.#go(segment ? { state: segment.dataset.state } : { q: "", state: "all" });
    if (clear) this.#main.querySelector('[name="q"]').focus();
  }

  #fill() {
    const find = this.#main.querySelector("[data-find]");
    if (!find) return;
    find.elements.q.value = this.q;
    find.elements.sort.value = this.sort;
  }

  // `now`: the person asked, so rows move at once; else only while nobody's hand is on them.
  apply(now, held, depth = Infinity) {
    const table = this.#main.querySelector("table");
    if (!table) return;
    const body = table.tBodies[0], calm = now || !(held ?? inHand(body));
    const health = new Map(this.#pools.map((pool) => [pool.name, pool.health]));
    if (!this.#pools.length) for (const row of body.rows) health.set(row.dataset.pool, row.querySelector(".badge").className.split("badge-")[1]);
    for (const row of body.rows) {
      const name = row.dataset.pool;
      const hidden = !name.includes(this.q) || this.state !== "all" && stateOf(health.get(name)) !== this.state;
      if (row.hidden !== hidden && (calm || !hidden)) row.hidden = hidden;
    }
    if (calm && this.#pools.length && (now || Date.now() - this.#sortedAt > RESORT_MS)) this.#arrange(body, depth);
    this.#count([...health.values()]);
    this.#sayEmpty(table, body);
  }

  #arrange(body, depth) {
    this.#sortedAt = Date.now();
    const rows = new Map([...body.rows].map((row) => [row.dataset.pool, row]));
    const wanted = [...this.#pools].sort(ORDERS[this.sort]).map((pool) => rows.get(pool.name)).filter(Boolean);
    const shown = wanted.filter((row) => !row.hidden);
    arrange(body, wanted, depth < shown.length ? wanted.indexOf(shown[depth]) : wanted.length);
  }

  #count(healths) {
    for (const segment of this.#main.querySelectorAll("[data-state]")) {
      const key = segment.dataset.state, mark = segment.querySelector(".n");
      const count = key === "all" ? healths.length : healths.filter((word) => stateOf(word) === key).length;
      put(mark, String(count));
      const tone = `n ${count ? TONES[key] ?? "" : ""}`;
      if (mark.className !== tone) mark.className = tone;
      if (key === this.state) set(segment, "aria-current", "true");
      else segment.removeAttribute("aria-current");
      set(segment, "href", this.#address({ state: key }));
    }
    const csv = this.#main.querySelector("[data-csv]"), address = this.#address();
    if (csv) set(csv, "href", `${address}${address === "/" ? "?" : "&"}format=csv`);
  }

  #sayEmpty(table, body) {
    const empty = this.#main.querySelector("[data-empty]"), none = [...body.rows].every((row) => row.hidden);
    table.hidden = none;
    empty.hidden = !none;
    const count = body.rows.length;
    if (none) put(empty.querySelector("[data-empty-text]"), this.q ? say("no-match", { query: this.q, count }, count) : say("no-state"));
  }

  #bind() {
    const here = () => document.activeElement.closest?.("[data-pool]");
    const move = (by) => {
      const rows = this.rows(), at = rows.indexOf(here());
      const row = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
      row?.focus();
      row?.scrollIntoView({ block: "nearest" });
    };
    bindKeys({
      "/": () => { const find = this.#main.querySelector('[name="q"]'); find?.focus(); find?.select(); },
      j: () => move(1),
      k: () => move(-1),
      Enter: () => here() ? here().querySelector("th a").click() : false,
    });
  }
}
