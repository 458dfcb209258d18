// Times in the reader's zone, ages and countdowns that go on by themselves. The same forms as dashboard/pool/figures.py.
const lang = document.documentElement.lang;
const clock = new Intl.DateTimeFormat(lang, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const date = new Intl.DateTimeFormat(lang, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
let skewMs = 0;

export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;
export const timeOf = (ms) => clock.format(ms);

export function age(seconds) {
  if (seconds < 59.95) return `${Math.max(0, seconds).toFixed(1)} s`;
  const whole = Math.floor(seconds + 0.05);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole % 86400 / 3600)} h`;
}

export function countdown(seconds) {
  const whole = Math.max(0, Math.floor(seconds)), two = (value) => String(value).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)}`;
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole % 3600 / 60))}:${two(whole % 60)}`;
}

const write = (node, text) => {
  if (node.firstChild?.nodeType === 3 && node.childNodes.length === 1) {
    if (node.firstChild.data !== text) node.firstChild.data = text;
  } else node.textContent = text;
};

// The browser's clock may be wrong: ages are counted by the server's.
export function hearClock(serverMs) {
  skewMs = serverMs - Date.now();
}

export function tick(within) {
  const now = Date.now() + skewMs;
  for (const node of within.querySelectorAll("[data-since]")) write(node, age((now - Number(node.dataset.since)) / 1000));
  for (const node of within.querySelectorAll("[data-until]")) write(node, countdown((Number(node.dataset.until) - now) / 1000));
}

export function localise(within) {
  const today = new Date().toDateString();
  for (const node of within.querySelectorAll("[data-clock]")) {
    const ms = node.dataset.ms ? Number(node.dataset.ms) : Date.parse(node.dateTime);
    if (!node.title) node.title = new Date(ms).toISOString();
    write(node, (new Date(ms).toDateString() === today ? clock : date).format(ms));
  }
  tick(within);
}
