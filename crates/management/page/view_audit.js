// Who changed what, from where, and what came of it; and alarms that came and went.

import { get } from "./api.js";
import { count, fill, h, visible } from "./dom.js";

export function audit() {
  const body = h("tbody");
  const search = h("input", { type: "search", class: "filter", placeholder: "Filter", "aria-label": "Filter the log", "data-key": "filter", oninput: () => draw() });
  const about = h("p");
  const element = h("div", {}, h("h1", {}, "Audit log"), about, h("div", { class: "toolbar" }, search),
    h("div", { class: "panel" }, h("table", { class: "facts" }, h("thead", {}, h("tr", {}, ["When", "Who", "From", "What", "Which", "Answer"].map((title) => h("th", { scope: "col" }, title)))), body)));
  let rows = [];
  function draw() {
    const text = search.value.toLowerCase();
    const shown = rows.filter((row) => text === "" || `${row.user} ${row.source} ${row.action} ${row.names}`.toLowerCase().includes(text));
    fill(body, shown.length === 0 ? h("tr", {}, h("td", { colspan: 6, class: "empty" }, rows.length === 0 ? "Nothing has been changed since the broker started." : "No line has that in it.")) : shown.slice(0, 500).map((row) => h("tr", {},
      h("td", {}, new Date(row.timestamp).toLocaleString("en-GB")), h("td", {}, visible(row.user)), h("td", {}, visible(row.source)), h("td", {}, h("code", {}, visible(row.action))), h("td", {}, visible(row.names)),
      h("td", { class: row.status >= 400 || row.status === 0 ? "state bad" : "state good" }, row.status === 0 ? "the client left" : String(row.status)))));
  }
  async function refresh() {
    const answer = await get("audit");
    rows = answer.events;
    fill(about, `The last ${count(answer.kept)} changes over HTTP since the start; all of them are in the broker's log, target audit. Bodies, and so passwords, are in neither.`);
    draw();
  }
  return { element, refresh, interval: 2_000 };
}
