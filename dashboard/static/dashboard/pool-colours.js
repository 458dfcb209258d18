// Colours for canvases: custom properties give the unresolved light-dark(), so probes' computed colours are read.
const NAMES = { key: ".key", "key-ink": ".key-ink", "key-soft": ".key-soft", "key-act": ".key-act", "key-watch": ".key-watch",
  grid: ".p-grid", axis: ".p-axis", text: ".p-text", ground: ".p-ground", fill: ".p-fill" };
const probes = document.querySelector("#probes");
const listeners = [];
let known = null;

export function colours() {
  known ??= Object.fromEntries(Object.entries(NAMES).map(([name, selector]) => [name, getComputedStyle(probes.querySelector(selector)).color]));
  return known;
}

export function onColours(listener) {
  listeners.push(listener);
}

function changed() {
  known = null;
  for (const listener of listeners) listener();
}

new MutationObserver(changed).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
