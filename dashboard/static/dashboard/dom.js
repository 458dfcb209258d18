// Small steps on the document that every page uses.
// A text that is there already is changed, not replaced: nothing is made anew, and a selection's ends stay where they are.
export function put(node, text) {
  const only = node?.firstChild;
  if (only && !only.nextSibling && only.nodeType === Node.TEXT_NODE) { if (only.data !== text) only.data = text; } else if (node && node.textContent !== text) node.textContent = text;
}

export const set = (node, name, value) => { if (node.getAttribute(name) !== value) node.setAttribute(name, value); };

export function make(tag, className, ...content) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...content);
  return node;
}

// Times are written in UTC by the server, with UTC in the title: here they become the reader's own.
const clock = new Intl.DateTimeFormat(document.documentElement.lang, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
export const clockTime = (at) => clock.format(new Date(at));
export function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) put(time, clockTime(time.dateTime));
}

// Whether somebody's hand is on this part of the page: then its rows stay where they are.
export function inHand(root) {
  if (root.contains(document.activeElement) || root.matches(":hover")) return true;
  const selection = getSelection();
  return !selection.isCollapsed && root.contains(selection.anchorNode);
}
