// The server's page, put into this one in place: one request at a time, and the newest wish is not lost.
import { put } from "./dom.js";
import { morph } from "./pool-morph.js";
import { localise, zone } from "./pool-time.js";
import { say } from "./words.js";

export class Renewal {
  #main;
  #shown;
  #address;
  #running = false;
  #again = null;
  #at = Date.now();

  // `shown` is called with the fresh page after each; `address` says where that is.
  constructor(main, shown, address = () => new URL(location.href)) {
    this.#main = main;
    this.#shown = shown;
    this.#address = address;
    this.#prepare(main);
  }

  // Milliseconds since the page was renewed last.
  get age() {
    return Date.now() - this.#at;
  }

  // What is shown is known to be old.
  outdate() {
    this.#at = 0;
  }

  // `force`: the person asked for another picture.
  now = async (force = false) => {
    if (this.#running) { this.#again = (this.#again ?? false) || force; return; }
    this.#running = true;
    try {
      const address = this.#address();
      address.searchParams.set("fragment", "1");
      const answer = await fetch(address, { headers: { "X-Requested-With": "fetch" } });
      if (answer.status === 401) { location.reload(); return; }
      if (answer.ok) this.#show(await answer.text(), force);
    } catch { /* the stream's banner already says that the service is away */ }
    this.#at = Date.now();
    this.#running = false;
    if (this.#again !== null) { const next = this.#again; this.#again = null; this.now(next); }
  };

  #show(html, force) {
    const main = this.#main, fresh = new DOMParser().parseFromString(html, "text/html").body;
    this.#prepare(fresh);
    for (const details of main.querySelectorAll("details[id][open]")) fresh.querySelector(`#${details.id}`)?.setAttribute("open", "");
    // A parser leaves blanks at the beginning out: with one here, every part would be moved behind it, and focus lost.
    if (main.firstChild?.nodeType === Node.TEXT_NODE) main.firstChild.remove();
    morph(main, fresh, force);
    this.#shown(fresh);
  }

  #prepare(within) {
    localise(within);
    put(within.querySelector("[data-zone]"), say("zone", { zone: zone() }));
  }
}
