// The playground: counts while somebody types, without leaving the page; steps through the tokens with the arrow keys.
import { put } from "./dom.js";
import { whole } from "./format.js";
import { say } from "./words.js";

const TYPED_MS = 250, AS_TYPED = 20_000;  // characters up to which each pause of typing counts anew

export function enhancePlay(main) {
  const form = main.querySelector("[data-play-form]"), out = main.querySelector("[data-played]");
  if (!form) return { choose() {}, focus: () => false, models() {} };
  const text = form.elements.text, hint = form.querySelector("[data-hint]"), most = text.maxLength;
  let timer = 0, asking = null;

  async function count(sample = false) {
    clearTimeout(timer);
    asking?.abort();
    if (!text.value && !sample) return;
    const mine = asking = new AbortController();
    out.classList.add("is-busy");
    try {
      const answer = await fetch(form.getAttribute("action"), {
        method: "POST", body: new FormData(form), headers: { "X-Requested-With": "fetch" }, signal: mine.signal,
      });
      if (answer.status === 401) { location.reload(); return; }
      show(new DOMParser().parseFromString(await answer.text(), "text/html").body);
    } catch {
      if (!mine.signal.aborted) put(hint, say("not-sent"));
    }
    if (asking === mine) out.classList.remove("is-busy");
  }

  function show(fresh) {
    if (!fresh.querySelector(".sums, .empty")) { put(hint, say("not-sent")); return; }
    out.replaceChildren(...fresh.childNodes);
    describe();
  }

  function describe() {
    const units = text.value.length;
    if (!units || units >= most) { put(hint, say(units ? "too-long" : "empty", { most: whole(most) })); return; }
    const length = units > AS_TYPED ? units : [...text.value].length;
    const characters = say("characters", { count: whole(length) }, length);
    put(hint, say(units > AS_TYPED ? "long" : "typed", { characters }));
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); count(); });
  form.addEventListener("change", ({ target }) => { if (target !== text) count(); });
  text.addEventListener("input", () => {
    describe();
    clearTimeout(timer);
    if (text.value.length <= AS_TYPED) timer = setTimeout(count, TYPED_MS);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); count(); }
  });
  out.addEventListener("click", (event) => {
    const sample = event.target.closest("[data-sample]"), token = event.target.closest(".tok");
    if (sample) {
      event.preventDefault();
      text.value = sample.dataset.sample;
      count();
      text.focus();
    } else if (token) choose(token);
  });
  out.addEventListener("keydown", (event) => step(event));
  out.addEventListener("focusin", ({ target }) => { if (target.matches(".tok")) tell(target); });
  out.addEventListener("mouseover", ({ target }) => { const token = target.closest(".tok"); if (token) tell(token); });

  const tell = (token) => put(out.querySelector("[data-tokinfo]"), token.title);

  function choose(token) {
    const was = token.getAttribute("aria-pressed") === "true";
    out.querySelector('.tok[aria-pressed="true"]')?.setAttribute("aria-pressed", "false");
    token.setAttribute("aria-pressed", String(!was));
    land(token);
  }

  // One of the tokens is in the order of tabs; the arrow keys make it another.
  function land(token) {
    for (const other of out.querySelectorAll('.tok:not([tabindex="-1"])')) other.tabIndex = -1;
    token.tabIndex = 0;
    token.focus();
  }

  function step(event) {
    if (!event.target.matches(".tok")) return;
    const tokens = [...out.querySelectorAll(".tok")], here = tokens.indexOf(event.target);
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: tokens.length - 1 }[event.key];
    if (to === undefined || !tokens[to]) return;
    event.preventDefault();
    land(tokens[to]);
  }

  describe();
  return {
    focus() { text.focus(); },
    choose(model) {
      form.elements.model.value = model;
      main.querySelector("#play").scrollIntoView({ block: "start" });
      if (text.value) count();
      else text.focus();
    },
    // Models that came or went since.
    models(fresh) {
      const rows = [...fresh.querySelectorAll("tr[data-model]")].map((row) => row.dataset.model);
      const select = form.elements.model, chosen = select.value;
      if (rows.join() === [...select.options].map((option) => option.value).join()) return;
      select.replaceChildren(...rows.map((name) => new Option(name, name, false, name === chosen)));
    },
  };
}
