// What the overview says of everything: the verdict, the totals and each row's cause. dashboard/overview.py says the same first.
import { put } from "./dom.js";
import { duration, percent, rate, whole } from "./format.js";
import { say } from "./words.js";

const OFF = ["paused", "draining"], WATCH = ["queuing", "shrinking"], MINUTE = 12;
const sum = (pools, field) => pools.reduce((all, pool) => all + (pool.get(field) ?? 0), 0);

// The pools come worst first.
export function sayVerdict(head, pools) {
  const act = pools.filter((pool) => pool.health === "starving");
  const watch = pools.filter((pool) => WATCH.includes(pool.health));
  const worst = act[0] ?? watch[0];
  const heading = head.querySelector("h1");
  let words = worst ? say(worst.health) : calm(pools);
  const more = act.length + watch.length - 1;
  if (worst && more) words += say("join") + say("more", { more }, more);
  name(heading, worst, act.length ? "is-act" : "is-watch");
  put(heading.querySelector('[data-says="verdict"]'), words);
  put(head.querySelector('[data-says="lede"]'), lede(pools));
  const count = act.length || watch.length;
  const title = worst ? say(act.length ? "title-act" : "title-watch", { count }, count) : say("title");
  if (document.title !== `${title} · Token Relay`) document.title = `${title} · Token Relay`;
}

function name(heading, worst, tone) {
  let link = heading.querySelector("a");
  if (!worst) { if (link) { link.nextSibling.remove(); link.remove(); } return; }
  if (!link) heading.prepend(link = document.createElement("a"), " ");
  if (link.textContent !== worst.name) { link.textContent = worst.name; link.href = `/pools/${worst.name}/`; }
  if (link.className !== tone) link.className = tone;
}

function calm(pools) {
  const off = pools.filter((pool) => OFF.includes(pool.health)).length;
  const rest = pools.every((pool) => pool.health === "idle" || OFF.includes(pool.health));
  return say(rest ? "rest" : "flows") + (off ? say("join") + say("off", { off }, off) : "");
}

function lede(pools) {
  const timeouts = sum(pools, "window_timeouts");
  const oldest = Math.max(0, ...pools.map((pool) => pool.get("waiting") ? pool.get("oldest_wait_s") : 0));
  const parts = [];
  if (timeouts) parts.push(say("gave-up", { count: whole(timeouts) }, timeouts));
  if (oldest) parts.push(say("oldest", { time: duration(oldest).join(" ") }));
  return parts.join(" ") || say("nobody");
}

export function sayTotals(strip, pools, tokens, steps) {
  const find = (key) => strip.querySelector(`[data-live="${key}"]`);
  const total = (key, text, unit, note) => {
    put(find(key), text);
    if (unit !== null) put(strip.querySelector(`[data-unit-of="${key}"]`), unit);
    put(strip.querySelector(`[data-note="${key}"]`), note);
  };
  const qps = sum(pools, "window_qps"), grants = sum(pools, "window_grants"), timeouts = sum(pools, "window_timeouts");
  const waited = pools.reduce((all, { get }) => all + (get("window_average_wait_s") ?? 0) * get("window_grants"), 0);
  const inUse = sum(pools, "in_use"), capacity = sum(pools, "capacity");
  const [qpsNote, waitNote] = notesOfBefore(pools, qps, steps);
  total("qps", rate(qps), null, qpsNote);
  total("average", ...duration(grants ? waited / grants : null), waitNote);
  total("in-use", whole(inUse), `/ ${whole(capacity)}`, fullNote(pools, inUse, capacity));
  total("waiting", whole(sum(pools, "waiting")), null, most(pools, "waiting", "of-them", "nobody-waits"));
  total("timeouts", whole(timeouts), null, most(pools, "window_timeouts", "timeouts", "no-timeouts"));
  find("timeouts").parentElement.classList.toggle("is-act", timeouts > 0);
  total("hits", percent(tokens.hit_rate), tokens.hit_rate === null ? "" : "%", say("tokens", { rate: rate(tokens.tokens_s) }));
}

// What was five minutes ago changes with the steps only.
let past = { of: "" };

function pastOf(pools, steps) {
  const of = `${steps.newest} ${pools.length}`;
  if (past.of === of) return past;
  let known = false, before = 0, waited = 0, weight = 0;
  for (const { name } of pools) {
    const kept = steps.of(name), rates = kept.qps.slice(0, MINUTE).filter((value) => value !== null);
    known ||= rates.length > 0;
    if (rates.length) before += rates.reduce((all, value) => all + value, 0) / rates.length;
    for (let step = 0; step < MINUTE; step += 1) {
      if (kept.qps[step] && kept.wait[step] !== null) { waited += kept.wait[step] * kept.qps[step]; weight += kept.qps[step]; }
    }
  }
  return past = { of, known, before, waited, weight };
}

function notesOfBefore(pools, qps, steps) {
  const { known, before, waited, weight } = pastOf(pools, steps);
  const change = known && before ? Math.round((qps / before - 1) * 100) : null;
  const key = change === null ? "window" : change > 0 ? "above" : change < 0 ? "below" : "same";
  return [
    say(key, { percent: whole(Math.abs(change)) }),
    weight ? say("before", { time: duration(waited / weight).join(" ") }) : say("window"),
  ];
}

function fullNote(pools, inUse, capacity) {
  const full = pools.filter(({ get }) => get("in_use") >= get("capacity")).length;
  const share = capacity ? (100 * inUse / capacity).toFixed(0) : "0";
  return say(full ? "full" : "none-full", { percent: share, full }, full);
}

function most(pools, field, key, none) {
  const worst = pools.reduce((found, pool) => !found || pool.get(field) > found.get(field) ? pool : found, null);
  return worst?.get(field) ? say(key, { count: whole(worst.get(field)), pool: worst.name }) : say(none);
}

// [who, what] of a row's cause; null where only the server knows (who paused it, and why).
export function cause({ health, get, waiting }) {
  if (OFF.includes(health)) return null;
  if (health === "shrinking") return ["", say("over", { count: whole(get("over_limit")) })];
  if (health !== "starving" && health !== "queuing" || !waiting?.most) return ["", ""];
  const [tenant, count, due] = waiting.most;
  const values = { count: whole(count), capacity: whole(get("capacity")), due: whole(due) };
  return [tenant, say(count > due ? "over-share" : "holds", values)];
}
