// Open connections: all of them, closing many, and one of them.

import { get, remove } from "./api.js";
import { bulkDialog, formDialog } from "./dialog.js";
import { bytes, count, duration, fill, h, pairs, part, rate, visible } from "./dom.js";
import { Plot } from "./plot.js";
import { Table } from "./table.js";
import { connectionState, rdmaRows, transportWords } from "./words.js";

const FIELDS = ["name", "user", "vhost", "state", "transport", "ssl", "channels", "peer_host", "peer_port", "connected_at", "user_provided_name", "recv_oct_details.rate", "send_oct_details.rate", "send_pend", "shard", "harrier"];

const close = (name, reason) => remove(`connections/${part(name)}`, {}, { reason });
const seconds = (microseconds) => `${(microseconds / 1e6).toFixed(microseconds < 1e7 ? 2 : 0)} s`;
const perSecond = (value) => (typeof value === "number" ? `${bytes(Math.round(value))}/s` : "–");

export function connections(context) {
  const { parameters, changeParameters } = context;
  const columns = [
    { name: "Name", sort: "name", class: "name", show: (row) => [h("a", { href: `#/connections/${part(row.name)}` }, visible(row.name)), row.user_provided_name ? h("small", {}, ` ${visible(row.user_provided_name)}`) : null] },
    { name: "User", sort: "user", class: "wide", show: (row) => visible(row.user) },
    { name: "Virtual host", sort: "vhost", class: "wide", show: (row) => visible(row.vhost) },
    { name: "State", sort: "state", class: "state-cell", show: (row) => { const { tone, text } = connectionState(row); return h("span", { class: `state ${tone}`, title: visible(text) }, visible(text)); } },
    { name: "Over", sort: "transport", show: (row) => [visible(row.transport), row.harrier?.rdma ? h("small", {}, ` ${row.harrier.rdma.credits_left} of ${row.harrier.rdma.credits_granted} credits`) : null] },
    { name: "Channels", sort: "channels", class: "number wide", show: (row) => count(row.channels) },
    { name: "From client", sort: "recv_oct_details.rate", class: "number", show: (row) => perSecond(row.recv_oct_details?.rate) },
    { name: "To client", sort: "send_oct_details.rate", class: "number", show: (row) => perSecond(row.send_oct_details?.rate) },
  ];
  const bulk = [{
    name: "Close…", danger: true,
    run: (rows, table) => bulkDialog({
      title: "Close connections", rows, describe: (row) => `${visible(row.name)}, user ${visible(row.user)}`, action: `Close ${count(rows.length)} connections`,
      summary: `Closes ${count(rows.length)} connections; clients are told why and may come again. Nothing is done yet.`,
      run: async (row) => { await close(row.name, "Closed via the management page"); table.selected.delete(row.name); },
      finished: () => { table.forget(); return table.refresh(); },
    }),
  }];
  const table = new Table({
    label: "Connections", path: () => "connections", columns, bulk, fields: FIELDS, key: (row) => row.name, parameters, change: changeParameters, filter: "Filter by name",
    empty: "No client is connected.",
  });
  return { element: h("div", { class: "full" }, h("h1", {}, "Connections"), table.element), refresh: () => table.refresh(), interval: 2_000, dispose: () => table.dispose() };
}

export function connection({ names: [name], goTo }) {
  const path = `connections/${part(name)}`;
  const state = h("p", { class: "words", role: "status" });
  const about = h("dl", { class: "grid" });
  const channels = h("div");
  const rdma = h("div");
  const traffic = new Plot({ title: "Bytes a second", series: [{ key: "recv_oct", name: "From client" }, { key: "send_oct", name: "To client" }], format: (value) => bytes(Math.round(value)) });
  const drop = () => formDialog({
    title: "Close this connection?",
    action: "Close it",
    fields: [{ name: "reason", label: "Reason, which the client is told", value: "Closed via the management page" }],
    submit: async ({ reason }) => { await close(name, reason); goTo("#/connections"); },
    done: "The connection is closed",
  });
  const element = h("div", {}, h("h1", {}, h("a", { href: "#/connections" }, "Connections"), " / ", visible(name)), state,
    h("div", { class: "actions" }, h("button", { type: "button", class: "danger", onclick: drop }, "Close…")),
    h("div", { class: "columns" }, traffic.element, h("div", { class: "panel" }, h("h2", {}, "Details"), about, rdma)),
    h("div", { class: "panel" }, h("h2", {}, "Channels"), channels));
  async function refresh() {
    const answer = await get(path);
    const list = await get(`${path}/channels`);
    traffic.add(Date.now(), { recv_oct: answer.recv_oct_details?.rate, send_oct: answer.send_oct_details?.rate });
    const { tone, text } = connectionState(answer);
    state.className = `words ${tone}`;
    fill(state, visible(text));
    const client = answer.client_properties ?? {};
    const rows = [["User", visible(answer.user)], ["Virtual host", visible(answer.vhost)], ["Transport", transportWords(answer.transport)],
      ["TLS", answer.ssl ? [answer.ssl_protocol, answer.ssl_cipher].filter(Boolean).join(" ") || "yes" : "no"], ["Logged in by", visible(answer.auth_mechanism)],
      ["Client", visible([client.product, client.version, client.platform].filter((value) => typeof value === "string").join(" ") || "says nothing")],
      ["Connected", duration(Date.now() - answer.connected_at)], ["Received", bytes(answer.recv_oct)], ["Sent", bytes(answer.send_oct)], ["Waits to be sent", bytes(answer.send_pend)],
      ["Certificate", visible(answer.peer_cert_subject ? `${answer.peer_cert_subject}, issued by ${answer.peer_cert_issuer}` : "none")], ["Waits for", visible(answer.harrier?.hold ?? "nothing")], ["Held back", duration(answer.held_ms)], ["Shard", count(answer.shard)],
      ["Processor time", `about ${seconds(answer.cpu_us)}`], ["Round trip", typeof answer.round_trip_us === "number" ? `${count(answer.round_trip_us)} µs` : "not known"], ["Heartbeat", answer.timeout > 0 ? `${answer.timeout} s` : "off"],
      ["Frames up to", bytes(answer.frame_max)], ["Channels up to", answer.channel_max > 0 ? count(answer.channel_max) : "no limit"]];
    fill(about, pairs(rows));
    fill(rdma, answer.harrier?.rdma ? [h("h2", {}, "RDMA"), h("dl", { class: "grid" }, pairs(rdmaRows(answer.harrier.rdma)))] : null);
    fill(channels, list.length === 0 ? h("p", { class: "empty" }, "No channel is open.") : h("table", { class: "facts" },
      h("thead", {}, h("tr", {}, ["Number", "Mode", "Prefetch", "Consumers", "Unacked", "Unconfirmed", "Published", "Delivered"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, list.slice(0, 500).map((one) => h("tr", {}, h("td", { class: "number" }, count(one.number)), h("td", {}, one.confirm ? "confirms" : one.transactional ? "transactions" : "plain"),
        h("td", { class: "number" }, one.prefetch_count === 0 ? "no limit" : count(one.prefetch_count)), h("td", { class: "number" }, count(one.consumer_count)), h("td", { class: "number" }, count(one.messages_unacknowledged)),
        h("td", { class: "number" }, count(one.messages_unconfirmed)), h("td", { class: "number" }, rate(one.message_stats?.publish_details?.rate)), h("td", { class: "number" }, rate(one.message_stats?.deliver_get_details?.rate)))))));
  }
  return { element, refresh };
}
