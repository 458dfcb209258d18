// Copy buttons: `data-copy` names the element whose text goes to the clipboard. Without a clipboard they stay hidden.
import { say } from "./words.js";

export function enhanceCopies(root) {
  const show = () => { for (const button of root.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard; };
  root.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const label = button.querySelector("span"), word = label.textContent;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    label.textContent = say("copied");
    setTimeout(() => { label.textContent = word; }, 2000);
  });
  new MutationObserver(show).observe(root, { childList: true });
  show();
}
