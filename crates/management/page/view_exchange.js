// One exchange: its rates, its bindings, publishing, and which queues a message would reach.

import { get, remove } from "./api.js";
import { bindingsPanel } from "./bindings.js";
import { ask, form, note } from "./dialog.js";
import { count, exchangeName, exchangePart, fill, h, pairs, part, visible } from "./dom.js";
import { publishPanel } from "./messages.js";
import { Plot } from "./plot.js";

const RATES = [{ key: "publish_in", name: "In" }, { key: "publish_out", name: "Out" }];

/** A form that asks where a message would go; nothing is published. */
function routePanel(vhost, name) {
  const found = h("div", { role: "status" });
  const element = form({
    action: "Where would it go?",
    fields: [{ name: "routing_key", label: "Routing key" }, { name: "headers", label: "Headers", type: "json" }],
    submit: async (values) => {
      const { queues, delayed_by: delays } = await get(`exchanges/${part(vhost)}/${exchangePart(name)}/route`, { routing_key: values.routing_key, headers: JSON.stringify(values.headers) });
      const held = delays.length > 0 ? h("p", { class: "words" }, `Held back for its delay by ${delays.map(exchangeName).join(", ")}, and then on from there.`) : null;
      fill(found, held, queues.length === 0 && held ? null : queues.length === 0 ? h("p", { class: "words warn" }, "Nowhere: it would be dropped, or returned to a publisher that asks for that.")
        : [h("p", { class: "words good" }, `To ${count(queues.length)} ${queues.length === 1 ? "queue" : "queues"}.`),
          h("ul", {}, queues.slice(0, 500).map((queue) => h("li", {}, h("a", { href: `#/queues/${part(vhost)}/${part(queue)}` }, visible(queue)))))]);
    },
  });
  return h("div", {}, element, found);
}

export function exchange({ names: [vhost, shown], goTo }) {
  const name = shown === "amq.default" ? "" : shown;
  const path = `exchanges/${part(vhost)}/${exchangePart(name)}`;
  const rates = new Plot({ title: "Messages a second", series: RATES });
  const about = h("dl", { class: "grid" });
  const isDefault = name === "";
  const bound = isDefault ? null : bindingsPanel({ path: `${path}/bindings/source`, vhost, add: { source: name }, empty: "It leads nowhere: a message to it is dropped." });
  const into = isDefault ? null : bindingsPanel({ path: `${path}/bindings/destination`, vhost, empty: "No other exchange leads here." });
  const isReserved = isDefault || name.startsWith("amq.");

  async function drop() {
    if (!(await ask({ title: "Delete this exchange?", text: h("p", {}, `${visible(name)} goes with its bindings.`), action: "Delete" }))) return;
    try {
      await remove(path);
      note("The exchange is deleted");
      goTo("#/exchanges");
    } catch (error) {
      note(error.message, "bad");
    }
  }

  const element = h("div", {},
    h("h1", {}, h("a", { href: "#/exchanges" }, "Exchanges"), " / ", exchangeName(name), " ", h("small", {}, "in ", visible(vhost))),
    isReserved ? null : h("div", { class: "actions" }, h("button", { type: "button", class: "danger", onclick: drop }, "Delete…")),
    h("div", { class: "columns" }, rates.element, h("div", { class: "panel" }, h("h2", {}, "Details"), about)),
    h("div", { class: "panel" }, h("h2", {}, "Bindings from here"), isDefault ? h("p", {}, "Each queue is bound to it by its own name.") : bound.element),
    isDefault ? null : h("div", { class: "panel" }, h("h2", {}, "Bindings to here"), into.element),
    h("div", { class: "columns" }, h("div", { class: "panel" }, h("h2", {}, "Where would a message go?"), routePanel(vhost, name)),
      h("div", { class: "panel" }, h("h2", {}, "Publish a message"), publishPanel(vhost, name))));
  let asked = 0;
  async function refresh() {
    const answer = await get(path);
    rates.add(Date.now(), Object.fromEntries(RATES.map(({ key }) => [key, answer.message_stats?.[`${key}_details`]?.rate ?? 0])));
    const rows = [["Type", visible(answer.type)], ["Durable", answer.durable ? "yes" : "no"], ["Deleted without bindings", answer.auto_delete ? "yes" : "no"], ["Internal", answer.internal ? "yes" : "no"],
      ["Policy", answer.policy ? visible(answer.policy) : "none"], ["Arguments", visible(JSON.stringify(answer.arguments ?? {}))],
      ["Messages in", count(answer.message_stats?.publish_in ?? 0)], ["Messages out", count(answer.message_stats?.publish_out ?? 0)]];
    fill(about, pairs(rows));
    if (asked % 5 === 0 && !isDefault) await Promise.all([bound.refresh(), into.refresh()]);
    asked += 1;
  }
  return { element, refresh };
}
