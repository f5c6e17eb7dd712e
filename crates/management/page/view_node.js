// The node: what it takes of the machine, its alarms, its memory by kind, its files.

import { get } from "./api.js";
import { bytes, count, diskRows, duration, fill, h, pairs, part, visible } from "./dom.js";
import { Plot } from "./plot.js";
import { alarms } from "./words.js";

const MEMORY_KINDS = { binary: "Messages", queue_procs: "Queues", connection_other: "Connections", other_proc: "Everything else" };

export function node() {
  const memory = new Plot({ title: "Memory", series: [{ key: "mem_used", name: "Used" }], format: bytes });
  const sockets = new Plot({ title: "Descriptors and threads", series: [{ key: "fd_used", name: "Descriptors" }, { key: "proc_used", name: "Threads" }] });
  const alarm = h("div", { role: "alert" });
  const about = h("dl", { class: "grid" });
  const kinds = h("div");
  const attempts = h("div");
  const past = h("div");
  const element = h("div", {}, h("h1", {}, "Node"), alarm, h("div", { class: "columns" }, memory.element, sockets.element),
    h("div", { class: "columns" }, h("div", { class: "panel" }, h("h2", {}, "Details"), about), h("div", {}, h("div", { class: "panel" }, h("h2", {}, "Memory by kind"), kinds), h("div", { class: "panel" }, h("h2", {}, "Logins"), attempts), h("div", { class: "panel" }, h("h2", {}, "Alarms"), past))));
  let asked = 0;
  async function refresh() {
    const ages = asked === 0 ? { node_stats_age: 600, node_stats_incr: 5 } : {};
    const [answer] = await get("nodes", ages);
    if (answer === undefined) return;
    if (asked === 0) {
      memory.restore("mem_used", answer.mem_used_details?.samples);
      for (const key of ["fd_used", "proc_used"]) sockets.restore(key, answer[`${key}_details`]?.samples);
    }
    asked += 1;
    memory.add(Date.now(), answer);
    sockets.add(Date.now(), answer);
    const wrong = alarms(answer);
    fill(alarm, wrong.length === 0 ? h("p", { class: "words good" }, "No alarm is in effect.") : wrong.map((text) => h("p", { class: "alarm" }, text)));
    const rows = [["Name", answer.name], ["Process", answer.os_pid], ["Up", duration(answer.uptime)], ["Processors", count(answer.processors)],
      ["Memory", `${bytes(answer.mem_used)}${answer.mem_limit > 0 ? ` of ${bytes(answer.mem_limit)}` : ""}`],
      ["Disk free", answer.disk_free > 0 ? `${bytes(answer.disk_free)}, alarm below ${bytes(answer.disk_free_limit)}` : "no state folder"], ...diskRows(answer),
      ["Descriptors", `${count(answer.fd_used)} of ${count(answer.fd_total)}`], ["Sockets", count(answer.sockets_used)], ["Threads", `${count(answer.proc_used)} of ${count(answer.proc_total)}`],
      ["Logins by", answer.auth_mechanisms.map(({ name }) => name).join(", ")], ["Exchange types", answer.exchange_types.map(({ name }) => name).join(", ")],
      ["Configuration", answer.config_files.map(visible).join(", ") || "no file"], ["State folder", visible(answer.db_dir || "none")], ["Log", answer.log_files.map(visible).join(", ") || "standard error"]];
    fill(about, pairs(rows));
    if (asked % 3 !== 1) return;
    const found = (await get(`nodes/${part(answer.name)}/memory`)).memory;
    const total = found.total.rss || 1;
    fill(kinds, h("table", { class: "facts" }, h("tbody", {}, Object.entries(MEMORY_KINDS).map(([key, name]) => h("tr", {}, h("th", { scope: "row" }, name),
      h("td", { class: "number" }, bytes(found[key])), h("td", {}, h("meter", { min: 0, max: total, value: found[key], "aria-label": name })))))));
    fill(past, alarmTable(await get("alarms/history")));
    const logins = await get(`auth/attempts/${part(answer.name)}`);
    fill(attempts, h("table", { class: "facts" }, h("thead", {}, h("tr", {}, ["Protocol", "Succeeded", "Failed"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, logins.map((one) => h("tr", {}, h("th", { scope: "row" }, one.protocol), h("td", { class: "number" }, count(one.auth_attempts_succeeded)), h("td", { class: "number" }, count(one.auth_attempts_failed)))))));
  }
  return { element, refresh };
}

/** Alarms in effect and those that were, the newest first. */
function alarmTable(entries) {
  if (entries.length === 0) return h("p", { class: "empty" }, "None since the broker started.");
  const time = (text) => new Date(text).toLocaleString("en-GB");
  const row = ({ resource, raised_at, cleared_at }) => h("tr", {}, h("th", { scope: "row" }, resource === "memory" ? "Memory" : "Disk"), h("td", {}, time(raised_at)),
    h("td", { class: cleared_at === null ? "state bad" : "state good" }, cleared_at === null ? "in effect" : `for ${duration(new Date(cleared_at) - new Date(raised_at))}`));
  return h("table", { class: "facts" }, h("thead", {}, h("tr", {}, ["What is short", "Raised", "Lasted"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, entries.map(row)));
}
