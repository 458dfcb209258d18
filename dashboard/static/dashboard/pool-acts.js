// Forms and questions without leaving the page: send, say what was done, offer to take it back, ask before what cannot be.
import { make } from "./dom.js";
import { send } from "./send.js";
import { toast, undoToast } from "./toasts.js";

export class Acts {
  constructor(main, { resize, renew, go }) {
    Object.assign(this, { main, resize, renew, go });
    document.addEventListener("submit", (event) => {
      if (!event.target.matches("[data-send]")) return;
      event.preventDefault();
      this.#send(event.target, event.submitter);
    });
    main.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-ask]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.#ask(link);
    });
    main.addEventListener("input", ({ target }) => { if (target.form && !target.form.matches("[data-find], [data-resize]")) target.form.dataset.dirty = ""; });
  }

  async #send(form, submitter) {
    if (form.dataset.sending) return;
    form.dataset.sending = "1";
    const { ok, body } = await send(form.getAttribute("action"), new FormData(form, submitter?.name ? submitter : undefined));
    delete form.dataset.sending;
    if (!ok) { this.#refused(form, body); return; }
    form.closest("dialog")?.close();
    if (form.matches("[data-resize]")) this.resize.done();
    delete form.dataset.dirty;
    if (body.go) { location.assign(body.go); return; }
    if (body.to) { this.go(body.to); return; }
    this.#say(body);
    if (form.dataset.done) this.go(form.dataset.done);
    else this.renew(true);
  }

  #refused(form, body) {
    const wrong = form.querySelector("[data-wrong]");
    if (wrong) { wrong.textContent = body.detail; wrong.hidden = false; return; }
    if (body.conflict && form.matches("[data-resize]")) this.resize.conflict(body.conflict);
    else {
      if (body.conflict && form.elements.version) form.elements.version.value = String(body.conflict.version);
      toast(body.conflict?.text ?? body.detail);
    }
    this.renew();
  }

  #say({ said, undo }) {
    const text = [make("b", "", this.main.dataset.name), ` ${said}`];
    if (!undo) { toast(...text); return; }
    undoToast(async () => {
      const { ok, body } = await send(undo.url, undo.fields);
      if (ok) this.#say({ said: body.said, undo: null });
      else toast(body.conflict?.text ?? body.detail);
      this.renew(true);
    }, ...text);
  }

  async #ask(link) {
    const answer = await fetch(link.href, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
    if (!answer?.ok) {
      const problem = await answer?.json().catch(() => null);
      if (problem) { toast(problem.detail); this.renew(); } else location.assign(link.href);
      return;
    }
    const dialog = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("dialog");
    document.querySelector("dialog#ask")?.remove();
    document.body.append(dialog);
    dialog.addEventListener("click", (event) => {
      if (!event.target.closest("[data-shut]")) return;
      event.preventDefault();
      dialog.close();
    });
    dialog.addEventListener("close", () => { dialog.remove(); link.focus(); });
    dialog.showModal();
    dialog.querySelector("#ask-why").focus();
  }
}
