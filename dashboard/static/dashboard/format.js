// Numbers as people read them: the same forms as dashboard/format.py.
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function whole(value) {
  if (value < 9999.5) return grouped.format(value);
  if (value < 999950) return `${(value / 1000).toFixed(1)}k`;
  return `${(value / 1e6).toFixed(1)}M`;
}

export function rate(value) {
  if (value === 0) return "0";
  if (value < 0.995) return Math.max(value, 0.01).toFixed(2);
  return value < 99.95 ? value.toFixed(1) : whole(value);
}

export function duration(seconds) {
  if (seconds === null) return ["–", ""];
  if (seconds < 0.00095) return [seconds >= 0.00005 ? (seconds * 1000).toFixed(1) : "0", "ms"];
  if (seconds < 0.9995) return [(seconds * 1000).toFixed(0), "ms"];
  if (seconds < 99.95) return [seconds.toFixed(1), "s"];
  if (seconds < 5999.5) return [seconds.toFixed(0), "s"];
  return [grouped.format(seconds / 60), "min"];
}

export const percent = (share) => share === null ? "–" : (share * 100).toFixed(1);
