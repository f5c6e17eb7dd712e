// One search over all names: a dialog that `/` or Ctrl-K opens.
//
// Owns:  the questions to each list, of which only the newest count; the choice by keys.

import { get } from "./api.js";
import { exchangeName, fill, h, part, visible } from "./dom.js";

const ROWS = 6;

const LISTS = [
  { name: "Queues", path: "queues", columns: "name,vhost,messages", text: (row) => [visible(row.name), visible(row.vhost)], link: (row) => `#/queues/${part(row.vhost)}/${part(row.name)}` },
  { name: "Exchanges", path: "exchanges", columns: "name,vhost,type", text: (row) => [exchangeName(row.name), `${visible(row.vhost)} · ${row.type}`], link: (row) => `#/exchanges/${part(row.vhost)}/${part(row.name)}` },
  { name: "Connections", path: "connections", columns: "name,user,vhost", text: (row) => [visible(row.name), `${visible(row.user)} · ${visible(row.vhost)}`], link: (row) => `#/connections/${part(row.name)}` },
  { name: "Virtual hosts", path: "vhosts", columns: "name", text: (row) => [visible(row.name), ""], link: (row) => `#/vhosts/${part(row.name)}` },
  { name: "Users", path: "users", columns: "name,tags", isAdministrators: true, text: (row) => [visible(row.name), (row.tags ?? []).join(", ")], link: (row) => `#/users/${part(row.name)}` },
];

export function openSearch(user) {
  if (document.querySelector("dialog[open]")) return;
  let asking = new AbortController();
  let timer = null;
  const results = h("div", { class: "results", role: "listbox", id: "search-results", "aria-label": "Results" });
  const input = h("input", {
    type: "search", placeholder: "Search queues, exchanges, connections, virtual hosts, users", "aria-label": "Search all names",
    role: "combobox", "aria-expanded": "true", "aria-controls": "search-results", autocomplete: "off",
  });
  const dialog = h("dialog", { class: "search", "aria-label": "Search" }, input, results);
  const links = () => [...results.querySelectorAll("a")];
  const mark = (to) => links().forEach((link, index) => {
    link.setAttribute("aria-selected", String(index === to));
    if (index === to) link.scrollIntoView({ block: "nearest" });
  });
  const marked = () => links().findIndex((link) => link.getAttribute("aria-selected") === "true");
  async function look() {
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    const name = input.value.trim();
    if (name === "") return fill(results);
    const lists = LISTS.filter((list) => !list.isAdministrators || user.isAdministrator);
    const found = await Promise.all(lists.map(async (list) => {
      try {
        const answer = await get(list.path, { page: 1, page_size: ROWS, name, columns: list.columns }, { signal });
        return { list, rows: answer.items ?? answer.filter((row) => row.name.toLowerCase().includes(name.toLowerCase())).slice(0, ROWS), total: answer.filtered_count ?? 0 };
      } catch (error) {
        return { list, rows: [], total: 0, fault: signal.aborted ? null : error.message };
      }
    }));
    if (signal.aborted) return undefined;
    fill(results, found.map(({ list, rows, total, fault }) => {
      if (fault) return h("p", { class: "fault" }, `${list.name}: ${fault}`);
      if (rows.length === 0) return null;
      const more = total > rows.length ? ` (${total.toLocaleString("en")})` : "";
      return h("div", { role: "group", "aria-label": list.name }, h("h3", {}, list.name + more), rows.map((row) => {
        const [text, detail] = list.text(row);
        return h("a", { href: list.link(row), role: "option", onclick: () => dialog.close() }, h("span", {}, text), h("small", {}, detail));
      }));
    }));
    if (links().length === 0) results.append(h("p", { class: "empty" }, "Nothing has such a name."));
    mark(0);
    return undefined;
  }
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, 120); });
  input.addEventListener("keydown", (event) => {
    const total = links().length;
    if (event.key === "ArrowDown") mark(Math.min(total - 1, marked() + 1));
    else if (event.key === "ArrowUp") mark(Math.max(0, marked() - 1));
    else if (event.key === "Enter") links()[Math.max(0, marked())]?.click();
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("close", () => { asking.abort(); clearTimeout(timer); dialog.remove(); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
}
