// All channels, and all consumers.

import { get } from "./api.js";
import { count, fill, h, part, rate, visible } from "./dom.js";
import { Table } from "./table.js";

const FIELDS = ["name", "number", "user", "vhost", "state", "confirm", "transactional", "prefetch_count", "consumer_count", "messages_unacknowledged", "messages_unconfirmed", "connection_details.name",
  "message_stats.publish_details.rate", "message_stats.deliver_get_details.rate", "message_stats.ack_details.rate"];
const CONSUMERS_MAX = 1000;

const prefetch = (value) => (value === 0 ? "no limit" : count(value));

export function channels({ parameters, changeParameters }) {
  const columns = [
    { name: "Name", sort: "name", class: "name", show: (row) => h("a", { href: `#/connections/${part(row.connection_details.name)}` }, visible(row.name)) },
    { name: "User", sort: "user", class: "wide", show: (row) => visible(row.user) },
    { name: "Virtual host", sort: "vhost", class: "wide", show: (row) => visible(row.vhost) },
    { name: "Mode", class: "wide", show: (row) => (row.confirm ? "confirms" : row.transactional ? "transactions" : "plain") },
    { name: "Prefetch", sort: "prefetch_count", class: "number wide", show: (row) => prefetch(row.prefetch_count) },
    { name: "Consumers", sort: "consumer_count", class: "number wide", show: (row) => count(row.consumer_count) },
    { name: "Unacked", sort: "messages_unacknowledged", class: "number wide", show: (row) => count(row.messages_unacknowledged) },
    { name: "Unconfirmed", sort: "messages_unconfirmed", class: "number wide", show: (row) => count(row.messages_unconfirmed) },
    { name: "Published", sort: "message_stats.publish_details.rate", class: "number", show: (row) => rate(row.message_stats?.publish_details?.rate) },
    { name: "Delivered", sort: "message_stats.deliver_get_details.rate", class: "number", show: (row) => rate(row.message_stats?.deliver_get_details?.rate) },
  ];
  const table = new Table({ label: "Channels", path: () => "channels", columns, fields: FIELDS, key: (row) => row.name, parameters, change: changeParameters, empty: "No channel is open." });
  return { element: h("div", { class: "full" }, h("h1", {}, "Channels"), table.element), refresh: () => table.refresh(), interval: 2_000, dispose: () => table.dispose() };
}

export function consumers() {
  const body = h("tbody");
  const more = h("p", { class: "more" });
  const element = h("div", {}, h("h1", {}, "Consumers"), h("div", { class: "panel" }, h("table", { class: "facts" },
    h("thead", {}, h("tr", {}, ["Queue", "Virtual host", "Channel", "Tag", "Acks", "Prefetch", "State"].map((name) => h("th", { scope: "col" }, name)))), body), more));
  async function refresh() {
    const answer = await get("consumers", { page: 1, page_size: 500 });
    const list = Array.isArray(answer) ? answer : answer.items;
    const total = Array.isArray(answer) ? answer.length : answer.filtered_count;
    fill(more, total > list.length ? `${count(total - list.length)} more are not shown; a queue shows its own.` : "");
    fill(body, list.length === 0 ? h("tr", {}, h("td", { colspan: 7, class: "empty" }, "Nobody consumes.")) : list.slice(0, CONSUMERS_MAX).map((one) => h("tr", {},
      h("td", {}, h("a", { href: `#/queues/${part(one.queue.vhost)}/${part(one.queue.name)}` }, visible(one.queue.name))), h("td", {}, visible(one.queue.vhost)),
      h("td", {}, h("a", { href: `#/connections/${part(one.channel_details.connection_name)}` }, visible(one.channel_details.name))), h("td", {}, h("code", {}, visible(one.consumer_tag))),
      h("td", {}, one.ack_required ? "by the client" : "none needed"), h("td", { class: "number" }, prefetch(one.prefetch_count)), h("td", {}, one.activity_status.replace("_", " ")))));
  }
  return { element, refresh, interval: 3_000 };
}
