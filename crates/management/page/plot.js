// A live plot of a few series over the last minutes, drawn as SVG.
//
// Owns:  the samples of each series, by time; the axes; what the pointer reads off.

import { clock, h, short } from "./dom.js";

const WIDTH_MIN = 260;
const HEIGHT = 170;
const LEFT = 52;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 22;
const SAMPLES_MAX = 4000;

/** A step of an axis: 1, 2 or 5 times a power of ten, so that there are three to six of them. */
function step(span, parts) {
  const rough = span / parts;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((factor) => factor * power >= rough);
  return factor * power;
}

export class Plot {
  /** `series`: `[{key, name}]`, up to eight. `seconds`: how far back. `format`: of values. */
  constructor({ title, series, seconds = 600, format = short }) {
    this.series = series;
    this.seconds = seconds;
    this.format = format;
    this.samples = new Map(series.map(({ key }) => [key, []]));
    this.hidden = new Set();
    this.svg = h("svg", { class: "plot", role: "img", "aria-label": title });
    this.reading = h("span", { class: "reading" });
    this.legend = h("div", { class: "legend" }, series.map(({ key, name }, index) => {
      const value = h("span", { class: "value" });
      const button = h("button", { type: "button", class: `key series-${index}`, "aria-pressed": "true", onclick: () => this.toggle(key, button) },
        h("span", { class: "mark", "aria-hidden": "true" }), name, " ", value);
      this[`value:${key}`] = value;
      return button;
    }));
    this.element = h("figure", { class: "panel plot-panel" }, h("figcaption", {}, h("h3", {}, title), this.reading), this.svg, this.legend);
    this.svg.addEventListener("pointermove", (event) => this.read(event));
    this.svg.addEventListener("pointerleave", () => { this.cursor = null; this.draw(); });
  }

  toggle(key, button) {
    const isHidden = !this.hidden.delete(key);
    if (isHidden) this.hidden.add(key);
    button.setAttribute("aria-pressed", String(!isHidden));
    this.draw();
  }

  /** Takes samples of the past in, `{sample, timestamp}`, where there are none yet. */
  restore(key, samples) {
    const known = this.samples.get(key);
    const times = new Set(known.map(([time]) => Math.round(time / 1000)));
    for (const { sample, timestamp } of samples ?? []) {
      if (!times.has(Math.round(timestamp / 1000))) known.push([timestamp, sample]);
    }
    known.sort((one, other) => one[0] - other[0]);
  }

  /** A value of now for each series. */
  add(time, values) {
    for (const { key } of this.series) {
      const known = this.samples.get(key);
      if (typeof values[key] === "number") known.push([time, values[key]]);
      const from = time - this.seconds * 1000;
      const first = known.findIndex(([at]) => at >= from);
      known.splice(0, Math.max(first < 0 ? 0 : first, known.length - SAMPLES_MAX));
    }
    this.now = time;
    this.draw();
  }

  read(event) {
    const box = this.svg.getBoundingClientRect();
    this.cursor = event.clientX - box.left;
    this.draw();
  }

  draw() {
    // In pixels, so that letters are as large on a phone.
    const width = Math.max(WIDTH_MIN, this.svg.clientWidth);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const end = this.now ?? Date.now();
    const begin = end - this.seconds * 1000;
    const shown = this.series.map((one, index) => ({ ...one, index, points: this.samples.get(one.key).filter(([time]) => time >= begin) }))
      .filter(({ key }) => !this.hidden.has(key));
    const top = Math.max(1, ...shown.flatMap(({ points }) => points.map(([, value]) => value)));
    const each = step(top, 4);
    const max = Math.ceil(top / each) * each;
    const x = (time) => LEFT + ((time - begin) / (end - begin)) * (width - LEFT - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - (value / max) * (HEIGHT - TOP - BOTTOM);
    const parts = [];
    for (let value = 0; value <= max + each / 2; value += each) {
      parts.push(h("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
      parts.push(h("text", { class: "tick", x: LEFT - 6, y: y(value) + 3.5, "text-anchor": "end" }, this.format(value)));
    }
    const minutes = Math.max(1, Math.round(this.seconds / 60 / (width < 400 ? 3 : 5)));
    for (let back = 0; back <= this.seconds / 60; back += minutes) {
      const place = x(end - back * 60_000);
      parts.push(h("text", { class: "tick", x: place, y: HEIGHT - 6, "text-anchor": back === 0 ? "end" : "middle" }, back === 0 ? "now" : `−${back} min`));
    }
    for (const { index, points } of shown) {
      const path = points.map(([time, value], place) => {
        // A gap of a broker that did not answer is a gap of the line.
        const isGap = place === 0 || time - points[place - 1][0] > 15_000;
        return `${isGap ? "M" : "L"}${x(time).toFixed(1)},${y(Math.max(0, value)).toFixed(1)}`;
      });
      parts.push(h("path", { class: `line series-${index}`, d: path.join("") }));
    }
    parts.push(...this.cursorParts(shown, begin, end, width, x, y));
    this.svg.replaceChildren(...parts);
    for (const { key } of this.series) {
      const last = this.samples.get(key).at(-1);
      this[`value:${key}`].textContent = last ? this.format(last[1]) : "";
    }
  }

  cursorParts(shown, begin, end, width, x, y) {
    if (this.cursor === null || this.cursor === undefined) {
      this.reading.textContent = "";
      return [];
    }
    const time = begin + ((this.cursor - LEFT) / (width - LEFT - RIGHT)) * (end - begin);
    const parts = [];
    const texts = [];
    let read = null;
    for (const { index, name, points } of shown) {
      const near = points.reduce((best, point) => (best === null || Math.abs(point[0] - time) < Math.abs(best[0] - time) ? point : best), null);
      if (near === null) continue;
      read = near[0];
      parts.push(h("circle", { class: `dot series-${index}`, cx: x(near[0]), cy: y(Math.max(0, near[1])), r: 3 }));
      texts.push(`${name} ${this.format(near[1])}`);
    }
    if (read !== null) {
      parts.unshift(h("line", { class: "cursor", x1: x(read), x2: x(read), y1: TOP, y2: HEIGHT - BOTTOM }));
      this.reading.textContent = `${clock(read)}: ${texts.join(", ")}`;
    }
    return parts;
  }
}
