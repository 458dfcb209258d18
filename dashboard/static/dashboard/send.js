// Posts a form's fields as the page's script: the answer is JSON, and no redirect.
import { say } from "./words.js";

export async function send(address, fields) {
  const body = fields instanceof FormData ? fields : new FormData();
  if (body !== fields) for (const [name, value] of Object.entries(fields)) body.append(name, value);
  if (!body.has("csrfmiddlewaretoken")) body.append("csrfmiddlewaretoken", document.querySelector("[name=csrfmiddlewaretoken]").value);
  let answer;
  try {
    answer = await fetch(address, { method: "POST", body, headers: { "X-Requested-With": "fetch" } });
  } catch {
    return { ok: false, status: 0, body: { detail: say("not-sent") } };
  }
  if (answer.status === 401) location.reload();  // signed out elsewhere
  const found = await answer.json().catch(() => ({}));
  return { ok: answer.ok, status: answer.status, body: { detail: `${answer.status} ${answer.statusText}`, ...found } };
}
