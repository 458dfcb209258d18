// Rates and shares, each second, in place. The same forms as dashboard/tokens/facts.py and the templates write first.
import { put, set } from "./dom.js";
import { percent, rate, whole } from "./format.js";
import { say } from "./words.js";

const TIERS = ["text", "segment", "shared", "computed"];
let fields = {}, levels = TIERS;

export function hearFields(hello) {
  fields = Object.fromEntries(hello.model_fields.map((name, index) => [name, index]));
  levels = hello.levels;
}

const byLevel = (pattern, shares) => shares.computed === null
  ? say("nothing")
  : say(pattern, Object.fromEntries(TIERS.map((level) => [level, ((shares[level] ?? 0) * 100).toFixed(0)])));

export function showNumbers(main, tokens) {
  const strip = main.querySelector("[data-strip]");
  const fact = (key, text, unit, note) => {
    put(strip.querySelector(`[data-live="${key}"]`), text);
    put(strip.querySelector(`[data-unit-of="${key}"]`), unit);
    const node = strip.querySelector(`[data-note="${key}"]`);
    put(node, note);
    set(node, "title", note);
  };
  const shares = Object.fromEntries(levels.map((level, index) => [level, tokens.levels[index]]));
  const reused = shares.computed === null ? null : 1 - shares.computed;
  put(main.querySelector('[data-says="flow"]'), tokens.requests_s ? say("flow", { percent: ((reused ?? 0) * 100).toFixed(0) }) : say("rest"));
  const perSecond = strip.querySelector('[data-unit-of="requests"]').textContent;
  fact("requests", rate(tokens.requests_s), perSecond, say("window"));
  fact("tokens", rate(tokens.tokens_s), perSecond,
    tokens.requests_s ? say("a-request", { count: whole(tokens.tokens_s / tokens.requests_s) }) : say("window"));
  fact("hits", percent(reused), reused === null ? "" : "%", byLevel("by-level", shares));
  for (const row of main.querySelectorAll("[data-level]")) showLevel(row, shares[row.dataset.level]);
  for (const row of main.querySelectorAll("tr[data-model]")) showModel(row, tokens.models[row.dataset.model]);
}

function showLevel(row, share) {
  put(row.querySelector("[data-share]"), percent(share));
  set(row.querySelector("[data-bar]"), "width", `${((share ?? 0) * 100).toFixed(1)}%`);
}

function showModel(row, values) {
  const get = (name) => values?.[fields[name]] ?? null;
  put(row.querySelector('[data-cell="requests"]'), rate(get("requests_s") ?? 0));
  put(row.querySelector('[data-cell="tokens"]'), rate(get("tokens_s") ?? 0));
  const computed = get("computed");
  put(row.querySelector('[data-cell="reused"]'), computed === null ? "–" : `${((1 - computed) * 100).toFixed(0)} %`);
  const shares = Object.fromEntries(TIERS.map((level) => [level, get(level)]));
  const bar = row.querySelector(".tiers"), parts = bar.querySelectorAll("rect");
  let from = 0;
  TIERS.forEach((level, index) => {
    const width = (shares[level] ?? 0) * 100;
    set(parts[index], "x", `${from.toFixed(1)}%`);
    set(parts[index], "width", `${width.toFixed(1)}%`);
    from += width;
  });
  set(bar, "aria-label", byLevel("tiers", shares));
}
