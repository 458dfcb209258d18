// The resize form: slider and number move together, the table says what would happen at once, a colleague's change asks again.
import { put } from "./dom.js";
import { whole } from "./format.js";
import { say } from "./words.js";

const MOST = 1_000_000;

export class Resize {
  constructor(main) {
    this.main = main;
    main.addEventListener("input", ({ target }) => {
      if (target.matches("[data-slide]")) this.set(Number(target.value));
      else if (target.name === "capacity" && target.form === this.form) this.show();
    });
    main.addEventListener("click", (event) => this.#click(event));
    main.addEventListener("reset", (event) => { if (event.target === this.form) setTimeout(() => this.settle()); });
    this.settle();
  }

  get form() { return this.main.querySelector("[data-resize]"); }
  get number() { return this.form.elements.capacity; }
  get #now() {
    const { capacity, inUse, waiting, ahead } = this.form.dataset;
    return { capacity: Number(capacity), inUse: Number(inUse), waiting: Number(waiting), ahead: ahead ? ahead.split(",").map(Number) : [] };
  }

  set(size) {
    this.number.value = String(Math.max(1, Math.min(MOST, Math.round(size) || 1)));
    this.show();
  }

  // What the stream says: only the preview moves, never what somebody typed.
  hear({ capacity, inUse, waiting }) {
    if (!this.form) return;
    const { dataset } = this.form;
    const untouched = !this.form.hasAttribute("data-dirty") && document.activeElement !== this.number;
    if (Number(dataset.capacity) !== capacity && untouched) this.number.value = String(capacity);
    Object.assign(dataset, { capacity, inUse, waiting });
    this.show(untouched);
  }

  // As the server drew it: nothing typed.
  settle() {
    if (!this.form) return;
    this.form.removeAttribute("data-dirty");
    const notice = this.form.querySelector("[data-conflict]");
    if (!notice.dataset.fresh) notice.hidden = notice.hidden || !notice.querySelector("[data-conflict-text]").textContent;
    this.number.value = this.number.defaultValue;
    this.show(true);
  }

  show(untouched = false) {
    const { form, number } = this, now = this.#now, size = Number(number.value);
    const changed = size !== now.capacity && number.value !== "";
    form.toggleAttribute("data-dirty", changed || (!untouched && form.hasAttribute("data-dirty") && changed));
    form.querySelector(".stepper").classList.toggle("is-changed", changed);
    const slide = form.querySelector("[data-slide]");
    if (Number(slide.value) !== size) slide.value = String(size);
    form.querySelector("[data-apply]").disabled = !changed;
    put(form.querySelector("[data-new]"), changed ? whole(size) : "");
    const then = after(now, size || now.capacity);
    const was = after(now, now.capacity);
    for (const [key, value] of Object.entries(was)) put(form.querySelector(`[data-was="${key}"]`), whole(value));
    for (const [key, value] of Object.entries(then)) put(form.querySelector(`[data-will="${key}"]`), whole(value));
    put(form.querySelector("[data-once]"), sentence(now, size || now.capacity, then));
  }

  // A colleague was first: what they did, and the question again, from the version that is now.
  conflict({ text, version, capacity, wanted }) {
    const notice = this.form.querySelector("[data-conflict]");
    put(notice.querySelector("[data-conflict-text]"), text);
    put(notice.querySelector("[data-all-the-same]"), say("all-the-same", { count: wanted }));
    put(notice.querySelector("[data-keep-theirs]"), say("keep", { count: capacity }));
    notice.hidden = false;
    notice.dataset.fresh = "";
    this.form.elements.version.value = String(version);
    this.form.dataset.capacity = String(capacity);
    this.show();
    notice.querySelector("[data-all-the-same]").focus();
  }

  done() {
    this.#hideConflict();
    this.form.removeAttribute("data-dirty");
    this.form.elements.reason.value = "";
    this.form.dataset.capacity = this.number.value;
    this.number.defaultValue = this.number.value;
    this.show(true);
  }

  #hideConflict() {
    const notice = this.form.querySelector("[data-conflict]");
    notice.hidden = true;
    delete notice.dataset.fresh;
  }

  #click(event) {
    const by = event.target.closest("[data-resize] [data-by]");
    if (by) this.set(Number(this.number.value) + Number(by.dataset.by));
    if (event.target.closest("[data-reset]")) { this.#hideConflict(); this.form.removeAttribute("data-dirty"); }
    if (event.target.closest("[data-keep-theirs]")) {
      event.preventDefault();
      this.#hideConflict();
      this.form.removeAttribute("data-dirty");
      this.number.value = this.form.dataset.capacity;
      this.show(true);
      this.number.focus();
    }
  }
}

// The pool right after a change of size: waiters are served in order while permits are free; nobody is evicted.
function after({ inUse, waiting, ahead }, size) {
  const room = Math.max(0, size - inUse);
  const served = ahead.filter((permits) => permits <= room).length;
  const used = inUse + (served ? ahead[served - 1] : 0);
  return { capacity: size, "in-use": used, free: Math.max(0, size - used), over: Math.max(0, used - size), waiting: Math.max(0, waiting - served) };
}

function sentence(now, size, then) {
  if (size === now.capacity) return say("nothing");
  const served = now.waiting - then.waiting;
  if (served > 0) return say("served", { count: whole(served) }, served);
  if (then.over > 0) return say("over-size", { count: whole(then.over) }, then.over);
  const by = Math.abs(size - now.capacity);
  return say(size > now.capacity ? "free" : "fewer", { count: whole(by) }, by);
}
