// Single keys. They rest while somebody types, while a dialog is open, and when they are switched off in the list of keys.
const acts = new Map();
const OFF = "single-keys-off";
const isOff = () => { try { return localStorage.getItem(OFF) === "1"; } catch { return false; } };

export function bindKeys(more) {
  for (const [key, act] of Object.entries(more)) acts.set(key, act);
}

export function switchKeys(on) {
  try { if (on) localStorage.removeItem(OFF); else localStorage.setItem(OFF, "1"); } catch { /* private mode: for this page only */ }
}

export const keysAreOn = () => !isOff();

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (event.key === "Escape") {
    acts.get("Escape")?.(event);
    return;
  }
  if (typing || document.querySelector("dialog[open]") || isOff()) return;
  if ((event.key === " " || event.key === "Enter") && event.target.matches("button, a, summary, input")) return;
  const act = acts.get(event.key);
  if (act && act(event) !== false) event.preventDefault();
});
