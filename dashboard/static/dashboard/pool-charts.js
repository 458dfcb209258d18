// Three uPlot charts on one time: one cursor, one zoom, marks for changes, gaps that stay gaps; the legend is the readout.
import { duration, rate, whole } from "./format.js";
import { colours, onColours } from "./pool-colours.js";
import { drawGaps, drawMarks, placeFlags } from "./pool-marks.js";
import { timeOf } from "./pool-time.js";
import { WAIT } from "./pool-samples.js";

const wait = (value) => duration(value).join(" ").trim();
const CHARTS = {
  requests: [["granted", "key", rate], ["timeouts", "key-act", rate], ["rejected", "key-watch", rate], ["cancelled", "key-soft", rate]],
  wait: [[WAIT, "key", wait]],
  permits: [["in_use", "key", whole, "area"], ["capacity", "key-ink", whole, "step"], ["waiting", "key-watch", whole]],
};
const STEPS = [1, 2, 3, 5, 10], INCREMENTS = [5, 10, 15, 30, 60, 120, 300];
const AXIS_PX = 40, FOOT_PX = 8, TIMES_PX = 24, HEAD_PX = 12;

function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return STEPS.find((step) => value <= step * power) * power;
}

export class Charts {
  #plots = new Map();
  #data = null;
  #zoom = null;
  #marks = [];

  constructor(main, samples) {
    this.main = main;
    this.samples = samples;
    onColours(() => { for (const plot of this.#plots.values()) plot.redraw(false); });
    main.addEventListener("click", (event) => { if (event.target.closest("[data-unzoom]")) this.zoom(null); });
    main.addEventListener("keydown", (event) => this.#step(event));
    new ResizeObserver(() => this.#fit()).observe(main);
  }

  get #panel() { return this.main.querySelector("[data-charts][data-draw]"); }
  get drawn() { return this.#plots.size > 0; }
  set marks(marks) { this.#marks = marks; this.update(); }

  // After the page's inside was renewed: draws what is new, forgets what is gone, takes the range over.
  sync() {
    for (const [name, plot] of this.#plots) {
      if (!plot.root.isConnected) { plot.destroy(); this.#plots.delete(name); }
    }
    const range = Number(this.#panel?.dataset.range);
    if (range !== this.range) this.#zoom = null;
    this.range = range;
    this.update();
  }

  update() {
    if (!this.#panel || !this.samples.newest) return;
    this.#data = this.samples.columns(this.range);
    for (const box of this.#panel.querySelectorAll("[data-plot]")) {
      const name = box.dataset.plot;
      if (!this.#plots.has(name)) this.#plots.set(name, this.#make(name, box));
      const plot = this.#plots.get(name);
      plot.batch(() => {
        plot.setData([this.#data.x, ...CHARTS[name].map(([column]) => this.#data.columns[column])], false);
        this.#scale(plot, name);
      });
    }
    this.#read();
  }

  #scale(plot, name) {
    const [min, max] = this.#zoom ?? [this.#data.x.at(-1) - this.range + this.#data.step, this.#data.x.at(-1)];
    const shown = CHARTS[name].flatMap(([column]) => this.#data.columns[column]).filter((value) => value != null);
    plot.setScale("x", { min, max });
    plot.setScale("y", { min: 0, max: ceiling(Math.max(0, ...shown)) });
  }

  zoom(range) {
    this.#zoom = range;
    this.#panel.querySelector("[data-unzoom]").hidden = !range;
    this.update();
  }

  #make(name, box) {
    box.replaceChildren();
    const plot = new window.uPlot(this.#options(name, box), [[], ...CHARTS[name].map(() => [])], box);
    plot.root.classList.add("is-drawn");
    return plot;
  }

  #options(name, box) {
    const lowest = name === "permits", colour = (key) => () => colours()[key];
    return {
      width: box.clientWidth, height: box.clientHeight, padding: [HEAD_PX, 1, 0, 0], legend: { show: false },
      cursor: {
        y: false, points: { show: false }, drag: { x: true, y: false, setScale: false }, sync: { key: "pool" },
        bind: { dblclick: () => () => this.zoom(null) },
      },
      scales: { x: { time: true, auto: false }, y: { auto: false } },
      axes: [
        { size: lowest ? TIMES_PX : FOOT_PX, incrs: INCREMENTS, space: 70, gap: 4, font: axisFont(box), stroke: colour("text"), grid: { show: false }, ticks: { stroke: colour("axis"), width: 1, size: 4 },
          values: (plot, splits) => splits.map((second) => lowest ? timeLabel(plot, second, splits[1] - splits[0]) : "") },
        { size: AXIS_PX, space: 30, gap: 8, font: axisFont(box), stroke: colour("text"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false },
          values: (_, splits) => splits.map((value) => String(+value.toPrecision(6))) },
      ],
      series: [{}, ...CHARTS[name].map(([, key, , kind]) => ({
        stroke: colour(key), width: 1.5, spanGaps: false, points: { show: () => false, size: 4 },
        ...(kind === "area" ? { fill: colour("fill") } : {}),
        ...(kind === "step" ? { paths: window.uPlot.paths.stepped({ align: 1 }) } : {}),
      }))],
      hooks: {
        drawClear: [(plot) => drawGaps(plot, this.#data?.gaps ?? [], name === "requests")],
        draw: [(plot) => { drawMarks(plot, this.#marks); if (name === "requests") placeFlags(plot, this.#marks); }],
        setCursor: [() => this.#read()],
        setSelect: [(plot) => this.#select(plot)],
      },
    };
  }

  #select(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const range = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    for (const each of this.#plots.values()) each.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (range[1] - range[0] >= 2 * this.#data.step) this.zoom(range);
  }

  // The value under the cursor, or the newest one.
  #read() {
    if (!this.#data) return;
    const at = [...this.#plots.values()].map((plot) => plot.cursor.idx).find((index) => index != null);
    for (const [column, , text] of Object.values(CHARTS).flat()) {
      const node = this.main.querySelector(`[data-leg="${column}"]`);
      const values = this.#data.columns[column];
      const value = at == null ? values.findLast((one) => one != null) : values[at];
      const shown = value == null ? "–" : text(value);
      if (node && node.textContent !== shown) node.textContent = shown;
    }
    const clock = this.main.querySelector("[data-at]");
    if (clock) clock.textContent = at == null ? "" : timeOf(this.#data.x[at] * 1000);
  }

  #step(event) {
    const plot = this.#plots.get(event.target.dataset?.plot);
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!plot || !this.#data) return;
    if (event.key === "Escape" && this.#zoom) this.zoom(null);
    if (!by) return;
    event.preventDefault();
    const last = this.#data.x.length - 1, from = plot.cursor.idx ?? last - Math.min(by, 0);
    const left = plot.valToPos(this.#data.x[Math.max(0, Math.min(last, from + by))], "x");
    for (const each of this.#plots.values()) each.setCursor({ left, top: 1 });
  }

  #fit() {
    for (const plot of this.#plots.values()) {
      const box = plot.root.parentElement;
      if (box && box.clientWidth && (plot.width !== box.clientWidth || plot.height !== box.clientHeight)) {
        plot.setSize({ width: box.clientWidth, height: box.clientHeight });
      }
    }
  }
}

// None at the right edge, where it would be cut off.
function timeLabel(plot, second, apart) {
  const text = timeOf(second * 1000).slice(0, apart < 60 ? 8 : 5);
  return plot.valToPos(second, "x") > plot.over.clientWidth - 4 * text.length ? "" : text;
}

function axisFont(box) {
  const style = getComputedStyle(box);
  return `11px ${style.fontFamily}`;
}
