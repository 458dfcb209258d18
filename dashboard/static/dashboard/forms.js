// Steppers and forms work without this; with it the page stays where it is. Also: copy a command.
const toasts = document.querySelector("[data-toasts]");
const TOAST_MS = 8000;

function say(text) {
  const toast = document.createElement("div");
  toast.className = "toast";
  toast.textContent = text;
  toasts.replaceChildren(toast);
  setTimeout(() => toast.remove(), TOAST_MS);
}

async function send(form, submitter) {
  const body = new FormData(form, submitter?.name ? submitter : undefined);
  const answer = await fetch(form.action, { method: "POST", body, headers: { "X-Requested-With": "fetch" } });
  if (answer.ok) return true;
  const problem = await answer.json().catch(() => ({}));
  say(problem.detail ?? `${answer.status} ${answer.statusText}`);
  return false;
}

function step(form, submitter) {
  const shown = form.elements.shown, input = form.elements.capacity;
  const next = submitter?.name === "by" ? Number(shown.value) + Number(submitter.value) : Number(input.value);
  return { shown, input, next };
}

export function enhanceForms(main, changed) {
  main.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("[data-stepper], .new-pool-form")) return;
    event.preventDefault();
    const stepper = form.matches("[data-stepper]") ? step(form, event.submitter) : null;
    try {
      if (!await send(form, event.submitter)) {
        if (stepper) stepper.input.value = stepper.shown.value;
        return;
      }
    } catch (error) {
      say(error.message);
      return;
    }
    if (stepper) stepper.shown.value = stepper.input.value = String(stepper.next);
    else { form.reset(); form.closest("details")?.removeAttribute("open"); document.activeElement.blur(); }
    changed();
  });

  main.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const label = button.querySelector("span"), word = label.textContent;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    label.textContent = button.dataset.done;
    setTimeout(() => { label.textContent = word; }, 2000);
  });

  const show = () => { for (const button of main.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard; };
  new MutationObserver(show).observe(main, { childList: true });
  show();
}
