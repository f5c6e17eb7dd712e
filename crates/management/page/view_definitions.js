// All definitions as a file, and a file taken in.

import { get, post } from "./api.js";
import { ask, note } from "./dialog.js";
import { count, fill, h, part, visible } from "./dom.js";

const KINDS = ["users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies", "exchanges", "queues", "bindings"];

/** What a file has in it. */
function summary(file) {
  const found = KINDS.filter((kind) => Array.isArray(file[kind]) && file[kind].length > 0).map((kind) => `${count(file[kind].length)} ${kind.replace("_", " ")}`);
  return found.length === 0 ? "nothing that this broker knows" : found.join(", ");
}

export function definitions() {
  const vhosts = () => [h("option", { value: "" }, "the whole broker")];
  const from = h("select", { "aria-label": "Of" }, vhosts());
  const into = h("select", { "aria-label": "Into" }, vhosts());
  const file = h("input", { type: "file", accept: ".json,application/json", "aria-label": "Definitions file" });
  const status = h("p", { role: "status" });

  async function save() {
    try {
      const value = await get(from.value === "" ? "definitions" : `definitions/${part(from.value)}`);
      const url = URL.createObjectURL(new Blob([JSON.stringify(value, null, 2)], { type: "application/json" }));
      h("a", { href: url, download: `harrier-definitions-${new Date().toISOString().slice(0, 10)}.json` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
      note(`Exported: ${summary(value)}`);
    } catch (error) {
      note(error.message, "bad");
    }
  }
  async function load() {
    const chosen = file.files[0];
    if (chosen === undefined) return note("Choose a file first.", "warn");
    let value;
    try {
      value = JSON.parse(await chosen.text());
    } catch (error) {
      return note(`${chosen.name} is no JSON: ${error.message}`, "bad");
    }
    const where = into.value === "" ? "the whole broker" : `the virtual host ${visible(into.value)}`;
    const text = h("p", {}, `Takes into ${where}: ${summary(value)}. What is there already with the same name is changed, and nothing is deleted.`);
    if (!(await ask({ title: "Import definitions?", text, action: "Import", danger: false }))) return undefined;
    fill(status, "Importing…");
    try {
      await post(into.value === "" ? "definitions" : `definitions/${part(into.value)}`, value);
      fill(status, `Imported: ${summary(value)}.`);
      note("Definitions are imported");
    } catch (error) {
      fill(status, "");
      note(`Not imported: ${error.message}`, "bad");
    }
    return undefined;
  }
  const element = h("div", {}, h("h1", {}, "Definitions"),
    h("div", { class: "columns" },
      h("div", { class: "panel" }, h("h2", {}, "Export"), h("p", {}, "Users with hashes of their passwords, virtual hosts, permissions, policies, exchanges, queues and bindings; no messages."), h("div", { class: "field" }, "Of ", from), h("button", { type: "button", class: "primary", onclick: save }, "Save a file")),
      h("div", { class: "panel" }, h("h2", {}, "Import"), h("p", {}, "A file of this broker or of RabbitMQ."), h("div", { class: "field" }, file), h("div", { class: "field" }, "Into ", into), h("button", { type: "button", onclick: load }, "Import…"), status)));
  let isFilled = false;
  async function refresh() {
    if (isFilled) return;
    const names = (await get("vhosts", { columns: "name" })).map(({ name }) => name);
    for (const select of [from, into]) fill(select, vhosts(), names.map((name) => h("option", { value: name }, visible(name))));
    isFilled = true;
  }
  return { element, refresh, interval: 60_000 };
}
