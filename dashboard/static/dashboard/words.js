// What scripts say, in the reader's language: patterns that the page carries, for one and for more.
const read = (node) => node?.dataset.words ? JSON.parse(node.dataset.words) : {};
const words = { ...read(document.body), ...read(document.querySelector("#main")) };

export function say(key, values = {}, count) {
  const pattern = Array.isArray(words[key]) ? words[key][count === 1 ? 0 : 1] : words[key];
  return pattern.replace(/%\((\w+)\)s/g, (_, name) => values[name]).replaceAll("%%", "%");
}
