// Says whether the numbers are live: a clock in the bar that freezes them, and a banner since when they are not.
import { put } from "./dom.js";
import { bindKeys } from "./keys.js";
import { say } from "./words.js";

const root = document.documentElement;
const mark = document.querySelector("[data-freeze]");
const banner = document.querySelector("[data-banner]");
const clock = new Intl.DateTimeFormat(root.lang, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export function watchBanner(stream) {
  let last = Date.now(), timer = 0;
  const word = mark.querySelector("b"), time = mark.querySelector("time");

  function count() {
    put(banner.querySelector("[data-lost-for]"), String(Math.round((Date.now() - last) / 1000)));
    put(banner.querySelector("[data-next]"), String(Math.max(0, Math.ceil((stream.nextTryAt - Date.now()) / 1000))));
  }

  stream.addEventListener("tick", ({ detail: frame }) => {
    last = Date.parse(frame.at);
    clearInterval(timer);
    timer = 0;
    mark.hidden = false;
    banner.hidden = true;
    root.classList.remove("is-stale");
    put(word, say(stream.frozen ? "frozen" : "live"));
  });

  stream.addEventListener("sample", ({ detail: frame }) => {
    put(time, clock.format(Date.parse(frame.at)));
    time.title = frame.at;
  });

  stream.addEventListener("lost", () => {
    mark.hidden = false;
    put(word, say("lost"));
    root.classList.add("is-stale");
    put(banner.querySelector("[data-since]"), clock.format(last));
    count();
    banner.hidden = false;
    timer ||= setInterval(count, 1000);
  });

  stream.addEventListener("freeze", ({ detail: frozen }) => {
    mark.setAttribute("aria-pressed", String(frozen));
    if (!root.classList.contains("is-stale")) put(word, say(frozen ? "frozen" : "live"));
  });

  const toggle = () => stream.freeze(!stream.frozen);
  mark.addEventListener("click", toggle);
  bindKeys({ " ": toggle });
  banner.querySelector("[data-retry]").addEventListener("click", () => stream.retry());
}
