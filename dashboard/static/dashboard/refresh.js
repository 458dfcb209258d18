// Takes over what only the server knows (new rows, versions, who paused a pool), row by row, and never under somebody's hand.
import { showPicks } from "./acts.js";
import { localTimes } from "./dom.js";
import { cellsOf, explain, nameOf, ready, readyAll, see, seen } from "./rows.js";

const GAP_MS = 1000;

export class Refresh {
  #main;
  #list;
  #timer = 0;
  #last = 0;

  constructor(main, list) {
    this.#main = main;
    this.#list = list;
  }

  // At most once a second; pages that hear of a change together do not all ask at once.
  soon(spreadMs = 0) {
    if (this.#timer) return;
    const wait = Math.max(100, this.#last + GAP_MS - Date.now()) + Math.random() * spreadMs;
    this.#timer = setTimeout(() => this.now(), wait);
  }

  async now() {
    clearTimeout(this.#timer);
    this.#last = Date.now();
    this.#timer = 0;
    if (document.hidden) return;  // the stream's next hello asks again
    try {
      const answer = await fetch(this.#list.fragment, { headers: { "X-Requested-With": "fetch" } });
      if (answer.status === 401) location.reload();
      else if (answer.ok) this.#merge(new DOMParser().parseFromString(await answer.text(), "text/html").body);
    } catch { /* the stream's banner already says that the service is away */ }
  }

  #merge(fresh) {
    const body = this.#main.querySelector("[data-pools]"), freshBody = fresh.querySelector("[data-pools]");
    if (!body || !freshBody || differ(this.#main, fresh)) {
      this.#main.replaceChildren(...fresh.childNodes);
      readyAll(this.#main);
      showPicks();
    } else {
      const rows = new Map([...body.rows].map((row) => [row.dataset.pool, row]));
      const names = new Set();
      for (const row of [...freshBody.rows]) {
        const name = nameOf(row);
        names.add(name);
        if (rows.has(name)) mergeRow(rows.get(name), row);
        else { body.append(document.adoptNode(row)); ready(row); }
      }
      for (const [name, row] of rows) if (!names.has(name)) row.remove();
    }
    localTimes(this.#main);
    this.#list.apply(false);
  }
}

// Other columns: a priority class came or went.
const differ = (main, fresh) => main.querySelector("table").dataset.classes !== fresh.querySelector("table").dataset.classes;

function mergeRow(row, fresh) {
  const why = row.querySelector(".why"), words = fresh.querySelector(".why");
  if (fresh.classList.contains("is-off") && why?.innerHTML !== words?.innerHTML) explain(row, ...words?.childNodes ?? []);
  const { meter } = cellsOf(row), { due } = cellsOf(fresh).meter.dataset;
  if (due) meter.dataset.due = due;
  else delete meter.dataset.due;
  const { input } = cellsOf(row), { input: now } = cellsOf(fresh);
  // A number that somebody is typing keeps the version that it was based on.
  if (input && now && Number(input.value) === seen(input).size && document.activeElement !== input) see(row, ...now.name.split(":").slice(2));
}
