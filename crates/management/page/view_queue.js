// One queue: why it moves or not, its past, who consumes, its bindings, its messages.

import { get, remove } from "./api.js";
import { bindingsPanel } from "./bindings.js";
import { ask, note } from "./dialog.js";
import { bytes, count, fill, h, pairs, part, rate, visible } from "./dom.js";
import { getPanel, publishPanel } from "./messages.js";
import { Plot } from "./plot.js";
import { ratesOf } from "./view_overview.js";
import { queueState } from "./words.js";

const PAST = { lengths_age: 600, lengths_incr: 5, msg_rates_age: 600, msg_rates_incr: 5 };
const LENGTHS = [{ key: "messages_ready", name: "Ready" }, { key: "messages_unacknowledged", name: "Unacknowledged" }];
const RATES = [{ key: "publish", name: "Published" }, { key: "deliver_get", name: "Delivered" }, { key: "ack", name: "Acknowledged" }, { key: "redeliver", name: "Redelivered" }];

const yes = (value) => (value ? "yes" : "no");

function facts(queue) {
  const rows = [
    ["Type", queue.type], ["Durable", yes(queue.durable)], ["Deleted without consumers", yes(queue.auto_delete)], ["Exclusive", yes(queue.exclusive)],
    ["Policy", queue.policy ? visible(queue.policy) : "none"], ["Operator's policy", queue.operator_policy ? visible(queue.operator_policy) : "none"],
    ["In effect by policies", visible(JSON.stringify(queue.effective_policy_definition ?? {}))], ["Arguments", visible(JSON.stringify(queue.arguments ?? {}))],
    ["Ready", `${count(queue.messages_ready)}, ${bytes(queue.message_bytes_ready)}`], ["Unacknowledged", `${count(queue.messages_unacknowledged)}, ${bytes(queue.message_bytes_unacknowledged)}`],
    ["In memory", `${count(queue.messages_ram)}, ${bytes(queue.message_bytes_ram)}`], ["On the disk alone", `${count(queue.messages_paged_out)}, ${bytes(queue.message_bytes_paged_out)}`],
    ["Memory", bytes(queue.memory)],
    ["Consumers ready", queue.consumers > 0 ? `${Math.round((queue.consumer_capacity ?? 0) * 100)} % of the time` : "no consumers"], ["Idle since", queue.idle_since ? new Date(queue.idle_since).toLocaleString("en-GB") : "in use"],
  ];
  return pairs(rows);
}

function consumersTable(consumers) {
  if (consumers.length === 0) return h("p", { class: "empty" }, "Nobody consumes.");
  return h("table", { class: "facts" }, h("thead", {}, h("tr", {}, ["Channel", "Tag", "Acks", "Prefetch", "State"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, consumers.slice(0, 200).map((one) => h("tr", {},
      h("td", {}, h("a", { href: `#/connections/${part(one.channel_details.connection_name)}` }, visible(one.channel_details.name))), h("td", {}, h("code", {}, visible(one.consumer_tag))),
      h("td", {}, one.ack_required ? "by the client" : "none needed"), h("td", { class: "number" }, one.prefetch_count === 0 ? "no limit" : count(one.prefetch_count)), h("td", {}, one.activity_status.replace("_", " "))))));
}

export function queue(context) {
  const { names: [vhost, name], goTo, refresh: again } = context;
  const path = `queues/${part(vhost)}/${part(name)}`;
  const lengths = new Plot({ title: "Messages that wait", series: LENGTHS });
  const rates = new Plot({ title: "Messages a second", series: RATES });
  const state = h("p", { class: "words", role: "status" });
  const about = h("dl", { class: "grid" });
  const consumers = h("div");
  const bindings = bindingsPanel({ path: `${path}/bindings`, vhost, add: { destination: { kind: "q", name } }, empty: "There is no binding." });
  let last = null;

  async function purge() {
    const text = h("p", {}, `${count(last?.messages_ready)} messages that are ready are removed. Those that consumers hold stay with them.`);
    if (!(await ask({ title: "Purge this queue?", text, action: "Purge" }))) return;
    await done(() => remove(`${path}/contents`), "The queue is purged");
  }
  async function drop() {
    const text = h("p", {}, `The queue has ${count(last?.messages)} messages and ${count(last?.consumers)} consumers. Its messages are lost.`);
    if (!(await ask({ title: "Delete this queue?", text, action: "Delete", type: last?.messages > 0 ? name : undefined }))) return;
    if (await done(() => remove(path), "The queue is deleted")) goTo("#/queues");
  }
  async function done(change, text) {
    try {
      await change();
      note(text);
      again();
      return true;
    } catch (error) {
      note(error.message, "bad");
      return false;
    }
  }

  const section = (title, content, isOpen = false) => h("details", { class: "panel", open: isOpen }, h("summary", {}, h("h2", {}, title)), content);
  const element = h("div", {},
    h("h1", {}, h("a", { href: "#/queues" }, "Queues"), " / ", visible(name), " ", h("small", {}, "in ", h("a", { href: `#/queues?vhost=${part(vhost)}` }, visible(vhost)))),
    state, h("div", { class: "actions" }, h("button", { type: "button", onclick: purge }, "Purge…"), h("button", { type: "button", class: "danger", onclick: drop }, "Delete…")),
    h("div", { class: "columns" }, lengths.element, rates.element),
    h("div", { class: "panel" }, h("h2", {}, "Details"), about), h("div", { class: "panel" }, h("h2", {}, "Consumers"), consumers),
    h("div", { class: "panel" }, h("h2", {}, "Bindings"), bindings.element),
    section("Publish a message", publishPanel(vhost, "", name)), section("Look at messages", getPanel(vhost, name)));

  let asked = 0;
  async function refresh() {
    const answer = await get(path, asked === 0 ? PAST : { lengths_age: 5, lengths_incr: 5, msg_rates_age: 5, msg_rates_incr: 5 });
    const now = Date.now();
    last = answer;
    if (asked === 0) {
      for (const { key } of LENGTHS) lengths.restore(key, answer[`${key}_details`]?.samples);
      for (const { key } of RATES) rates.restore(key, ratesOf(answer.message_stats?.[`${key}_details`]?.samples));
    }
    lengths.add(now, answer);
    rates.add(now, Object.fromEntries(RATES.map(({ key }) => [key, answer.message_stats?.[`${key}_details`]?.rate])));
    const details = answer.consumer_details ?? [];
    const { tone, text } = queueState(answer, details);
    state.className = `words ${tone}`;
    fill(state, text, " ", h("small", {}, `In ${rate(answer.message_stats?.publish_details?.rate)}, out ${rate(answer.message_stats?.deliver_get_details?.rate)}.`));
    fill(about, facts(answer));
    fill(consumers, consumersTable(details));
    if (asked % 5 === 0) await bindings.refresh();
    asked += 1;
  }
  return { element, refresh };
}
