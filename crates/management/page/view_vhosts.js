// Virtual hosts: all of them, and one with its permissions and limits.

import { get, put, remove } from "./api.js";
import { ask, formDialog, note } from "./dialog.js";
import { count, fill, h, pairs, part, rate, short, visible } from "./dom.js";
import { Table } from "./table.js";

export function vhosts({ user, parameters, changeParameters, goTo }) {
  const columns = [
    { name: "Name", sort: "name", class: "name", show: (row) => h("a", { href: `#/vhosts/${part(row.name)}` }, visible(row.name)) },
    { name: "Description", class: "wide", show: (row) => visible(row.description ?? "") },
    { name: "Ready", sort: "messages_ready", class: "number wide", show: (row) => short(row.messages_ready ?? 0) },
    { name: "Unacked", sort: "messages_unacknowledged", class: "number wide", show: (row) => short(row.messages_unacknowledged ?? 0) },
    { name: "Published", class: "number", show: (row) => rate(row.message_stats?.publish_details?.rate ?? 0) },
    { name: "Delivered", class: "number", show: (row) => rate(row.message_stats?.deliver_get_details?.rate ?? 0) },
    { name: "Queues", class: "wide", show: (row) => h("a", { href: `#/queues?vhost=${part(row.name)}` }, "show") },
  ];
  const add = () => formDialog({
    title: "Add a virtual host",
    action: "Add",
    fields: [{ name: "name", label: "Name", required: true }, { name: "description", label: "Description" }, { name: "default_queue_type", label: "Type of queues that say none", type: "select", options: ["classic", "quorum"] }],
    submit: async ({ name, ...rest }) => { await put(`vhosts/${part(name)}`, rest); goTo(`#/vhosts/${part(name)}`); },
  });
  const table = new Table({
    label: "Virtual hosts", path: () => "vhosts", columns, key: (row) => row.name, parameters, change: changeParameters, empty: "There is no virtual host that you see.",
    tools: user.isAdministrator ? [h("button", { type: "button", class: "primary", onclick: add }, "Add a virtual host")] : [],
  });
  return { element: h("div", { class: "full" }, h("h1", {}, "Virtual hosts"), table.element), refresh: () => table.refresh(), interval: 3_000, dispose: () => table.dispose() };
}

export function vhost({ names: [name], user, goTo, refresh: again }) {
  const path = `vhosts/${part(name)}`;
  const about = h("dl", { class: "grid" });
  const permissions = h("tbody");
  const limits = h("div");
  const setLimit = () => formDialog({
    title: "Set a limit",
    action: "Set",
    fields: [{ name: "limit", label: "Limit", type: "select", options: ["max-connections", "max-queues"] }, { name: "value", label: "At most", type: "number", required: true, value: "1000" }],
    submit: ({ limit, value }) => put(`vhost-limits/${part(name)}/${limit}`, { value }).then(again),
    done: "The limit is set",
  });
  const drop = async () => {
    if (!(await ask({ title: "Delete this virtual host?", text: h("p", {}, "Its queues, exchanges, messages and permissions are lost, and its connections are closed."), action: "Delete", type: name }))) return;
    try {
      await remove(path);
      note("The virtual host is deleted");
      goTo("#/vhosts");
    } catch (error) {
      note(error.message, "bad");
    }
  };
  const clear = (limit) => h("button", { type: "button", class: "plain", onclick: () => remove(`vhost-limits/${part(name)}/${limit}`).then(again, (error) => note(error.message, "bad")) }, "Clear");
  const element = h("div", {}, h("h1", {}, h("a", { href: "#/vhosts" }, "Virtual hosts"), " / ", visible(name)),
    h("div", { class: "actions" }, h("a", { class: "button", href: `#/queues?vhost=${part(name)}` }, "Queues"), h("a", { class: "button", href: `#/exchanges?vhost=${part(name)}` }, "Exchanges"),
      user.isAdministrator ? h("button", { type: "button", class: "danger", onclick: drop }, "Delete…") : null),
    h("div", { class: "panel" }, about),
    user.isAdministrator ? h("div", { class: "panel" }, h("h2", {}, "Permissions"), h("table", { class: "facts" }, h("thead", {}, h("tr", {}, ["User", "Configure", "Write", "Read"].map((title) => h("th", { scope: "col" }, title)))), permissions)) : null,
    h("div", { class: "panel" }, h("h2", {}, "Limits"), limits, user.isAdministrator ? h("button", { type: "button", onclick: setLimit }, "Set a limit…") : null));
  async function refresh() {
    const [answer, limited, granted] = await Promise.all([get(path), get(`vhost-limits/${part(name)}`), user.isAdministrator ? get(`${path}/permissions`) : []]);
    const rows = [["Description", visible(answer.description || "none")], ["Tags", (answer.tags ?? []).map(visible).join(", ") || "none"], ["Type of queues that say none", answer.default_queue_type ?? "classic"],
      ["Ready", count(answer.messages_ready ?? 0)], ["Unacknowledged", count(answer.messages_unacknowledged ?? 0)], ["Published", rate(answer.message_stats?.publish_details?.rate ?? 0)], ["Delivered", rate(answer.message_stats?.deliver_get_details?.rate ?? 0)]];
    fill(about, pairs(rows));
    fill(permissions, granted.length === 0 ? h("tr", {}, h("td", { colspan: 4, class: "empty" }, "No user has a permission here.")) : granted.map((one) => h("tr", {}, h("td", {}, h("a", { href: `#/users/${part(one.user)}` }, visible(one.user))), [one.configure, one.write, one.read].map((text) => h("td", {}, h("code", {}, visible(text)))))));
    const values = Object.entries(limited[0]?.value ?? {});
    fill(limits, values.length === 0 ? h("p", { class: "empty" }, "None.") : h("table", { class: "facts" }, h("tbody", {}, values.map(([limit, value]) => h("tr", {}, h("th", { scope: "row" }, limit), h("td", { class: "number" }, count(value)), h("td", {}, user.isAdministrator ? clear(limit) : null))))));
  }
  return { element, refresh, interval: 3_000 };
}
