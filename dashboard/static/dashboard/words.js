// What scripts say, in the reader's language: patterns that the page carries or has an address for, for one and for more.
async function read(said) {
  if (!said) return {};
  return said.startsWith("/") ? (await fetch(said)).json() : JSON.parse(said);
}

const nodes = [document.body, document.querySelector("#main")];
const words = Object.assign({}, ...await Promise.all(nodes.map((node) => read(node?.dataset.words))));

export function say(key, values = {}, count) {
  const pattern = Array.isArray(words[key]) ? words[key][count === 1 ? 0 : 1] : words[key];
  return pattern.replace(/%\((\w+)\)s/g, (_, name) => values[name]).replaceAll("%%", "%");
}
