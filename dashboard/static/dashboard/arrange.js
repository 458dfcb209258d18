// Brings a node's children into an order with as few moves as it takes: a moved row is styled, laid out and painted anew.

// After it the first `depth` children are the first `depth` that are wanted; what else is out of place further down may stay so.
export function arrange(parent, wanted, depth) {
  const places = new Map([...parent.children].map((node, index) => [node, index]));
  const moving = movers(wanted, places);
  const settled = wanted.slice(0, depth).filter((node) => !moving.has(node)).map((node) => places.get(node));
  const reach = Math.max(depth, ...settled);
  let last = null;
  wanted.forEach((node, index) => {
    if (moving.has(node)) {
      if (index >= depth && places.get(node) > reach) return;
      parent.insertBefore(node, last ? last.nextSibling : parent.firstChild);
    }
    last = node;
  });
}

// All but the longest row of nodes that follow each other already as they should.
function movers(wanted, places) {
  const at = wanted.map((node) => places.get(node)), ends = [], before = [];
  at.forEach((place, index) => {
    let low = 0, high = ends.length;
    while (low < high) { const middle = (low + high) >> 1; if (at[ends[middle]] < place) low = middle + 1; else high = middle; }
    before[index] = low ? ends[low - 1] : -1;
    ends[low] = index;
  });
  const moving = new Set(wanted);
  for (let index = ends.at(-1) ?? -1; index >= 0; index = before[index]) moving.delete(wanted[index]);
  return moving;
}
