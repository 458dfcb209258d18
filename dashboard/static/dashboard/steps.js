// The last five minutes of every pool in steps of 5 s, kept up by the stream: a second without a sample leaves a gap.
const STEPS = 60;

export class Steps {
  #pools = new Map();
  #stepS = 5;
  #step = 0;
  newest = "";  // changes when a step became full, so that the lines move

  hello({ step_s: stepS, pools }) {
    this.#stepS = stepS;
    this.#step = 0;
    this.newest = `hello ${Date.now()}`;
    this.#pools = new Map(Object.entries(pools).map(([name, [qps, wait]]) => [name, { qps, wait, second: [] }]));
  }

  of(name) {
    if (!this.#pools.has(name)) {
      this.#pools.set(name, { qps: Array(STEPS).fill(null), wait: Array(STEPS).fill(null), second: [] });
    }
    return this.#pools.get(name);
  }

  // Takes one sample of every pool.
  take(at, pools) {
    const current = Math.floor(at / this.#stepS) * this.#stepS;
    const full = this.#step > 0 && current > this.#step;
    for (const { name, get } of pools) {
      const kept = this.of(name);
      if (full) for (let step = this.#step; step < current; step += this.#stepS) close(kept, step === this.#step ? kept.second : []);
      if (full) kept.second = [];
      kept.second.push({ qps: get("qps"), granted: get("granted"), waited: (get("average_wait_s") ?? 0) * get("granted") });
    }
    this.#step = current;
    if (full) this.newest = String(current);
  }
}

function close(kept, samples) {
  const sum = (field) => samples.reduce((all, sample) => all + sample[field], 0);
  const granted = sum("granted");
  kept.qps.push(samples.length ? sum("qps") / samples.length : null);
  kept.wait.push(granted ? sum("waited") / granted : null);
  kept.qps.splice(0, kept.qps.length - STEPS);
  kept.wait.splice(0, kept.wait.length - STEPS);
}
