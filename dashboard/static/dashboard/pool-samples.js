// The last 15 minutes of this pool, second by second, and their columns in steps. The same steps as dashboard/pool/charts.py.
const KEPT_S = 900, POINTS = 300, QUIET_S = 10;
export const RATES = ["granted", "timeouts", "rejected", "cancelled"];
export const STATES = ["capacity", "in_use", "waiting"];
export const WAIT = "average_wait_s";
const NAMES = [...RATES, WAIT, ...STATES];

export class Samples {
  #rows = new Map();    // second -> { name: value }
  newest = 0;

  load({ fields, rows }) {
    this.#rows.clear();
    for (const row of rows) this.add(row[0], (name) => row[fields.indexOf(name)]);
  }

  add(second, get) {
    this.#rows.set(second, Object.fromEntries(NAMES.map((name) => [name, get(name)])));
    this.newest = Math.max(this.newest, second);
    for (const old of this.#rows.keys()) {
      if (old > this.newest - KEPT_S) break;
      this.#rows.delete(old);
    }
  }

  // { x: [...], columns: { name: [...] }, gaps: [[from, to], ...], step }; null is a gap, undefined is joined over.
  columns(rangeS) {
    const step = Math.max(1, Math.floor(rangeS / POINTS)), count = Math.ceil(rangeS / step);
    const first = Math.floor(this.newest / step) - count + 1;
    const buckets = Array.from({ length: count }, () => []);
    for (const [second, row] of this.#rows) {
      const index = Math.floor(second / step) - first;
      if (index >= 0 && index < count) buckets[index].push(row);
    }
    const columns = {};
    for (const name of RATES) columns[name] = buckets.map((bucket) => bucket.length ? sum(bucket, name) / bucket.length : null);
    for (const name of STATES) columns[name] = buckets.map((bucket) => bucket.length ? bucket.at(-1)[name] : null);
    columns[WAIT] = joined(buckets, Math.ceil(QUIET_S / step));
    const x = buckets.map((_, index) => (first + index) * step);
    return { x, columns, gaps: gapsOf(buckets, x), step };
  }
}

function sum(bucket, name) {
  return bucket.reduce((all, row) => all + (row[name] ?? 0), 0);
}

// A moment without grants has no wait: the line goes on to the next one, but not over more than ten seconds.
function joined(buckets, longest) {
  const values = buckets.map((bucket) => {
    const grants = sum(bucket, "granted");
    if (grants) return bucket.reduce((all, row) => all + (row[WAIT] ?? 0) * row.granted, 0) / grants;
    return bucket.length ? undefined : null;
  });
  let run = 0;
  values.forEach((value, index) => {
    run = value === undefined ? run + 1 : 0;
    if (run > longest) values[index] = null;
  });
  return values;
}

function gapsOf(buckets, x) {
  const gaps = [];
  let last = -1;
  buckets.forEach((bucket, index) => {
    if (!bucket.length) return;
    if (last >= 0 && index - last > 2) gaps.push([x[last], x[index]]);
    last = index;
  });
  return gaps;
}
