// Links to other brokers: a map of this broker and its neighbours beside the tree that was planned, each link in words, and shovels.

import { get, remove } from "./api.js";
import { note } from "./dialog.js";
import { count, duration, fill, h, part, short, visible } from "./dom.js";
import { shovels } from "./shovels.js";
import { drawMap, drawPlan } from "./tree_map.js";

const TONES = { running: "good", starting: "warn", error: "bad" };
const WORDS = { running: "Messages pass.", starting: "It connects, or waits for the other broker.", error: "It does not pass messages." };
const PRODUCT = "Harrier federation";
const CONNECTIONS_MAX = 500;

/** Links by the broker that they lead to, and the brokers that have dialled this one. */
function neighbours(links, connections) {
  const peers = new Map();
  const known = (key, name, detail, isOutgoing) => {
    const peer = peers.get(key) ?? { name, detail, isOutgoing, status: "running", rate: 0, lag: 0 };
    peers.set(key, peer);
    return peer;
  };
  for (const link of links) {
    const peer = known(`${link.uri} ${link.direction}`, link.upstream, link.uri, link.direction === "out");
    peer.rate += link.rate ?? 0;
    peer.lag += link.lag ?? 0;
    if (link.status !== "running" && peer.status !== "error") peer.status = link.status;
  }
  for (const { client_properties: client, peer_host: host, send_oct_details: sent } of connections) {
    const peer = known(`dialled ${client.cluster_name} ${host}`, String(client.cluster_name), `has dialled from ${host}`, true);
    peer.bytes = (peer.bytes ?? 0) + (sent?.rate ?? 0);
  }
  return [...peers.values()].map((peer) => ({ ...peer, tone: TONES[peer.status] }));
}

export function federation({ user, refresh: again }) {
  const picture = h("div");
  const plan = h("div");
  const body = h("tbody");
  const last = new Map();
  const moved = shovels(user, again);
  const heads = ["Broker", "Exchange or queue", "Virtual host", "State", "Over", "Messages", "A second", "Waiting", "For", ""];
  const file = h("input", { type: "file", accept: ".json,application/json", id: "plan-file", onchange: choose });
  const element = h("div", {}, h("h1", {}, "Federation"),
    h("div", { class: "columns" }, h("div", { class: "panel" }, h("h2", {}, "This broker and its neighbours"), picture),
      h("div", { class: "panel" }, h("h2", {}, "The tree that was planned"), plan, h("div", { class: "field" }, h("label", { for: "plan-file" }, "A plan, as ", h("code", {}, "harrier topology plan --json"), " writes it"), file))),
    h("div", { class: "panel" }, h("h2", {}, "Links"), h("table", { class: "facts" }, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), body)),
    moved.element);

  async function choose() {
    const chosen = file.files[0];
    if (chosen === undefined) return;
    try {
      const value = JSON.parse(await chosen.text());
      fill(plan, drawPlan(value.chosen?.tree ?? value.tree ?? ""));
    } catch (error) {
      fill(plan);
      note(`${chosen.name} is no plan: ${error.message}`, "bad");
    }
  }
  async function restart(link) {
    try {
      await remove(`federation-links/vhost/${part(link.vhost)}/${part(link.id)}/${part(link.node)}/restart`);
      note("The link dials again");
    } catch (error) {
      note(error.message, "bad");
    }
    again();
  }
  /** Messages a second since the last reading. */
  function rateOf(link, now) {
    const before = last.get(link.id);
    last.set(link.id, { messages: link.messages, now });
    return before && now > before.now ? Math.max(0, ((link.messages - before.messages) * 1000) / (now - before.now)) : 0;
  }
  function row(link) {
    return h("tr", {},
      h("td", {}, link.direction === "out" ? "to " : "from ", visible(link.upstream), h("br"), h("small", {}, visible(link.uri))), h("td", {}, visible(link.exchange || link.queue || "–")), h("td", {}, visible(link.vhost)),
      h("td", { class: `state ${TONES[link.status]}` }, link.error ? visible(link.error) : WORDS[link.status]), h("td", {}, link.transport ?? "–"),
      h("td", { class: "number" }, count(link.messages)), h("td", { class: "number" }, short(link.rate)), h("td", { class: "number" }, typeof link.lag === "number" ? count(link.lag) : "unknown"),
      h("td", { class: "number" }, duration(Date.now() - Date.parse(link.timestamp))),
      h("td", {}, user.setsPolicies ? h("button", { type: "button", class: "plain", onclick: () => restart(link) }, "Restart") : null));
  }
  async function refresh() {
    const [links, { name }, { items }] = await Promise.all([get("federation-links"), get("cluster-name"), get("connections", { page: 1, page_size: CONNECTIONS_MAX, columns: "client_properties,peer_host,send_oct_details.rate" }), moved.refresh()]);
    const now = Date.now();
    for (const link of links) link.rate = rateOf(link, now);
    const all = neighbours(links, items.filter(({ client_properties: client }) => client?.product === PRODUCT));
    fill(picture, all.length === 0 ? h("p", { class: "empty" }, "This broker has no link to another one. A parameter federation-upstream with a policy that federates exchanges or queues makes one (both are under Policies), and so does harrier route; docs/operations/federation.md says how.") : drawMap(name, all));
    fill(body, links.length === 0 ? h("tr", {}, h("td", { colspan: heads.length, class: "empty" }, "This broker has dialled no other one.")) : links.map(row));
  }
  return { element, refresh };
}
