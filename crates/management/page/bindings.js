// Bindings of a queue or an exchange: a table, and making and removing them.

import { get, post, remove } from "./api.js";
import { ask, formDialog, note } from "./dialog.js";
import { count, exchangeName, exchangePart, fill, h, part, visible } from "./dom.js";

const ROWS_MAX = 500;

const objectLink = (vhost, kind, name) => h("a", { href: `#/${kind === "queue" ? "queues" : "exchanges"}/${part(vhost)}/${part(name === "" ? "amq.default" : name)}` },
  kind === "queue" ? visible(name) : exchangeName(name));

const bindingPath = (vhost, binding) => `bindings/${part(vhost)}/e/${exchangePart(binding.source)}/${binding.destination_type === "queue" ? "q" : "e"}/${part(binding.destination)}`;

/** A table of what `path` lists. `change`: called when it has been changed. */
export function bindingsPanel({ path, vhost, add, empty }) {
  const body = h("tbody");
  const more = h("p", { class: "more", hidden: true });
  const element = h("div", {}, h("table", { class: "facts" },
    h("thead", {}, h("tr", {}, ["From", "To", "Routing key", "Arguments", ""].map((name) => h("th", { scope: "col" }, name)))), body),
  more, add ? h("button", { type: "button", onclick: () => addBinding({ vhost, ...add, done: refresh }) }, "Add a binding") : null);

  async function unbind(binding) {
    const text = h("p", {}, exchangeName(binding.source), " → ", visible(binding.destination), ", routing key ", h("code", {}, visible(binding.routing_key)));
    if (!(await ask({ title: "Remove this binding?", text, action: "Remove" }))) return;
    try {
      await remove(`${bindingPath(vhost, binding)}/${part(binding.properties_key)}`);
      note("The binding is removed");
    } catch (error) {
      note(`Not removed: ${error.message}`, "bad");
    }
    await refresh();
  }

  async function refresh() {
    const rows = await get(path);
    const text = JSON.stringify(rows);
    if (text === element.last) return;
    element.last = text;
    more.hidden = rows.length <= ROWS_MAX;
    fill(more, `${count(rows.length - ROWS_MAX)} more are not shown.`);
    fill(body, rows.length === 0 ? h("tr", {}, h("td", { colspan: 5, class: "empty" }, empty)) : rows.slice(0, ROWS_MAX).map((binding) => h("tr", {},
      h("td", {}, objectLink(vhost, "exchange", binding.source)), h("td", {}, objectLink(vhost, binding.destination_type, binding.destination)),
      h("td", {}, h("code", {}, visible(binding.routing_key))), h("td", {}, Object.keys(binding.arguments).length > 0 ? h("code", {}, visible(JSON.stringify(binding.arguments))) : ""),
      h("td", {}, binding.source === "" ? null : h("button", { type: "button", class: "plain", onclick: () => unbind(binding) }, "Remove")))));
  }
  return { element, refresh };
}

/** `source` or `destination` is what is known of the binding. */
function addBinding({ vhost, source, destination, done }) {
  formDialog({
    title: "Add a binding",
    action: "Add",
    fields: [
      source === undefined ? { name: "source", label: "From the exchange", required: true } : { name: "kind", label: "To", type: "select", options: [["q", "a queue"], ["e", "an exchange"]], value: "q" },
      source === undefined ? null : { name: "destination", label: "Its name", required: true },
      { name: "routing_key", label: "Routing key" },
      { name: "arguments", label: "Arguments", type: "json", presets: [["x-match", "all"]] },
    ],
    submit: async (values) => {
      const from = source ?? values.source;
      const [kind, to] = destination ? [destination.kind, destination.name] : [values.kind, values.destination];
      await post(`bindings/${part(vhost)}/e/${exchangePart(from)}/${kind}/${part(to)}`, { routing_key: values.routing_key, arguments: values.arguments });
      await done();
    },
    done: "The binding is made",
  });
}
