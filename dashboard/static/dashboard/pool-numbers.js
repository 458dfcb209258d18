// The strip, the badge and the counts of the tabs, each second, in place.
import { put } from "./dom.js";
import { duration, rate, whole } from "./format.js";
import { say } from "./words.js";

const badges = document.querySelector("[data-badges]").content;

// Returns whether the health word is another one, so that the rest of the page has to follow.
export function showNumbers(main, get, health) {
  const strip = main.querySelector("[data-strip]");
  if (!strip) return false;
  const fact = (key, text, unit) => {
    put(strip.querySelector(`[data-live="${key}"]`), text);
    if (unit !== undefined) put(strip.querySelector(`[data-unit-of="${key}"]`), unit);
  };
  fact("qps", rate(get("window_qps")));
  fact("average", ...duration(get("window_average_wait_s")));
  fact("in-use", whole(get("in_use")), `/ ${whole(get("capacity"))}`);
  fact("waiting", whole(get("waiting")));
  fact("timeouts", whole(get("window_timeouts")));
  strip.querySelector('[data-live="timeouts"]').parentElement.classList.toggle("is-act", get("window_timeouts") > 0);
  const oldest = get("waiting") ? say("oldest", { time: duration(get("oldest_wait_s")).join(" ") }) : say("nobody-waits");
  put(strip.querySelector('[data-note="waiting"]'), oldest);
  put(main.querySelector('[data-tab="waiters"] .n'), String(get("waiting")));
  put(main.querySelector('[data-resize] [data-live="capacity"]'), String(get("capacity")));
  const badge = main.querySelector("[data-badge] .badge");
  if (badge.classList.contains(`badge-${health}`)) return false;
  badge.replaceWith(badges.querySelector(`.badge-${health}`).cloneNode(true));
  return true;
}
