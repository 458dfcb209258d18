// Which rows are worth the work of this second: those in sight; the others take turns, each every five seconds.
const TURNS = 5, MARGIN = "200px";

export class Sight {
  #inSight = new WeakMap();
  #observer;
  #second = 0;

  // `came(row)` brings a row up to date that comes into sight.
  constructor(came) {
    this.#observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting && !this.#inSight.get(target)) came(target);
        this.#inSight.set(target, isIntersecting);
      }
    }, { rootMargin: MARGIN });
  }

  next() {
    this.#second += 1;
  }

  due(row, index) {
    if (!this.#inSight.has(row)) {
      this.#inSight.set(row, true);
      this.#observer.observe(row);
    }
    return this.#inSight.get(row) || (index + this.#second) % TURNS === 0;
  }
}
