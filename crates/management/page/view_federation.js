// Links to other brokers: a map of this broker and its neighbours, and each link in words.

import { get, remove } from "./api.js";
import { note } from "./dialog.js";
import { count, duration, fill, h, part, short, visible } from "./dom.js";

const BOX_WIDTH = 170;
const BOX_HEIGHT = 44;
const GAP = 26;
const DISTANCE = 150;
const SHOWN_MAX = 12;

const TONES = { running: "good", starting: "warn", error: "bad" };
const WORDS = { running: "Messages pass.", starting: "It connects, or waits for the other broker.", error: "It does not pass messages." };

/** Links by the broker that they lead to. */
function byPeer(links) {
  const peers = new Map();
  for (const link of links) {
    const known = peers.get(link.uri) ?? { uri: link.uri, name: link.upstream, links: [] };
    known.links.push(link);
    peers.set(link.uri, known);
  }
  return [...peers.values()];
}

const sum = (links, key) => links.reduce((total, link) => total + (link[key] ?? 0), 0);
const worst = (links) => ["error", "starting", "running"].find((status) => links.some((link) => link.status === status));

function box(x, y, name, detail, isHere) {
  const cut = (text) => (text.length > 24 ? `${text.slice(0, 23)}…` : text);
  return h("g", { class: isHere ? "here" : null }, h("title", {}, `${name} ${detail}`),
    h("rect", { x: x - BOX_WIDTH / 2, y, width: BOX_WIDTH, height: BOX_HEIGHT, rx: 7 }),
    h("text", { x, y: y + 18, "text-anchor": "middle" }, cut(name)), h("text", { class: "small", x, y: y + 34, "text-anchor": "middle" }, cut(detail)));
}

/** Sources of messages above, this broker, destinations below; rates and what waits on the edges. */
function map(cluster, links) {
  const rows = [byPeer(links.filter((link) => link.direction !== "out")), byPeer(links.filter((link) => link.direction === "out"))].map((peers) => peers.slice(0, SHOWN_MAX));
  const most = Math.max(1, ...rows.map((row) => row.length));
  const width = most * (BOX_WIDTH + GAP) + GAP;
  const height = BOX_HEIGHT + (rows[0].length > 0 ? DISTANCE : 10) + (rows[1].length > 0 ? DISTANCE : 10);
  const middle = [width / 2, rows[0].length > 0 ? DISTANCE : 5];
  const parts = [];
  rows.forEach((peers, row) => peers.forEach((peer, index) => {
    const x = width / 2 + (index - (peers.length - 1) / 2) * (BOX_WIDTH + GAP);
    const y = row === 0 ? 5 : middle[1] + DISTANCE;
    const [from, to] = row === 0 ? [[x, y + BOX_HEIGHT], middle] : [[middle[0], middle[1] + BOX_HEIGHT], [x, y]];
    const status = worst(peer.links);
    const lag = sum(peer.links, "lag");
    parts.push(h("line", { class: `edge ${TONES[status]}`, x1: from[0], y1: from[1], x2: to[0], y2: to[1] }));
    parts.push(h("text", { class: "small", x: (from[0] + to[0]) / 2 + 6, y: (from[1] + to[1]) / 2 }, `${short(sum(peer.links, "message_rate"))}/s${lag > 0 ? `, ${short(lag)} wait` : ""}`));
    parts.push(box(x, y, visible(peer.name), visible(peer.uri), false));
  }));
  parts.push(box(middle[0], middle[1], visible(cluster), "this broker", true));
  return h("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `This broker and ${count(rows[0].length + rows[1].length)} neighbours` }, parts);
}

export function federation({ user, refresh: again }) {
  const picture = h("div");
  const body = h("tbody");
  const heads = ["Upstream", "Exchange", "Virtual host", "State", "Over", "Messages", "Waiting", "For", ""];
  const element = h("div", {}, h("h1", {}, "Federation"), h("div", { class: "panel" }, picture),
    h("div", { class: "panel" }, h("h2", {}, "Links"), h("table", { class: "facts" }, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), body)));
  async function restart(link) {
    try {
      await remove(`federation-links/vhost/${part(link.vhost)}/${part(link.id)}/${part(link.node)}/restart`);
      note("The link dials again");
    } catch (error) {
      note(error.message, "bad");
    }
    again();
  }
  async function refresh() {
    const [links, { name }] = await Promise.all([get("federation-links"), get("cluster-name")]);
    fill(picture, links.length === 0 ? h("p", { class: "empty" }, "This broker has no link to another one. harrier route makes one; docs/operations/federation.md says how.") : map(name, links));
    fill(body, links.length === 0 ? h("tr", {}, h("td", { colspan: heads.length, class: "empty" }, "No link.")) : links.map((link) => h("tr", {},
      h("td", {}, visible(link.upstream), h("br"), h("small", {}, visible(link.uri))), h("td", {}, visible(link.exchange || link.queue || "–")), h("td", {}, visible(link.vhost)),
      h("td", { class: `state ${TONES[link.status]}` }, link.error ? visible(link.error) : WORDS[link.status]), h("td", {}, link.transport ?? "–"),
      h("td", { class: "number" }, count(link.messages)), h("td", { class: "number" }, typeof link.lag === "number" ? count(link.lag) : "unknown"),
      h("td", { class: "number" }, duration(Date.now() - Date.parse(link.timestamp))),
      h("td", {}, user.setsPolicies ? h("button", { type: "button", class: "plain", onclick: () => restart(link) }, "Restart") : null))));
  }
  return { element, refresh };
}
