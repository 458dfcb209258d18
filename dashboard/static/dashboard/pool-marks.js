// On the charts: a dashed line for each change of configuration, its flag on the first chart, and the ground of a gap.
import { colours } from "./pool-colours.js";
import { say } from "./words.js";

const FLAG_PX = 96;

function within(plot, from, to) {
  const { min, max } = plot.scales.x;
  return to >= min && from <= max;
}

export function drawGaps(plot, gaps, named) {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const [from, to] of gaps) {
    if (!within(plot, from, to)) continue;
    const left = Math.max(bbox.left, plot.valToPos(from, "x", true));
    const right = Math.min(bbox.left + bbox.width, plot.valToPos(to, "x", true));
    ctx.fillStyle = colours().ground;
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    if (!named) continue;
    ctx.fillStyle = colours().text;
    ctx.font = `${11 * devicePixelRatio}px ${getComputedStyle(plot.root).fontFamily}`;
    ctx.textAlign = "center";
    ctx.fillText(say("no-data"), (left + right) / 2, bbox.top - 3 * devicePixelRatio);
  }
  ctx.restore();
}

export function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colours().text;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const mark of marks) {
    if (!within(plot, mark.t, mark.t)) continue;
    const x = Math.round(plot.valToPos(mark.t, "x", true)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

// Flags are elements, so that they can be pointed at; one that would lie on the next keeps its line and its title.
export function placeFlags(plot, marks) {
  const shown = marks.filter((mark) => within(plot, mark.t, mark.t));
  const flags = [...plot.over.querySelectorAll(".flag")];
  const places = shown.map((mark) => plot.valToPos(mark.t, "x")), edge = plot.over.clientWidth;
  shown.forEach((mark, index) => {
    const flag = flags[index] ?? plot.over.appendChild(Object.assign(document.createElement("span"), { className: "flag" }));
    const left = places[index], before = left + FLAG_PX > edge;  // at the right edge it stands before its line
    const room = before ? left - (places[index - 1] ?? -Infinity) - FLAG_PX : (places[index + 1] ?? Infinity) - left;
    const text = room < FLAG_PX ? "" : mark.text;
    if (flag.textContent !== text) flag.textContent = text;
    flag.title = mark.title;
    flag.classList.toggle("is-left", before);
    flag.style.left = `${left}px`;
  });
  for (const flag of flags.slice(shown.length)) flag.remove();
}
