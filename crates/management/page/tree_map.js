// Pictures of brokers and links: this broker between its neighbours, and a tree by the numbers of its levels.

import { bytes, count, h, short, visible } from "./dom.js";

const BOX_WIDTH = 170;
const BOX_HEIGHT = 44;
const GAP = 26;
const DISTANCE = 130;
const SHOWN_MAX = 8;
const LETTERS_MAX = 22;

const cut = (text) => (text.length > LETTERS_MAX ? `${text.slice(0, LETTERS_MAX - 1)}…` : text);

function box(x, y, name, detail, isHere) {
  return h("g", { class: isHere ? "here" : null }, h("title", {}, `${name} ${detail}`),
    h("rect", { x: x - BOX_WIDTH / 2, y, width: BOX_WIDTH, height: BOX_HEIGHT, rx: 7 }),
    h("text", { x, y: y + 18, "text-anchor": "middle" }, cut(name)), h("text", { class: "small", x, y: y + 34, "text-anchor": "middle" }, cut(detail)));
}

function onEdge({ rate, lag, bytes: sent }) {
  if (sent !== undefined) return `${bytes(Math.round(sent))}/s`;
  return `${short(rate)}/s${lag > 0 ? `, ${short(lag)} wait` : ""}`;
}

/** Sources of messages above, this broker, destinations below; rates and what waits on the edges. */
export function drawMap(here, peers) {
  const rows = [peers.filter((peer) => !peer.isOutgoing), peers.filter((peer) => peer.isOutgoing)];
  const shown = rows.map((row) => row.slice(0, SHOWN_MAX));
  const width = Math.max(1, ...shown.map((row) => row.length)) * (BOX_WIDTH + GAP) + GAP;
  const middle = [width / 2, shown[0].length > 0 ? DISTANCE : 5];
  const height = middle[1] + BOX_HEIGHT + (shown[1].length > 0 ? DISTANCE : 5) + 18;
  const parts = [];
  shown.forEach((row, below) => row.forEach((peer, index) => {
    const x = width / 2 + (index - (row.length - 1) / 2) * (BOX_WIDTH + GAP);
    const y = below === 0 ? 5 : middle[1] + DISTANCE;
    const [from, to] = below === 0 ? [[x, y + BOX_HEIGHT], middle] : [[middle[0], middle[1] + BOX_HEIGHT], [x, y]];
    parts.push(h("line", { class: `edge ${peer.tone}`, x1: from[0], y1: from[1], x2: to[0], y2: to[1] }));
    parts.push(h("text", { class: "small", x: (from[0] + to[0]) / 2 + 6, y: (from[1] + to[1]) / 2 }, onEdge(peer)));
    parts.push(box(x, y, visible(peer.name), visible(peer.detail), false));
  }));
  parts.push(box(middle[0], middle[1], visible(here), "this broker", true));
  const more = rows.reduce((sum, row) => sum + Math.max(0, row.length - SHOWN_MAX), 0);
  if (more > 0) parts.push(h("text", { class: "small", x: width / 2, y: height - 4, "text-anchor": "middle" }, `and ${count(more)} more, see the table`));
  return h("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `This broker and ${count(peers.length)} neighbours` }, parts);
}

/** A tree as `B-4B-16C`: how many brokers each level has, and the consumers. */
export function drawPlan(tree) {
  const levels = tree.split("-").map((text) => /^(\d*)([BC])$/.exec(text));
  if (tree === "" || levels.some((level) => level === null)) throw new Error(`'${visible(tree)}' is no tree such as B-4B-16C`);
  const numbers = levels.map(([, number]) => (number === "" ? 1 : Number(number)));
  const shown = numbers.map((number) => Math.min(number, SHOWN_MAX));
  const width = Math.max(...shown) * 64 + 80;
  const step = 74;
  const x = (level, index) => width / 2 + (index - (shown[level] - 1) / 2) * 64;
  const parts = [];
  shown.forEach((number, level) => {
    for (let index = 0; index < number; index += 1) {
      if (level > 0) parts.push(h("line", { class: "edge", x1: x(level - 1, Math.floor((index * shown[level - 1]) / number)), y1: (level - 1) * step + 34, x2: x(level, index), y2: level * step + 10 }));
      parts.push(h("rect", { x: x(level, index) - 22, y: level * step + 10, width: 44, height: 24, rx: 5 }));
      parts.push(h("text", { class: "small", x: x(level, index), y: level * step + 26, "text-anchor": "middle" }, levels[level][2] === "B" ? "broker" : "client"));
    }
    if (numbers[level] > number) parts.push(h("text", { class: "small", x: width / 2, y: level * step + 48, "text-anchor": "middle" }, `${count(number)} of ${count(numbers[level])}`));
  });
  return h("div", {}, h("p", {}, h("code", {}, tree)), h("svg", { class: "map", viewBox: `0 0 ${width} ${numbers.length * step}`, role: "img", "aria-label": `The tree ${tree}` }, parts));
}
