// All queues; making one; purging and deleting many.

import { get, put, remove } from "./api.js";
import { bulkDialog, formDialog } from "./dialog.js";
import { bytes, count, h, part, rate, short, visible } from "./dom.js";
import { Table } from "./table.js";
import { queueState } from "./words.js";

const FIELDS = ["name", "vhost", "type", "durable", "auto_delete", "exclusive", "arguments", "policy", "state", "messages", "messages_ready", "messages_unacknowledged", "message_bytes",
  "consumers", "message_stats.publish_details.rate", "message_stats.deliver_get_details.rate", "message_stats.ack_details.rate"];

/** Arguments that a queue may be declared with. */
export const QUEUE_ARGUMENTS = [["x-message-ttl", 60000], ["x-expires", 3600000], ["x-max-length", 100000], ["x-max-length-bytes", 104857600], ["x-overflow", "reject-publish"],
  ["x-dead-letter-exchange", ""], ["x-dead-letter-routing-key", ""], ["x-max-priority", 10], ["x-single-active-consumer", true], ["x-queue-type", "quorum"], ["x-delivery-limit", 20]];

export const queueLink = ({ vhost, name }) => `#/queues/${part(vhost)}/${part(name)}`;
const path = ({ vhost, name }) => `queues/${part(vhost)}/${part(name)}`;
const line = (row) => `${visible(row.vhost)}: ${visible(row.name)} (${count(row.messages)} messages, ${count(row.consumers)} consumers)`;

const marks = (row) => [
  row.type !== "classic" ? h("abbr", { class: "mark", title: `type ${row.type}` }, row.type) : null,
  row.durable ? h("abbr", { class: "mark", title: "durable: is there after a restart" }, "D") : null,
  row.auto_delete ? h("abbr", { class: "mark", title: "deleted when its last consumer has gone" }, "AD") : null,
  row.exclusive ? h("abbr", { class: "mark", title: "exclusive to one connection" }, "Ex") : null,
  Object.keys(row.arguments ?? {}).length > 0 ? h("abbr", { class: "mark", title: visible(JSON.stringify(row.arguments)) }, "Args") : null,
  row.policy ? h("abbr", { class: "mark", title: `policy ${visible(row.policy)}` }, visible(row.policy)) : null,
];

export async function vhostNames() {
  return (await get("vhosts", { columns: "name" })).map(({ name }) => name);
}

const SUM = (rows, key) => rows.reduce((sum, row) => sum + (row[key] ?? 0), 0);

export function queues(context) {
  const { parameters, changeParameters } = context;
  const columns = [
    { name: "Name", sort: "name", class: "name", show: (row) => [h("a", { href: queueLink(row) }, visible(row.name)), " ", marks(row)] },
    { name: "Vhost", sort: "vhost", class: "wide", show: (row) => visible(row.vhost) },
    { name: "State", class: "state-cell", show: (row) => { const { tone, text } = queueState(row); return h("span", { class: `state ${tone}`, title: text }, text); } },
    { name: "Ready", sort: "messages_ready", class: "number", show: (row) => short(row.messages_ready) },
    { name: "Unacked", sort: "messages_unacknowledged", class: "number", show: (row) => short(row.messages_unacknowledged) },
    { name: "Bytes", sort: "message_bytes", class: "number wide", show: (row) => bytes(row.message_bytes) },
    { name: "Cons.", sort: "consumers", class: "number wide", show: (row) => count(row.consumers) },
    { name: "In", sort: "message_stats.publish_details.rate", class: "number wide", show: (row) => rate(row.message_stats?.publish_details?.rate) },
    { name: "Out", sort: "message_stats.deliver_get_details.rate", class: "number wide", show: (row) => rate(row.message_stats?.deliver_get_details?.rate) },
    { name: "Ack", sort: "message_stats.ack_details.rate", class: "number wide", show: (row) => rate(row.message_stats?.ack_details?.rate) },
  ];
  const bulk = [
    {
      name: "Purge…",
      run: (rows, table) => bulkDialog({
        title: "Purge queues", rows, describe: line, action: `Purge ${count(rows.length)} queues`,
        summary: `Removes ${count(SUM(rows, "messages_ready"))} messages that are ready; those that consumers hold stay with them. Nothing is done yet.`,
        run: (row) => remove(`${path(row)}/contents`), finished: () => table.refresh(),
      }),
    },
    {
      name: "Delete…", danger: true,
      run: (rows, table) => bulkDialog({
        title: "Delete queues", rows, describe: line, action: `Delete ${count(rows.length)} queues`,
        summary: `Deletes ${count(rows.length)} queues with ${count(SUM(rows, "messages"))} messages, ${count(rows.filter((row) => row.consumers > 0).length)} of them with consumers, which are cancelled. Nothing is done yet.`,
        run: async (row) => { await remove(path(row)); table.selected.delete(`${row.vhost}\n${row.name}`); },
        finished: () => { table.forget(); return table.refresh(); },
      }),
    },
  ];
  const table = new Table({
    label: "Queues", path: () => (parameters.vhost ? `queues/${part(parameters.vhost)}` : "queues"), columns, bulk, fields: FIELDS,
    key: (row) => `${row.vhost}\n${row.name}`, parameters, change: changeParameters,
    empty: "There is no queue: a client declares one, or you add one here.",
    tools: [h("button", { type: "button", class: "primary", onclick: () => addQueue(context, parameters.vhost) }, "Add a queue")],
  });
  const where = parameters.vhost ? h("p", {}, "In the virtual host ", h("code", {}, visible(parameters.vhost)), ". ", h("a", { href: "#/queues" }, "All")) : null;
  return { element: h("div", { class: "full" }, h("h1", {}, "Queues"), where, table.element), refresh: () => table.refresh(), interval: 2_000, dispose: () => table.dispose() };
}

async function addQueue({ goTo }, vhost) {
  formDialog({
    title: "Add a queue",
    action: "Add",
    fields: [
      { name: "vhost", label: "Virtual host", type: "select", options: await vhostNames(), value: vhost ?? "/" },
      { name: "name", label: "Name", required: true },
      { name: "durable", label: "Durable: it is there after a restart", type: "checkbox", value: true },
      { name: "auto_delete", label: "Deleted when its last consumer has gone", type: "checkbox" },
      { name: "arguments", label: "Arguments", type: "json", presets: QUEUE_ARGUMENTS, hint: "JSON; the buttons put one in" },
    ],
    submit: async ({ vhost: host, name, ...rest }) => {
      await put(`queues/${part(host)}/${part(name)}`, rest);
      goTo(queueLink({ vhost: host, name }));
    },
  });
}
