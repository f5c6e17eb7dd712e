// Policies, those of the operator, and parameters.

import { get, put, remove } from "./api.js";
import { ask, formDialog, note } from "./dialog.js";
import { count, fill, h, part, visible } from "./dom.js";
import { vhostNames } from "./view_queues.js";

const APPLY = ["all", "queues", "exchanges"];
const POLICY_KEYS = [["message-ttl", 60000], ["expires", 3600000], ["max-length", 100000], ["max-length-bytes", 104857600], ["overflow", "reject-publish"], ["dead-letter-exchange", ""],
  ["dead-letter-routing-key", ""], ["delivery-limit", 20], ["alternate-exchange", ""], ["federation-upstream-set", "all"]];
const OPERATOR_KEYS = [["expires", 3600000], ["message-ttl", 60000], ["max-length", 100000], ["max-length-bytes", 104857600], ["overflow", "reject-publish"]];

const table = (heads, body) => h("table", { class: "facts" }, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), body);
const none = (columns, text) => h("tr", {}, h("td", { colspan: columns, class: "empty" }, text));

export function policies({ user, refresh: again }) {
  const kinds = [
    { path: "policies", title: "Policies", keys: POLICY_KEYS, maySet: user.setsPolicies, empty: "There is no policy." },
    { path: "operator-policies", title: "Operator's policies", keys: OPERATOR_KEYS, maySet: user.isAdministrator, empty: "There is none." },
  ].map((kind) => ({ ...kind, body: h("tbody") }));
  const parameters = h("tbody");

  async function drop(path, name) {
    if (!(await ask({ title: "Clear it?", text: h("p", {}, visible(name)), action: "Clear" }))) return;
    try {
      await remove(path);
      note("It is cleared");
    } catch (error) {
      note(error.message, "bad");
    }
    again();
  }
  const edit = async (kind, known) => formDialog({
    title: known ? "Change a policy" : "Set a policy",
    action: "Set",
    fields: [
      { name: "vhost", label: "Virtual host", type: "select", options: await vhostNames(), value: known?.vhost ?? "/" },
      { name: "name", label: "Name", required: true, value: known?.name },
      { name: "pattern", label: "Pattern of names", required: true, value: known?.pattern ?? "^", hint: "A regular expression" },
      { name: "apply-to", label: "Applies to", type: "select", options: kind.path === "policies" ? APPLY : ["queues"], value: known?.["apply-to"] },
      { name: "priority", label: "Priority", type: "number", value: String(known?.priority ?? 0), hint: "Of several, the highest is in force" },
      { name: "definition", label: "Definition", type: "json", rows: 6, value: JSON.stringify(known?.definition ?? {}, null, 1), presets: kind.keys },
    ],
    submit: async ({ vhost, name, ...rest }) => {
      await put(`${kind.path}/${part(vhost)}/${part(name)}`, rest);
      again();
    },
    done: "The policy is set",
  });
  const setParameter = async () => formDialog({
    title: "Set a parameter",
    action: "Set",
    fields: [{ name: "component", label: "Component", value: "federation-upstream", suggestions: ["federation-upstream", "federation-upstream-set", "shovel"], required: true },
      { name: "vhost", label: "Virtual host", type: "select", options: await vhostNames(), value: "/" }, { name: "name", label: "Name", required: true }, { name: "value", label: "Value", type: "json", rows: 6 }],
    submit: async ({ component, vhost, name, value }) => {
      await put(`parameters/${part(component)}/${part(vhost)}/${part(name)}`, { value });
      again();
    },
    done: "The parameter is set",
  });
  const sections = kinds.map((kind) => h("div", { class: "panel" }, h("h2", {}, kind.title), table(["Name", "Virtual host", "Pattern", "Applies to", "Priority", "Definition", ""], kind.body),
    kind.maySet ? h("button", { type: "button", onclick: () => edit(kind) }, "Set a policy…") : null));
  const element = h("div", {}, h("h1", {}, "Policies"), sections, user.setsPolicies ? h("div", { class: "panel" }, h("h2", {}, "Parameters"), table(["Component", "Name", "Virtual host", "Value", ""], parameters),
    h("button", { type: "button", onclick: setParameter }, "Set a parameter…")) : null);

  async function refresh() {
    for (const kind of kinds) {
      const rows = await get(kind.path);
      fill(kind.body, rows.length === 0 ? none(7, kind.empty) : rows.map((one) => h("tr", {}, h("td", {}, visible(one.name)), h("td", {}, visible(one.vhost)), h("td", {}, h("code", {}, visible(one.pattern))), h("td", {}, visible(one["apply-to"])),
        h("td", { class: "number" }, count(one.priority)), h("td", {}, h("code", {}, visible(JSON.stringify(one.definition)))),
        h("td", {}, kind.maySet ? [h("button", { type: "button", class: "plain", onclick: () => edit(kind, one) }, "Change"), h("button", { type: "button", class: "plain", onclick: () => drop(`${kind.path}/${part(one.vhost)}/${part(one.name)}`, one.name) }, "Clear")] : null))));
    }
    if (!user.setsPolicies) return;
    const rows = await get("parameters");
    fill(parameters, rows.length === 0 ? none(5, "There is none.") : rows.map((one) => h("tr", {}, h("td", {}, visible(one.component)), h("td", {}, visible(one.name)), h("td", {}, visible(one.vhost)), h("td", {}, h("code", {}, visible(JSON.stringify(one.value)))),
      h("td", {}, h("button", { type: "button", class: "plain", onclick: () => drop(`parameters/${part(one.component)}/${part(one.vhost)}/${part(one.name)}`, one.name) }, "Clear")))));
  }
  return { element, refresh, interval: 5_000 };
}
