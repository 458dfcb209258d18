// What an operator does in the table: steppers, pause and resume, many rows at once; Undo, and what a colleague did first.
import { clockTime, make } from "./dom.js";
import { bindKeys } from "./keys.js";
import { cellsOf, see, seen } from "./rows.js";
import { send } from "./send.js";
import { toast, undoIsOpen, undoToast } from "./toasts.js";
import { say } from "./words.js";

const STATE_WORDS = { paused: "paused", active: "resumed", draining: "drained" };
const jobs = new Map();     // pool -> the size that is wanted while a change of it is under way
let main, address, undoable = [];

export function enhanceActs(root) {
  main = root;
  if (!main.querySelector("[data-pick-all], [data-new-pool]")) return;  // who may only look
  main.addEventListener("submit", onSubmit);
  main.addEventListener("change", onChange);
  main.addEventListener("reset", (event) => { if (event.target === form()) { event.preventDefault(); pickNone(); } });
  main.addEventListener("keydown", onKeydown);
  showPicks();
  const here = () => document.activeElement.closest?.("[data-pool]");
  bindKeys({
    x: () => here() ? cellsOf(here()).pick.click() : false,
    e: () => { const input = here() && cellsOf(here()).input; input?.focus(); input?.select(); return Boolean(input); },
    p: () => here() ? switchState(here()) : false,
  });
}

const form = () => main.querySelector("[data-rows]");
const rowOf = (pool) => main.querySelector(`[data-pool="${CSS.escape(pool)}"]`);
const inputOf = (pool) => { const row = rowOf(pool); return row ? cellsOf(row).input : null; };

function onSubmit(event) {
  if (event.target !== form()) return;
  event.preventDefault();
  const [act, pool] = (event.submitter?.value ?? "set").split(":");
  if (act === "more" || act === "less") step(pool, act === "more" ? 1 : -1);
  else if (document.activeElement.id === "percent" || act === "percent") many("percent");
  else if (act !== "set") many(act);
  else if (document.activeElement.closest(".stepper")) commit(document.activeElement.closest("[data-pool]").dataset.pool);
}

function onChange(event) {
  const row = event.target.closest("[data-pool]");
  if (event.target.matches("[data-pick-all]")) for (const row of form().querySelectorAll("[data-pool]:not([hidden])")) cellsOf(row).pick.checked = event.target.checked;
  if (event.target.type === "checkbox") showPicks();
  else if (row && event.target.closest(".stepper")) commit(row.dataset.pool);
}

function onKeydown(event) {
  const stepper = event.target.closest(".stepper"), row = event.target.closest("[data-pool]");
  if (!stepper || !event.target.matches("input")) return;
  const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (by) { event.preventDefault(); step(row.dataset.pool, by); }
  if (event.key === "Escape") { event.target.value = String(seen(event.target).size); event.stopPropagation(); row.focus(); }
}

// Sizes: steps that come faster than the answers become one change.
function step(pool, by) {
  const input = inputOf(pool), now = Number(input.value);
  input.value = String(Math.max(1, (Number.isInteger(now) ? now : seen(input).size) + by));
  commit(pool);
}

async function commit(pool) {
  const input = inputOf(pool), size = input.value.trim();
  input.closest(".stepper").classList.toggle("is-changed", size !== String(seen(input).size));
  if (jobs.has(pool)) { jobs.set(pool, size); return; }
  jobs.set(pool, size);
  while (jobs.has(pool)) {
    const wanted = jobs.get(pool), field = inputOf(pool);
    if (!field || wanted === String(seen(field).size)) { jobs.delete(pool); break; }
    const fine = await change({ [field.name]: wanted });
    if (!fine || jobs.get(pool) === wanted) jobs.delete(pool);
  }
}

function switchState(row) {
  const off = row.classList.contains("is-off");
  return change({ act: off ? "resume" : "pause", pool: row.dataset.pool });
}

async function many(act) {
  const fields = new FormData(form());
  fields.set("act", act);
  if (await change(fields)) pickNone();
}

// Sends edits and says what became of them; true if nothing stood in the way.
async function change(fields) {
  const { body, status } = await send(form().action, fields);
  for (const done of body.done ?? []) if (done.field === "size") accept(done.pool, done.version, done.now);
  const conflicts = body.conflicts ?? [], problems = body.problems ?? [];
  if (body.done?.length) offerUndo(body.done);
  for (const conflict of conflicts) sayConflict(conflict);
  if (problems.length || !conflicts.length && status !== 200) toast(problems.length ? `${problems[0].pool}: ${problems[0].detail}` : body.detail);
  else if (!body.done?.length && !conflicts.length) toast(say("nothing"));
  for (const { pool } of problems) revert(pool);
  return status === 200 && !conflicts.length && !problems.length;
}

function accept(pool, version, size) {
  const row = rowOf(pool), input = inputOf(pool);
  if (!input) return;
  const later = jobs.has(pool) && jobs.get(pool) !== String(size);
  if (!later) input.value = String(seen(input).size);  // as untouched: takes the new size over
  see(row, version, size);
}

function revert(pool) {
  const input = inputOf(pool);
  if (!input) return;
  input.value = String(seen(input).size);
  input.closest(".stepper").classList.remove("is-changed");
}

// Steps of one pool in a row are taken back together.
function offerUndo(done) {
  const before = undoable[0], [first] = done;
  const goesOn = undoIsOpen() && undoable.length === 1 && done.length === 1 && before.pool === first.pool && before.field === first.field;
  undoable = goesOn ? [{ ...first, was: before.was, pin: before.pin }] : done;
  const undo = async () => {
    const fields = { reason: say("undo") };
    for (const { field, pool, version, now, was, pin } of undoable) fields[`${field}:${pool}:${version}:${now}${pin}`] = was;
    undoable = [];
    const { body, status } = await send(form().action, fields);
    for (const each of body.done ?? []) if (each.field === "size") accept(each.pool, each.version, each.now);
    for (const conflict of body.conflicts ?? []) sayConflict(conflict);
    if (!body.conflicts?.length) toast(status === 200 ? say("undone") : body.detail);
  };
  undoToast(undo, ...describe(undoable));
}

function describe(done) {
  const [{ pool, field, was, now }] = done;
  if (done.length === 1) return [make("b", "", pool), " ", field === "size" ? say("resized", { from: was, to: now }) : say(STATE_WORDS[now])];
  return [say(field === "size" ? "many-resized" : now === "paused" ? "many-paused" : "many-resumed", { count: done.length }, done.length)];
}

// A colleague was first: nothing was changed, the newer value is shown, and the person decides again.
function sayConflict({ field, pool, version, now, wanted, actor, at }) {
  if (field === "size") {
    const input = inputOf(pool);
    if (input) { input.value = String(seen(input).size); see(rowOf(pool), version, now); }
  }
  const text = field === "size" ? say("conflict-size", { now, wanted }) : say("conflict-state");
  const time = make("time", "", clockTime(at));
  time.title = at;
  const notice = make("div", "notice", make("p", "", make("b", "", pool), ": ", make("b", "", actor), ` ${text} `, time));
  notice.setAttribute("role", "alert");
  notice.dataset.conflict = pool;
  const button = (words, act) => {
    const node = make("button", "btn btn-small", words);
    node.type = "button";
    node.addEventListener("click", () => { notice.remove(); act?.(); });
    return node;
  };
  notice.append(
    ...field === "size" ? [button(say("set-anyway", { wanted }), () => change({ [`size:${pool}:${version}:${now}`]: wanted }))] : [],
    button(field === "size" ? say("keep", { now }) : say("close")),
  );
  const notices = main.querySelector("[data-notices]");
  for (const old of notices.children) if (old.dataset.conflict === pool) old.remove();
  notices.append(notice);
}

// Picks
function pickNone() {
  for (const box of form().querySelectorAll("[name=pool]:checked")) box.checked = false;
  showPicks();
}

export function showPicks() {
  const all = main?.querySelector("[data-pick-all]");
  if (!all) return;
  all.hidden = false;
  let picked = 0;
  for (const box of form().querySelectorAll("[name=pool]")) {
    box.closest("tr").classList.toggle("is-picked", box.checked);
    picked += Number(box.checked);
  }
  main.querySelector("[data-bulk]").hidden = !picked;
  document.body.classList.toggle("has-picks", picked > 0);
  const count = main.querySelector("[data-picked]");
  if (count.textContent !== String(picked)) count.textContent = String(picked);
  if (!picked) all.checked = false;
}
