// Messages: a form that publishes one, one that looks at some, and how a body is shown.

import { post } from "./api.js";
import { ask, form, note } from "./dialog.js";
import { bytes, count, exchangeName, exchangePart, fill, h, part, visible } from "./dom.js";

const HEX_BYTES_MAX = 4096;

const toBytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** The bytes of a body as lines of hexadecimal numbers and letters. */
export function hex(data) {
  const lines = [];
  for (let begin = 0; begin < Math.min(data.length, HEX_BYTES_MAX); begin += 16) {
    const row = data.slice(begin, begin + 16);
    const numbers = [...row].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = [...row].map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${begin.toString(16).padStart(6, "0")}  ${numbers.padEnd(47)}  ${letters}`);
  }
  if (data.length > HEX_BYTES_MAX) lines.push(`… ${bytes(data.length - HEX_BYTES_MAX)} more`);
  return lines.join("\n");
}

function body(message) {
  const isText = message.payload_encoding === "string";
  const data = isText ? new TextEncoder().encode(message.payload) : toBytes(message.payload);
  const forms = {};
  if (isText) {
    try {
      forms.JSON = JSON.stringify(JSON.parse(message.payload), null, 2);
    } catch {
      // It is other text.
    }
    forms.Text = message.payload;
  }
  forms.Hex = hex(data);
  const pre = h("pre", { class: "payload", tabindex: 0, "aria-label": "Body" });
  const buttons = Object.keys(forms).map((name) => h("button", { type: "button", class: "plain", "aria-pressed": "false", onclick: () => show(name) }, name));
  const show = (name) => {
    pre.textContent = forms[name];
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === name));
  };
  show(Object.keys(forms)[0]);
  return h("div", {}, h("div", { class: "forms" }, buttons, h("span", {}, bytes(message.payload_bytes))), pre);
}

function message(one, index) {
  const properties = Array.isArray(one.properties) ? {} : one.properties;
  return h("article", { class: "message" },
    h("h4", {}, `${index + 1}. `, exchangeName(one.exchange), " → ", h("code", {}, visible(one.routing_key)), one.redelivered ? h("span", { class: "mark" }, "redelivered") : null),
    Object.keys(properties).length > 0 ? h("pre", { class: "properties" }, visible(JSON.stringify(properties, null, 1)).replaceAll("\\u000a", "\n")) : null,
    body(one));
}

const MODES = [
  ["peek", "Look: nothing changes"],
  ["ack_requeue_true", "Get and put back: each is marked redelivered"],
  ["ack_requeue_false", "Get and remove"],
  ["reject_requeue_false", "Get and reject: to the dead letter exchange"],
];

/** The form by which messages of a queue are looked at. */
export function getPanel(vhost, name) {
  const found = h("div", { class: "messages" });
  const element = form({
    action: "Get messages",
    fields: [
      { name: "ackmode", label: "How", type: "select", options: MODES, value: "peek" },
      { name: "count", label: "How many", type: "number", value: "10", required: true },
      { name: "truncate", label: "Bytes of each body", type: "number", value: "50000" },
    ],
    submit: async (values) => {
      const removes = values.ackmode.endsWith("_false");
      if (removes && !(await ask({ title: "Remove messages?", text: h("p", {}, `Up to ${count(values.count)} messages leave the queue ${visible(name)}.`), action: "Remove" }))) return;
      const messages = await post(`queues/${part(vhost)}/${part(name)}/get`, { ...values, encoding: "auto" });
      fill(found, messages.length === 0 ? h("p", { class: "empty" }, "No message is ready.") : messages.map(message));
    },
  });
  return h("div", {}, element, found);
}

/** The form by which a message is published; to a queue by way of the default exchange. */
export function publishPanel(vhost, exchange, routingKey) {
  return form({
    action: "Publish",
    fields: [
      { name: "routing_key", label: "Routing key", value: routingKey ?? "" },
      { name: "payload", label: "Body", type: "textarea", rows: 5 },
      { name: "payload_encoding", label: "Body is", type: "select", options: [["string", "text"], ["base64", "base64"]], value: "string" },
      { name: "properties", label: "Properties", type: "json", hint: "JSON; the buttons put one in", presets: [["delivery_mode", 2], ["content_type", "application/json"], ["headers", {}], ["correlation_id", ""], ["reply_to", ""], ["expiration", "60000"], ["message_id", ""], ["priority", 1]] },
    ],
    submit: async (values) => {
      const { routed } = await post(`exchanges/${part(vhost)}/${exchangePart(exchange)}/publish`, values);
      note(routed ? "Published, and routed to a queue" : "Published, but no queue takes it: the message is gone", routed ? "good" : "warn");
    },
  });
}
