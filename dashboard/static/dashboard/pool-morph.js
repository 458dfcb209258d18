// Brings a part of the page to what the server says now, in place: nodes stay, only what differs is written.
// Left alone: [data-own] and [data-keep] (scripts' own), what somebody typed, and the order of rows under somebody's hand.
const keyOf = (node) => node.nodeType === 1 ? node.id || node.dataset.key || "" : "";

function selects(node) {
  const selection = getSelection();
  return !selection.isCollapsed && node.contains(selection.anchorNode);
}

function inHand(rows) {
  return rows.matches(":hover") || rows.contains(document.activeElement) || selects(rows);
}

function syncAttributes(from, to) {
  if (from.matches("input, textarea, select") && from.form?.hasAttribute("data-dirty")) return;
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name) && name !== "data-dirty") from.removeAttribute(name);
}

function morphNode(from, to, force) {
  if (from.nodeType !== 1) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  if (from.hasAttribute("data-own") || from.hasAttribute("data-keep") || from.isEqualNode(to)) return;
  syncAttributes(from, to);
  if (from.nodeName !== "SELECT") morph(from, to, force);
  if (from.form?.matches("[data-follow]:not([data-dirty])")) from.value = to.value;
}

function finder(nodes) {
  const keyed = new Map(nodes.filter(keyOf).map((node) => [keyOf(node), node]));
  const plain = nodes.filter((node) => !keyOf(node));
  let next = 0;
  return (wanted) => {
    const key = keyOf(wanted);
    if (key) {
      const found = keyed.get(key);
      return found?.nodeName === wanted.nodeName ? found : undefined;
    }
    const at = plain.findIndex((node, index) => index >= next && node.nodeName === wanted.nodeName);
    if (at < 0) return undefined;
    next = at + 1;
    return plain[at];
  };
}

// `force`: the person asked for another picture, so rows may change under the pointer.
export function morph(from, to, force = false) {
  const olds = [...from.childNodes], find = finder(olds), kept = new Set();
  const still = !force && from.hasAttribute("data-rows") && inHand(from);
  let place = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const found = find(wanted);
    if (found) {
      kept.add(found);
      morphNode(found, wanted, force);
      if (still) continue;
      if (found === place) place = place.nextSibling;
      else from.insertBefore(found, place);
    } else if (!still) from.insertBefore(document.importNode(wanted, true), place);
  }
  if (!still) for (const old of olds) if (!kept.has(old)) old.remove();
}
