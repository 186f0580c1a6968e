// An SVG line chart of the last minutes. The second line is dashed, for users who can't tell colours apart.
import { h } from "../base/dom.js";

const kNumSamples = 180, kWidth = 180, kHeight = 60;
const kSvg = "http://www.w3.org/2000/svg";

function svg(tag, properties) {
  const element = document.createElementNS(kSvg, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  return element;
}

export class Chart {
  // `write` formats a value as text. `top`: end of the scale; by default the highest value shown.
  constructor(title, names, write, top) {
    this.title = title;
    this.names = names.map((name, at) => (at === 0 ? name : `${name} (dashed)`));
    this.write = write;
    this.top = top;
    this.samples = [];
    this.lines = names.map((_, at) => svg("polyline", { class: at === 0 ? "first" : "second" }));
    this.image = svg("svg", { viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: "none", role: "img", "aria-label": title });
    this.image.append(...this.lines);
    this.caption = h("figcaption");
    this.element = h("figure", { class: "chart" }, h("h3", {}, title), this.image, this.caption);
  }

  // Adds a sample: one value per name, or undefined.
  add(values) {
    this.samples.push(values);
    if (this.samples.length > kNumSamples) this.samples.shift();
    const known = this.samples.flat().filter((value) => value !== undefined);
    const highest = Math.max(...known, 0);
    const top = this.top ?? highest;
    this.lines.forEach((line, at) => line.setAttribute("points", this.pointsOf(at, top || 1)));
    const latest = this.names.map((name, at) => {
      const last = this.samples.findLast((sample) => sample[at] !== undefined);
      return `${name} ${last ? this.write(last[at]) : ""}`.trim();
    });
    this.caption.textContent = known.length ? `${latest.join(", ")}; highest ${this.write(highest)}` : "no data yet";
    this.image.setAttribute("aria-label", `${this.title}: ${this.caption.textContent}`);
  }

  // The latest sample is at the right edge. The line runs straight over samples without a value.
  pointsOf(at, top) {
    const left = kWidth - this.samples.length;
    return this.samples
      .map((sample, place) => (sample[at] === undefined ? "" : `${left + place},${(kHeight - 2) * (1 - sample[at] / top) + 1}`))
      .filter(Boolean)
      .join(" ");
  }
}
