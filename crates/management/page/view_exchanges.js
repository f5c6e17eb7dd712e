// All exchanges; making one; deleting many.

import { put, remove } from "./api.js";
import { bulkDialog, formDialog } from "./dialog.js";
import { count, exchangeName, exchangePart, h, part, rate, visible } from "./dom.js";
import { Table } from "./table.js";
import { vhostNames } from "./view_queues.js";

const FIELDS = ["name", "vhost", "type", "durable", "auto_delete", "internal", "arguments", "policy", "message_stats.publish_in_details.rate", "message_stats.publish_out_details.rate"];
const TYPES = ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-delayed-message"];

const link = ({ vhost, name }) => `#/exchanges/${part(vhost)}/${part(name === "" ? "amq.default" : name)}`;

export function exchanges(context) {
  const { parameters, changeParameters, goTo } = context;
  const columns = [
    { name: "Name", sort: "name", class: "name", show: (row) => [h("a", { href: link(row) }, exchangeName(row.name)), row.policy ? h("abbr", { class: "mark", title: "policy" }, visible(row.policy)) : null] },
    { name: "Virtual host", sort: "vhost", class: "wide", show: (row) => visible(row.vhost) },
    { name: "Type", sort: "type", show: (row) => visible(row.type) },
    { name: "Features", class: "wide", show: (row) => [row.durable ? "durable" : "transient", row.auto_delete ? "auto delete" : null, row.internal ? "internal" : null].filter(Boolean).join(", ") },
    { name: "In", sort: "message_stats.publish_in_details.rate", class: "number", show: (row) => rate(row.message_stats?.publish_in_details?.rate) },
    { name: "Out", sort: "message_stats.publish_out_details.rate", class: "number wide", show: (row) => rate(row.message_stats?.publish_out_details?.rate) },
  ];
  const bulk = [{
    name: "Delete…", danger: true,
    run: (rows, table) => bulkDialog({
      title: "Delete exchanges", rows, describe: (row) => `${visible(row.vhost)}: ${exchangeName(row.name)} (${row.type})`, action: `Delete ${count(rows.length)} exchanges`,
      summary: `Deletes ${count(rows.length)} exchanges with their bindings. Nothing is done yet.`,
      run: async (row) => { await remove(`exchanges/${part(row.vhost)}/${exchangePart(row.name)}`); table.selected.delete(`${row.vhost}\n${row.name}`); },
      finished: () => { table.forget(); return table.refresh(); },
    }),
  }];
  const table = new Table({
    label: "Exchanges", path: () => (parameters.vhost ? `exchanges/${part(parameters.vhost)}` : "exchanges"), columns, bulk, fields: FIELDS,
    key: (row) => `${row.vhost}\n${row.name}`, parameters, change: changeParameters, empty: "There is no exchange.",
    tools: [h("button", { type: "button", class: "primary", onclick: add }, "Add an exchange")],
  });
  async function add() {
    formDialog({
      title: "Add an exchange",
      action: "Add",
      fields: [
        { name: "vhost", label: "Virtual host", type: "select", options: await vhostNames(), value: parameters.vhost ?? "/" },
        { name: "name", label: "Name", required: true },
        { name: "type", label: "Type", type: "select", options: TYPES, value: "direct" },
        { name: "durable", label: "Durable: it is there after a restart", type: "checkbox", value: true },
        { name: "auto_delete", label: "Deleted when its last binding has gone", type: "checkbox" },
        { name: "internal", label: "Internal: clients cannot publish to it", type: "checkbox" },
        { name: "arguments", label: "Arguments", type: "json", presets: [["alternate-exchange", ""], ["x-delayed-type", "direct"], ["hash-header", ""]] },
      ],
      submit: async ({ vhost, name, ...rest }) => {
        await put(`exchanges/${part(vhost)}/${part(name)}`, rest);
        goTo(link({ vhost, name }));
      },
    });
  }
  return { element: h("div", { class: "full" }, h("h1", {}, "Exchanges"), table.element), refresh: () => table.refresh(), interval: 2_000, dispose: () => table.dispose() };
}
