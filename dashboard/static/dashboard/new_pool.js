// The form for a new pool: stays where it is, and says beside the field what is wrong.
import { put } from "./dom.js";
import { send } from "./send.js";

export function enhanceNewPool(main, made) {
  main.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("[data-new-pool]")) return;
    event.preventDefault();
    const wrong = form.querySelector("[data-wrong]");
    const { ok, body } = await send(form.action, new FormData(form));
    put(wrong, ok ? "" : body.detail);
    wrong.hidden = ok;
    if (!ok) return;
    form.reset();
    form.closest("details")?.removeAttribute("open");
    document.activeElement.blur();
    made();
  });
  main.addEventListener("toggle", (event) => {
    if (event.target.matches("details.new-pool") && event.target.open) event.target.querySelector("input[name=name]").focus();
  }, true);
}
