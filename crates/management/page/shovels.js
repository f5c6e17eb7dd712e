// The shovels: from where to where each moves messages, its state in words, and what may be done with it.

import { get, put, remove } from "./api.js";
import { note } from "./dialog.js";
import { count, exchangeName, fill, h, part, visible } from "./dom.js";
import { shovelState } from "./words.js";

const HEADS = ["Shovel", "Virtual host", "From", "To", "State", "Messages", ""];

/** A queue or an exchange, and where it is. */
function end(shovel, side) {
  const queue = shovel[`${side}_queue`];
  const key = shovel[`${side}_exchange_key`];
  const exchange = () => `exchange ${exchangeName(shovel[`${side}_exchange`] ?? "")}${key === undefined ? "" : `, key ${visible(key)}`}`;
  return [queue === undefined ? exchange() : `queue ${visible(queue)}`, h("br"), h("small", {}, visible(shovel[`${side}_uri`]))];
}

/** A panel of all shovels; `again` is called when one was changed. */
export function shovels(user, again) {
  const body = h("tbody");
  const element = h("div", { class: "panel", id: "shovels" }, h("h2", {}, "Shovels"),
    h("table", { class: "facts" }, h("thead", {}, h("tr", {}, HEADS.map((head) => h("th", { scope: "col" }, head)))), body));

  async function change(shovel, action) {
    const path = `shovels/vhost/${part(shovel.vhost)}/${part(shovel.name)}/${action}`;
    const said = { pause: "The shovel is paused", resume: "The shovel goes on", restart: "The shovel connects again" };
    try {
      await (action === "restart" ? remove(path) : put(path));
      note(said[action]);
    } catch (error) {
      note(error.message, "bad");
    }
    again();
  }
  const button = (shovel, action, text) => h("button", { type: "button", class: "plain", "aria-label": `${text} ${visible(shovel.name)}`, onclick: () => change(shovel, action) }, text);
  function buttons(shovel) {
    if (!user.setsPolicies) return null;
    return shovel.state === "paused" ? button(shovel, "resume", "Resume") : [button(shovel, "pause", "Pause"), button(shovel, "restart", "Restart")];
  }
  function row(shovel) {
    const { tone, text } = shovelState(shovel);
    return h("tr", {}, h("td", {}, visible(shovel.name)), h("td", {}, visible(shovel.vhost)), h("td", {}, end(shovel, "src")), h("td", {}, end(shovel, "dest")),
      h("td", { class: `state ${tone}` }, visible(text)), h("td", { class: "number" }, count(shovel.messages)), h("td", {}, buttons(shovel)));
  }
  async function refresh() {
    const all = await get("shovels");
    const none = "There is no shovel. harrier ctl set_parameter shovel makes one; docs/operations/upstreams-and-shovels.md says how.";
    fill(body, all.length === 0 ? h("tr", {}, h("td", { colspan: HEADS.length, class: "empty" }, none)) : all.map(row));
  }
  return { element, refresh };
}
