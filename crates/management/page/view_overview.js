// The broker at a glance: what waits, what passes, what it takes, and what is wrong.

import { get } from "./api.js";
import { bytes, count, diskRows, duration, fill, h, pairs, part, rate, short, visible } from "./dom.js";
import { Plot } from "./plot.js";
import { alarms, queueState } from "./words.js";

const PAST = { age: 600, step: 5 };
const BUSY_ROWS = 8;

const tile = (name, href) => {
  const value = h("strong");
  const detail = h("small");
  const element = href ? h("a", { class: "tile", href }, h("span", {}, name), value, detail) : h("div", { class: "tile" }, h("span", {}, name), value, detail);
  return { element, set: (text, more = "") => { fill(value, text); fill(detail, more); } };
};

const RATES = [
  { key: "publish", name: "Published" }, { key: "deliver_get", name: "Delivered" }, { key: "ack", name: "Acknowledged" },
  { key: "confirm", name: "Confirmed" }, { key: "redeliver", name: "Redelivered" },
];
const LENGTHS = [{ key: "messages_ready", name: "Ready" }, { key: "messages_unacknowledged", name: "Unacknowledged" }];

/** A bar of what is used of what there may be. */
function meter(name, used, limit, format) {
  const share = limit > 0 ? Math.min(1, used / limit) : 0;
  return h("div", { class: "meter" }, h("span", {}, name),
    h("meter", { min: 0, max: 1, high: 0.8, optimum: 0, value: share, "aria-label": name }, `${Math.round(share * 100)} %`),
    h("span", { class: "number" }, limit > 0 ? `${format(used)} of ${format(limit)}` : format(used)));
}

export function overview({ user }) {
  const tiles = {
    publish: tile("Published"), deliver: tile("Delivered"), ready: tile("Ready", "#/queues?sort=messages_ready&reverse=true"),
    unacknowledged: tile("Unacked", "#/queues?sort=messages_unacknowledged&reverse=true"),
    queues: tile("Queues", "#/queues"), exchanges: tile("Exchanges", "#/exchanges"), connections: tile("Connections", "#/connections"),
    channels: tile("Channels", "#/channels"), consumers: tile("Consumers", "#/consumers"),
  };
  const rates = new Plot({ title: "Messages a second", series: RATES });
  const lengths = new Plot({ title: "Messages that wait", series: LENGTHS });
  const alarm = h("div", { role: "alert", class: "alarms" });
  const nodePanel = h("div", { class: "panel", hidden: !user.seesNode });
  const churn = h("div", { class: "panel" });
  const listeners = h("div", { class: "panel", hidden: !user.seesNode });
  const busy = h("div", { class: "panel" });
  const about = h("p", { class: "about" });
  const element = h("div", {}, h("h1", {}, "Overview"), about, alarm, h("div", { class: "tiles" }, Object.values(tiles).map((one) => one.element)),
    h("div", { class: "columns" }, rates.element, lengths.element), h("div", { class: "columns" }, busy, nodePanel), h("div", { class: "columns" }, churn, listeners));
  let isPastKnown = false;
  let asked = 0;
  let wasHidden = false;
  const hidden = () => { wasHidden = wasHidden || document.visibilityState === "hidden"; };
  document.addEventListener("visibilitychange", hidden);

  async function refresh() {
    // The past comes from the broker: at first, and when nobody has looked for a while.
    const withPast = !isPastKnown || wasHidden;
    const past = withPast ? { lengths_age: PAST.age, lengths_incr: PAST.step, msg_rates_age: PAST.age, msg_rates_incr: PAST.step } : {};
    const answer = await get("overview", past);
    const now = Date.now();
    const stats = answer.message_stats;
    const totals = answer.queue_totals;
    if (withPast) {
      for (const { key } of RATES) rates.restore(key, ratesOf(stats[`${key}_details`]?.samples));
      for (const { key } of LENGTHS) lengths.restore(key, totals[`${key}_details`]?.samples);
      [isPastKnown, wasHidden] = [true, false];
    }
    rates.add(now, Object.fromEntries(RATES.map(({ key }) => [key, stats[`${key}_details`]?.rate])));
    lengths.add(now, totals);
    const each = (key) => stats[`${key}_details`]?.rate;
    tiles.publish.set(rate(each("publish")), `${short(stats.publish)} in all`);
    tiles.deliver.set(rate(each("deliver_get")), `${short(stats.deliver_get)} in all`);
    tiles.ready.set(short(totals.messages_ready));
    tiles.unacknowledged.set(short(totals.messages_unacknowledged));
    for (const key of ["queues", "exchanges", "connections", "channels", "consumers"]) tiles[key].set(count(answer.object_totals[key]));
    fill(about, `${answer.product_name} ${answer.product_version} on ${answer.node}, cluster ${visible(answer.cluster_name)}; answers as RabbitMQ ${answer.rabbitmq_version}`);
    fill(churn, h("h2", {}, "Comings and goings"), churnTable(answer.churn_rates));
    if (user.seesNode) fill(listeners, h("h2", {}, "Listeners"), listenerTable(answer.listeners));
    // What takes longer to find changes less often.
    if (asked % 3 === 0) await refreshSlow(answer.node);
    asked += 1;
  }

  async function refreshSlow(name) {
    const found = await get("queues", { page: 1, page_size: BUSY_ROWS, sort: "messages", sort_reverse: true });
    fill(busy, h("h2", {}, "Longest queues"), busyTable(found.items.filter(({ messages }) => messages > 0)));
    if (!user.seesNode) return;
    const node = await get(`nodes/${part(name)}`);
    fill(alarm, alarms(node).map((text) => h("p", { class: "alarm" }, text)));
    fill(nodePanel, h("h2", {}, h("a", { href: "#/node" }, "Node")), meter("Memory", node.mem_used, node.mem_limit, bytes),
      meter("Descriptors", node.fd_used, node.fd_total, count), meter("Threads", node.proc_used, node.proc_total, count),
      h("dl", { class: "grid" }, pairs([["Disk free", node.disk_free > 0 ? `${bytes(node.disk_free)}, alarm below ${bytes(node.disk_free_limit)}` : "no state folder"], ...diskRows(node),
        ["Up", duration(node.uptime)], ["Processors", count(node.processors)]])));
  }

  return { element, refresh, dispose: () => document.removeEventListener("visibilitychange", hidden) };
}

/** Rates between samples of a count. */
export function ratesOf(samples) {
  const ordered = [...(samples ?? [])].sort((one, other) => one.timestamp - other.timestamp);
  return ordered.slice(1).map(({ sample, timestamp }, index) => {
    const before = ordered[index];
    return { timestamp, sample: Math.max(0, (sample - before.sample) / ((timestamp - before.timestamp) / 1000)) };
  }).filter(({ sample }) => Number.isFinite(sample));
}

function churnTable(churn) {
  const rows = [["connection_created", "Connections opened"], ["connection_closed", "Connections closed"], ["channel_created", "Channels opened"], ["channel_closed", "Channels closed"],
    ["queue_declared", "Queues declared"], ["queue_created", "Queues created"], ["queue_deleted", "Queues deleted"]];
  return h("table", { class: "facts" }, h("tbody", {}, rows.map(([key, name]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "number" }, count(churn[key])), h("td", { class: "number" }, rate(churn[`${key}_details`]?.rate))))));
}

function listenerTable(listeners) {
  return h("table", { class: "facts" }, h("tbody", {}, listeners.map(({ protocol, ip_address, port }) => h("tr", {}, h("th", { scope: "row" }, protocol), h("td", {}, ip_address), h("td", { class: "number" }, String(port))))));
}

function busyTable(rows) {
  if (rows.length === 0) return h("p", { class: "empty" }, "No message waits.");
  return h("table", { class: "facts" }, h("tbody", {}, rows.map((row) => {
    const { tone, text } = queueState(row);
    return h("tr", {}, h("td", {}, h("a", { href: `#/queues/${part(row.vhost)}/${part(row.name)}` }, visible(row.name))), h("td", { class: "number" }, short(row.messages)), h("td", { class: `state ${tone}` }, text));
  })));
}
