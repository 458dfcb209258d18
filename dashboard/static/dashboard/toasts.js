// One short message at a time, at the foot of the page: with Undo for ten seconds where there is something to take back.
import { make, put } from "./dom.js";
import { bindKeys } from "./keys.js";
import { say } from "./words.js";

const box = document.querySelector("[data-toasts]");
const PLAIN_S = 8, UNDO_S = 10;
let timer = 0, undoNow = null;

export function closeToast() {
  clearInterval(timer);
  undoNow = null;
  box.replaceChildren();
}

export function toast(...content) {
  closeToast();
  box.append(make("div", "toast", make("span", "", ...content)));
  let left = PLAIN_S;
  timer = setInterval(() => { if (!--left) closeToast(); }, 1000);
}

// `undo` runs at most once, within the ten seconds.
export function undoToast(undo, ...content) {
  closeToast();
  let left = UNDO_S;
  const count = make("b", "", String(left));
  const button = make("button", "btn", `${say("undo")} `, count);
  button.type = "button";
  const text = make("span", "", ...content);
  count.ariaHidden = "true";  // a countdown is not read out every second
  box.append(make("div", "toast", text, button));
  undoNow = () => { closeToast(); undo(); };
  button.addEventListener("click", () => undoNow?.());
  timer = setInterval(() => { left -= 1; put(count, String(left)); if (!left) closeToast(); }, 1000);
}

export const undoIsOpen = () => undoNow !== null;

bindKeys({ u: () => undoNow ? undoNow() : false });
