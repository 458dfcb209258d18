// The page of tokens: the stream moves its rates and shares, the server renews the rest in place, the playground stays as it is.
import { watchBanner } from "./banner.js";
import { enhanceCopies } from "./copy.js";
import { put } from "./dom.js";
import { bindKeys } from "./keys.js";
import { send } from "./send.js";
import { Renewal } from "./renewal.js";
import { Stream } from "./stream.js";
import { enhancePlay } from "./tokens-play.js";
import { hearFields, showNumbers } from "./tokens-numbers.js";

const RENEW_MS = 5000, CHANGED_MS = 400;
const main = document.querySelector("[data-tokens-page]");
const stream = new Stream(), play = enhancePlay(main);
const renewal = new Renewal(main, shown, address), renew = renewal.now;
let timer = 0;

function address() {
  const found = new URL(location.href);
  if (found.pathname.endsWith("/play/")) found.pathname = main.dataset.address;  // after a form was sent without this script
  return found;
}

function shown(fresh) {
  play.models(fresh);
  const title = `${main.querySelector("[data-title]")?.dataset.title} · Token Relay`;
  if (document.title !== title) document.title = title;
}

stream.addEventListener("hello", ({ detail: hello }) => hearFields(hello));

stream.addEventListener("sample", ({ detail: frame }) => {
  if (!main.querySelector("[data-strip]")) return;
  showNumbers(main, frame.tokens);
  if (renewal.age >= RENEW_MS) renew();
});

stream.addEventListener("change", ({ detail: change }) => {
  if (change.kind !== "model") return;
  clearTimeout(timer);
  timer = setTimeout(() => renew(), CHANGED_MS);
});

function go(address, how) {
  history[how](null, "", address);
  return renew(true);
}

main.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const range = event.target.closest("a[data-go]"), model = event.target.closest("a[data-try]");
  if (range) {
    event.preventDefault();
    go(range.href, "pushState");
  } else if (model) {
    event.preventDefault();
    history.replaceState(null, "", model.href);
    play.choose(model.dataset.try);
  }
});
main.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("[data-new-model]")) return;
  event.preventDefault();
  const wrong = form.querySelector("[data-wrong]"), { ok, body } = await send(form.getAttribute("action"), new FormData(form));
  put(wrong, ok ? "" : body.detail);
  wrong.hidden = ok;
  if (!ok) return;
  form.reset();
  form.closest("details").open = false;
  form.closest("details").querySelector("summary").focus();
  renew(true);
});
main.addEventListener("toggle", ({ target }) => {
  if (target.matches("#new-model[open]")) target.querySelector("[name=name]").focus();
}, true);
addEventListener("popstate", () => renew(true));

function row(by) {
  const rows = [...main.querySelectorAll("tr[data-model]")];
  const here = rows.indexOf(document.activeElement.closest("tr"));
  rows[Math.max(0, Math.min(rows.length - 1, here + by))]?.focus();
}

bindKeys({
  "/": () => play.focus(),
  j: () => row(1),
  k: () => row(-1),
  Enter: () => {
    const model = document.activeElement.closest("tr[data-model]")?.dataset.model;
    if (!model) return false;
    play.choose(model);
    return true;
  },
});

enhanceCopies(main);
watchBanner(stream);
stream.start();
