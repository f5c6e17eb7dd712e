// Elements, and numbers as people read them.
//
// Owns:  the making of elements: text is always text, so that no name of a queue becomes markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line", "text", "g", "circle", "rect", "title"]);

/** An element. `on…` properties are listeners, `class` and attributes are set, `null` children are left out. */
export function h(tag, properties, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "selected") element[key] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Puts other children into an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Sets a text only if it is another one, so that what is selected stays. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value) {
  return typeof value === "number" ? whole.format(value) : "–";
}

/** Four digits at most, with a letter: 1,234 and 12.3 k. */
export function short(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size < 10 && !Number.isInteger(value)) return value.toFixed(1);
  for (const [least, letter] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    const unit = letter === "k" ? 1e3 : least;
    if (size >= least) return `${trim(value / unit)} ${letter}`;
  }
  return whole.format(value);
}

const trim = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(1));

export function rate(value) {
  return typeof value === "number" ? `${short(value)}/s` : "–";
}

export function bytes(value) {
  if (typeof value !== "number") return "–";
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(size) < 1024) return unit === "B" ? `${whole.format(size)} B` : `${trim(size)} ${unit}`;
    size /= 1024;
  }
  return `${trim(size)} TiB`;
}

/** What a node with a state folder does on its disk, by kind: rows of a list of facts. */
export function diskRows(node) {
  if (!(node.disk_free > 0)) return [];
  const took = (milliseconds) => `${milliseconds < 10 ? milliseconds.toFixed(2) : Math.round(milliseconds)} ms each`;
  const each = (kind) => rate(node[`io_${kind}_count_details`]?.rate);
  const row = (kind) => `${each(kind)}, ${bytes(node[`io_${kind}_bytes_details`]?.rate)}/s, ${bytes(node[`io_${kind}_bytes`])} in all`;
  return [["Disk writes", row("write")], ["Disk syncs", `${each("sync")}, ${took(node.io_sync_avg_time ?? 0)}`], ["Disk reads", row("read")]];
}

export function duration(milliseconds) {
  if (typeof milliseconds !== "number") return "–";
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  if (first < 0) return "0 s";
  const text = [];
  let rest = seconds;
  for (const [size, unit] of parts.slice(first, first + 2)) {
    const number = Math.floor(rest / size);
    rest -= number * size;
    if (number > 0 || text.length === 0) text.push(`${number} ${unit}`);
  }
  return text.join(" ");
}

export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString("en-GB");
}

/** A field of an object by its dotted name. */
export function at(object, path) {
  return path.split(".").reduce((value, key) => (value === null || value === undefined ? undefined : value[key]), object);
}

/** A part of a path. The virtual host `/` is `%2F`. */
export const part = (text) => encodeURIComponent(text);

/** Control characters, and marks that turn text around, as escapes: names come from clients. */
export function visible(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The name of an exchange; the default one has none. */
export const exchangeName = (name) => (name === "" ? "(default)" : visible(name));
/** The same in a path of the API. */
export const exchangePart = (name) => part(name === "" ? "amq.default" : name);

/** Names with their values, for a `dl`. */
export function pairs(rows) {
  return rows.map(([name, value]) => h("div", { class: "pair" }, h("dt", {}, name), h("dd", {}, value)));
}
