// The management page in Chromium, on a running broker: views, search, bulk deletion, logins, tags, many queues, a restart.
//
// Usage:  node management.mjs HARRIER PAGE        PAGE: the folder of the page's files
// Does:   starts brokers of its own (program HARRIER, state in memory) and ends them.
// Leaves: screenshots in $OUT; prints `ok NAME` or `not ok NAME - why`; status 1 if anything failed.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const OUT = process.env.OUT;
const [HARRIER, PAGE] = process.argv.slice(2);
const MANY = 10_000;
const WAIT_MS = 20_000;

let failures = 0;
function report(name, complaints) {
  if (complaints.length === 0) {
    console.log(`ok management-${name}`);
  } else {
    failures += 1;
    console.log(`not ok management-${name} - ${complaints.slice(0, 5).join("; ")}${complaints.length > 5 ? `; and ${complaints.length - 5} more` : ""}`);
  }
}

/** A check whose failure is what it throws. */
async function check(name, does) {
  try {
    report(name, (await does()) ?? []);
  } catch (error) {
    report(name, [String(error.message ?? error).split("\n").slice(0, 3).join(" ")]);
  }
}

/** The port of an address in a line of the log. */
const portOf = (address) => Number(address.slice(address.lastIndexOf(":") + 1));

class Broker {
  /** Starts one. Without ports it binds free ones, and says in the line that it is ready which they are. */
  static async start(port = 0, amqp = 0) {
    const broker = new Broker();
    broker.process = spawn(HARRIER, ["broker", "--state", "none", "--log-format", "json", "--listen", `127.0.0.1:${amqp}`, "--management-listen", `127.0.0.1:${port}`, "--metrics-listen", "none"], { stdio: ["ignore", "ignore", "pipe"] });
    broker.log = "";
    const ready = await new Promise((found, failed) => {
      const overdue = setTimeout(() => failed(new Error(`the broker is not ready after ${WAIT_MS} ms; ${broker.log}`)), WAIT_MS);
      broker.process.once("exit", () => failed(new Error(`the broker has ended; ${broker.log}`)));
      createInterface({ input: broker.process.stderr }).on("line", (line) => {
        broker.log = (broker.log + line + "\n").slice(-4000);
        if (!line.includes('"harrier broker is ready"')) return;
        clearTimeout(overdue);
        found(JSON.parse(line));
      });
    });
    [broker.port, broker.amqp] = [portOf(ready.management), portOf(ready.addresses)];
    return broker;
  }

  get url() {
    return `http://127.0.0.1:${this.port}/`;
  }

  async ask(method, path, body) {
    const headers = { authorization: `Basic ${Buffer.from("guest:guest").toString("base64")}` };
    const response = await fetch(`${this.url}api/${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  async stop() {
    const ended = once(this.process, "exit");
    this.process.kill("SIGTERM");
    const killed = setTimeout(() => this.process.kill("SIGKILL"), WAIT_MS);
    await ended;
    clearTimeout(killed);
  }
}

/** What is in the broker: of each kind something, and a name that would be markup. */
async function furnish(broker) {
  const queues = [];
  for (let number = 0; number < MANY; number += 1) queues.push({ name: `many.${String(number).padStart(5, "0")}`, vhost: "/", durable: true, auto_delete: false, arguments: {} });
  await broker.ask("POST", "definitions", { queues });
  await broker.ask("PUT", "vhosts/trading", { description: "Orders and quotes" });
  await broker.ask("PUT", "queues/%2F/orders", { durable: true, arguments: { "x-max-length": 100000 } });
  await broker.ask("PUT", `queues/%2F/${encodeURIComponent(EVIL)}`, { durable: false });
  await broker.ask("PUT", "exchanges/%2F/prices", { type: "topic" });
  await broker.ask("POST", "bindings/%2F/e/prices/q/orders", { routing_key: "eu.#" });
  for (let number = 0; number < 25; number += 1) {
    await broker.ask("POST", "exchanges/%2F/prices/publish", { routing_key: "eu.bund", payload: JSON.stringify({ number, price: 101.5 }), payload_encoding: "string", properties: { content_type: "application/json" } });
  }
  await broker.ask("PUT", "users/watcher", { password: "watcher", tags: "monitoring" });
  await broker.ask("PUT", "permissions/%2F/watcher", { configure: "", write: "", read: ".*" });
  await broker.ask("PUT", "users/trader", { password: "trader", tags: "" });
  await broker.ask("PUT", "policies/%2F/capped", { pattern: "^orders$", definition: { "max-length": 5000 }, priority: 1, "apply-to": "queues" });
}

const EVIL = `<img src=x onerror="document.title='hacked'">\u202e`;

async function login(page, broker, user) {
  await page.goto(broker.url);
  await page.fill("#login-name", user);
  await page.fill("#login-password", user);
  await page.click("button[type=submit]");
  await page.waitForSelector("nav#menu", { timeout: WAIT_MS });
}

const go = async (page, hash) => {
  await page.evaluate((to) => { location.hash = to; }, hash);
  await page.waitForSelector("main h1", { timeout: WAIT_MS });
};
const text = (page, selector) => page.locator(selector).first().innerText();
const until = (page, does, argument) => page.waitForFunction(does, argument, { timeout: WAIT_MS });

/** Runs in the page: controls without a name, and what makes it wider than its window. */
function looked() {
  const complaints = [];
  for (const element of document.querySelectorAll("button, a[href], input, select, textarea, [role=img], dialog")) {
    if (!element.checkVisibility()) continue;
    const labelled = element.labels?.length > 0 || element.getAttribute("aria-label") || element.textContent.trim() || element.title;
    if (!labelled) complaints.push(`<${element.tagName.toLowerCase()}> has no name`);
  }
  for (const cell of document.querySelectorAll("table.list td.name")) if (cell.clientWidth < 90) { complaints.push(`a name has ${cell.clientWidth} pixels`); break; }
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth + 1) complaints.push(`${document.documentElement.scrollWidth} pixels in a window of ${document.documentElement.clientWidth}`);
  for (const wrong of ["NaN", "undefined", "[object", "Infinity"]) if (document.body.innerText.includes(wrong)) complaints.push(`says ${wrong}`);
  if (document.querySelector("main .fault:not([hidden])")) complaints.push(document.querySelector("main .fault:not([hidden])").textContent);
  if (document.querySelectorAll("h1").length !== 1) complaints.push(`${document.querySelectorAll("h1").length} headings of the first level`);
  return complaints;
}

/** Runs in the page: texts whose contrast with what is behind them is too low (WCAG 2.1, 1.4.3). */
function contrasts(least) {
  const parse = (colour) => { const numbers = (colour.match(/[\d.]+/g) ?? []).map(Number); return { rgb: numbers.slice(0, 3), alpha: numbers[3] ?? 1 }; };
  const luminance = (rgb) => { const [r, g, b] = rgb.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (element) => { for (let at = element; at; at = at.parentElement) { const colour = parse(getComputedStyle(at).backgroundColor); if (colour.alpha > 0) return colour.rgb; } return [255, 255, 255]; };
  const complaints = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("[disabled], [aria-pressed=false].key, script, style, title, option")) continue;
    const style = getComputedStyle(element);
    const [high, low] = [luminance(parse(element.closest("svg") ? style.fill : style.color).rgb), luminance(ground(element))].sort((one, other) => other - one);
    const found = (high + 0.05) / (low + 0.05);
    if (found < least) complaints.push(`'${element.textContent.trim().slice(0, 24)}' ${found.toFixed(2)}`);
  }
  return complaints;
}

const VIEWS = ["overview", "queues", "exchanges", "connections", "channels", "consumers", "federation", "node", "vhosts", "policies", "users", "definitions", "audit",
  "queues/%2F/orders", "exchanges/%2F/prices", "exchanges/%2F/amq.default", "vhosts/%2F", "users/guest"];

async function eachView(page) {
  for (const view of VIEWS) {
    await check(`view-${view.replaceAll("%2F", "").replaceAll("/", "-")}`, async () => {
      await go(page, `#/${view}`);
      await page.waitForTimeout(0);
      await until(page, () => !document.querySelector("main").innerText.includes("Loading…"));
      // Asked twice: what is drawn again may be wrong where the first was right.
      await page.waitForResponse((response) => response.url().includes("/api/") && response.ok(), { timeout: WAIT_MS }).catch(() => {});
      const complaints = await page.evaluate(looked);
      complaints.push(...(await page.evaluate(contrasts, 4.5)));
      const name = view.replaceAll("%2F", "root").replaceAll("/", "-");
      await page.screenshot({ path: `${OUT}/management-${name}.png` });
      await page.setViewportSize({ width: 360, height: 740 });
      complaints.push(...(await page.evaluate(looked)).map((one) => `on a phone: ${one}`));
      await page.screenshot({ path: `${OUT}/management-${name}-phone.png` });
      await page.setViewportSize({ width: 1280, height: 860 });
      return complaints;
    });
  }
}

async function queuesView(page, broker) {
  await check("ten-thousand-queues", async () => {
    const began = Date.now();
    await go(page, "#/queues");
    await until(page, () => document.querySelectorAll("table.list tbody tr:not(.spacer)").length > 10);
    const took = Date.now() - began;
    const rows = await page.locator("table.list tbody tr").count();
    const complaints = [];
    if (rows > 200) complaints.push(`${rows} rows are in the document`);
    if (!(await text(page, ".counts")).includes("10,002")) complaints.push(`it counts ${await text(page, ".counts")}`);
    await page.evaluate(() => { const scroller = document.querySelector(".scroller"); scroller.scrollTop = scroller.scrollHeight; });
    await until(page, () => [...document.querySelectorAll("table.list td.name")].some((cell) => cell.innerText.includes("orders")));
    console.log(`# the first rows of 10,002 queues after ${took} ms`);
    return complaints;
  });
  await check("filter-has-an-address", async () => {
    await page.fill(".filter", "many.0123");
    await until(page, () => document.querySelector(".counts").innerText.includes("10 of"));
    if (!page.url().includes("name=many.0123")) return [`the address is ${page.url()}`];
    await page.reload();
    await until(page, () => document.querySelector(".counts")?.innerText.includes("10 of"));
    return [];
  });
  await check("sorts-at-the-broker", async () => {
    await page.fill(".filter", "");
    await page.click("button.sort:has-text('Ready')");
    await until(page, () => document.querySelector("table.list td.name")?.innerText.includes("orders"));
    return [];
  });
  await check("bulk-delete-is-asked-for-first", async () => {
    await go(page, "#/queues?name=many.0123");
    await until(page, () => document.querySelector(".counts")?.innerText.includes("10 of"));
    await page.click("th.pick input");
    await page.click(".bulk button:has-text('Delete')");
    const plan = await page.locator(".dry-run li").count();
    if (plan !== 10) return [`the dry run has ${plan} lines`];
    await page.click("dialog button:has-text('Cancel')");
    if ((await broker.ask("GET", "queues?page=1&name=many.0123&columns=name")).filtered_count !== 10) return ["queues are gone without a yes"];
    await page.click(".bulk button:has-text('Delete')");
    await page.screenshot({ path: `${OUT}/management-bulk-delete.png` });
    await page.click("dialog button.danger");
    await until(page, () => document.querySelector(".counts")?.innerText.startsWith("0 of"));
    if ((await broker.ask("GET", "queues?page=1&name=many.0123&columns=name")).filtered_count !== 0) return ["queues are left"];
    return [];
  });
  await check("a-name-is-no-markup", async () => {
    await go(page, "#/queues?name=onerror");
    await until(page, () => document.querySelector("table.list td.name a"));
    const shown = await text(page, "table.list td.name a");
    const complaints = [];
    if (!shown.includes("<img") || !shown.includes("\\u202e")) complaints.push(`shown as ${shown}`);
    await page.click("table.list td.name a");
    await until(page, () => document.querySelector(".words")?.innerText !== "");
    if ((await page.title()).includes("hacked") && !(await page.title()).includes("onerror")) complaints.push("it ran");
    if ((await page.locator("main img").count()) > 0) complaints.push("it became an element");
    return complaints;
  });
}

async function queueView(page, broker) {
  await check("queue-says-why", async () => {
    await go(page, "#/queues/%2F/orders");
    await until(page, () => document.querySelector(".words")?.innerText.includes("No consumers: 25 messages wait"));
    return [];
  });
  await check("publish-and-get", async () => {
    await page.click("summary:has-text('Publish a message')");
    await page.fill("details:has-text('Publish a message') textarea[name=payload]", "by hand");
    await page.click("button.primary:has-text('Publish')");
    await page.waitForSelector(".note:has-text('routed to a queue')", { timeout: WAIT_MS });
    await page.click("summary:has-text('Look at messages')");
    await page.fill("details:has-text('Look at messages') input[name=count]", "30");
    await page.click("button:has-text('Get messages')");
    await until(page, () => document.querySelectorAll("article.message").length === 26);
    // Numbers may be a second old.
    const end = Date.now() + WAIT_MS;
    let queue = await broker.ask("GET", "queues/%2F/orders?columns=messages");
    while (queue.messages !== 26 && Date.now() < end) queue = await broker.ask("GET", "queues/%2F/orders?columns=messages");
    await page.locator("article.message").first().scrollIntoViewIfNeeded();
    await page.screenshot({ path: `${OUT}/management-messages.png` });
    return queue.messages === 26 ? [] : [`${queue.messages} messages after looking`];
  });
  await check("purge-asks", async () => {
    await page.click("button:has-text('Purge…')");
    await page.click("dialog button.danger");
    await page.waitForSelector(".note:has-text('The queue is purged')", { timeout: WAIT_MS });
    await until(page, () => !document.querySelector(".words").innerText.includes("messages wait"));
    return [];
  });
  await check("what-would-route", async () => {
    await go(page, "#/exchanges/%2F/prices");
    await page.fill("main input[name=routing_key] >> nth=0", "eu.bund");
    await page.click("button:has-text('Where would it go?')");
    await until(page, () => document.querySelector(".words.good")?.innerText.includes("To 1 queue"));
    await page.fill("main input[name=routing_key] >> nth=0", "us");
    await page.click("button:has-text('Where would it go?')");
    await until(page, () => document.querySelector(".words.warn")?.innerText.startsWith("Nowhere"));
    return [];
  });
}

async function search(page) {
  await check("search-by-keys", async () => {
    await go(page, "#/overview");
    await page.keyboard.press("/");
    await page.keyboard.type("order");
    await until(page, () => document.querySelector(".results a")?.innerText.includes("orders"));
    await page.screenshot({ path: `${OUT}/management-search.png` });
    await page.keyboard.press("Enter");
    await until(page, () => location.hash === "#/queues/%2F/orders");
    await page.keyboard.press("g");
    await page.keyboard.press("e");
    await until(page, () => location.hash === "#/exchanges");
    return [];
  });
}

async function tags(browser, broker) {
  await check("monitoring-sees-and-changes-nothing", async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await login(page, broker, "watcher");
    const complaints = [];
    const entries = await page.locator("nav a").allInnerTexts();
    if (!entries.includes("Node") || entries.includes("Users")) complaints.push(`it sees ${entries}`);
    await go(page, "#/users");
    if (!(await text(page, "main")).includes("no such view")) complaints.push("it sees users");
    await go(page, "#/policies");
    await until(page, () => document.querySelector("main").innerText.includes("capped"));
    if ((await page.locator("button:has-text('Set a policy')").count()) > 0) complaints.push("it may set policies");
    await page.click("button:has-text('Log out')");
    await page.waitForSelector("#login-name", { timeout: WAIT_MS });
    await page.reload();
    await page.waitForSelector("#login-name", { timeout: WAIT_MS });
    await context.close();
    return complaints;
  });
  await check("no-tag-no-entry", async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(broker.url);
    for (const [user, password] of [["trader", "trader"], ["guest", "wrong"]]) {
      await page.fill("#login-name", user);
      await page.fill("#login-password", password);
      await page.click("button[type=submit]");
      await page.waitForSelector(".login .fault:not([hidden])", { timeout: WAIT_MS });
    }
    await context.close();
    return [];
  });
}

/** States in words, of numbers that are made up. */
async function words() {
  const source = readFileSync(`${PAGE}/words.js`, "base64");
  const { queueState, connectionState, shovelState, alarms, rdmaRows } = await import(`data:text/javascript;base64,${source}`);
  const rates = (publish, deliver, ack = deliver) => ({ publish_details: { rate: publish }, deliver_get_details: { rate: deliver }, ack_details: { rate: ack } });
  const queue = (ready, unacknowledged, consumers, stats) => ({ state: "running", messages_ready: ready, messages_unacknowledged: unacknowledged, consumers, message_stats: stats });
  const rdma = { credits_left: 1, credits_granted: 16, credits_owed: 2, unread_messages: 0, rendezvous_offered: 2, rendezvous_offered_bytes: 200000, rendezvous_to_read: 0, rendezvous_sent_bytes_total: 5, rendezvous_read_bytes_total: 6000 };
  const overRdma = (more) => connectionState({ state: "running", send_pend: 9, recv_oct_details: { rate: 1 }, send_oct_details: { rate: 0 }, harrier: { rdma: { ...rdma, ...more } } });
  const consumer = (prefetch) => ({ ack_required: true, prefetch_count: prefetch, active: true });
  const expected = [
    [queueState(queue(0, 0, 0, rates(0, 0))), "idle", "Empty, and nobody consumes."],
    [queueState(queue(1, 0, 0, rates(0, 0))), "warn", "No consumers: 1 message waits."],
    [queueState(queue(5, 0, 0, rates(9, 2))), "warn", "No consumers: 5 messages wait, and 7 more come each second."],
    [queueState(queue(0, 3, 1, rates(0, 0))), "warn", "Consumers hold 3 messages and acknowledge none."],
    [queueState(queue(0, 3, 1, rates(5, 5))), "good", "Consumers keep up."],
    [queueState(queue(0, 0, 1, rates(0, 0))), "idle", "Empty: consumers wait for messages."],
    [queueState(queue(10, 20, 2, rates(5, 0, 0)), [consumer(10), consumer(10)]), "warn", "Consumers are at their prefetch and acknowledge nothing: 10 messages wait for them."],
    [queueState(queue(10, 20, 2, rates(5, 4, 4)), [consumer(10), consumer(10)]), "warn", "Consumers are at their prefetch and acknowledge 4 a second: 10 messages wait for them."],
    [queueState(queue(10, 19, 2, rates(5, 0)), [consumer(10), consumer(10)]), "warn", "10 messages wait, and consumers take none: they read nothing, or hold all that they may."],
    [queueState(queue(10, 1, 1, rates(100, 50))), "warn", "Consumers fall behind: 50 a second more come in than go out."],
    [queueState(queue(100, 1, 1, rates(0, 50))), "good", "100 messages wait, and consumers take them. Empty in about 2 s at this rate."],
    [queueState(queue(3, 0, 1, rates(0, 0)), [{ ...consumer(1), active: false }]), "warn", "3 messages wait for a consumer that is active; none is."],
    [queueState({ ...queue(0, 0, 0, rates(0, 0)), state: "down" }), "bad", "Closed: the store cannot read its messages. See the log and, on damage, docs/operations/store.md."],
    [connectionState({ state: "running", send_pend: 9, recv_oct_details: { rate: 1 }, send_oct_details: { rate: 0 } }), "warn", "It does not read: bytes wait to be sent to it."],
    [overRdma({}), "warn", "It does not read: 2 large bodies in the broker's memory wait to be read by its card."],
    [overRdma({ rendezvous_offered: 1 }), "warn", "It does not read: a large body in the broker's memory waits to be read by its card."],
    [overRdma({ rendezvous_offered: 0 }), "warn", "It does not read: 1 credit of 16 left, and bytes wait to be sent to it."],
    [{ tone: "", text: rdmaRows(rdma).map(([name, value]) => `${name}: ${value}`).join("; ") }, "", "Credits: 1 of 16 left to send with, 2 to be returned; Unread messages: 0; Offered to the client: 2, of 200,000 bytes; To be read from it: none; By rendezvous so far: 5 bytes to it, 6,000 from it"],
    [connectionState({ state: "running", recv_oct_details: { rate: 0 }, send_oct_details: { rate: 0 } }), "idle", "Nothing passes but heartbeats."],
    [connectionState({ state: "running", recv_oct_details: { rate: 0 }, send_oct_details: { rate: 0 }, harrier: { hold: "a command waits for the disk" } }), "warn", "Nothing passes: a command waits for the disk."],
    [connectionState({ state: "flow", harrier: { hold: "x", held_by_queue: "slow" } }), "warn", "Held back: it publishes to queue slow that is slower than its publishers."],
    [connectionState({ state: "flow" }), "warn", "Held back: it publishes to a queue that is slower than its publishers."],
    [shovelState({ state: "running", messages_unacknowledged: 0 }), "good", "It moves what comes."],
    [shovelState({ state: "running", messages_unacknowledged: 2 }), "good", "It moves messages: 2 messages under way."],
    [shovelState({ state: "starting" }), "warn", "It connects, or waits for the other broker."],
    [shovelState({ state: "paused" }), "idle", "Paused: it moves nothing until it is resumed."],
    [shovelState({ state: "terminated", reason: "no route" }), "bad", "It does not run, and is tried again: no route"],
  ];
  const complaints = expected.filter(([found, tone, text]) => found.tone !== tone || found.text !== text).map(([found, , text]) => `'${found.text}' (${found.tone}), not '${text}'`);
  if (connectionState({ state: "blocked" }).tone !== "bad") complaints.push("blocked is bad");
  if (alarms({ mem_alarm: true, disk_free_alarm: true, being_drained: true }).length !== 3 || alarms({}).length !== 0) complaints.push("alarms");
  const { diskRows } = await import(`data:text/javascript;base64,${readFileSync(`${PAGE}/dom.js`, "base64")}`);
  const each = (count, size) => ({ count: { rate: count }, bytes: { rate: size } });
  const node = { disk_free: 1, io_write_bytes: 3 << 20, io_read_bytes: 0, io_sync_avg_time: 0.25 };
  for (const [kind, { count, bytes }] of [["write", each(12, 2048)], ["sync", each(13, 0)], ["read", each(0, 0)]]) Object.assign(node, { [`io_${kind}_count_details`]: count, [`io_${kind}_bytes_details`]: bytes });
  const rows = JSON.stringify(diskRows(node));
  const rowsExpected = JSON.stringify([["Disk writes", "12/s, 2.0 KiB/s, 3.0 MiB in all"], ["Disk syncs", "13/s, 0.25 ms each"], ["Disk reads", "0/s, 0 B/s, 0 B in all"]]);
  if (rows !== rowsExpected) complaints.push(`${rows}, not ${rowsExpected}`);
  if (diskRows({ disk_free: 0 }).length !== 0) complaints.push("a disk without a state folder");
  return complaints;
}

/** Two brokers, one of which has dialled the other. */
async function federation(browser, broker) {
  const other = await Broker.start();
  try {
    await check("federation-map", async () => {
      const address = (of) => `guest/guest@127.0.0.1:${of.amqp}`;
      await promisify(execFile)(HARRIER, ["route", "--wait", "15", "dynamic", "add", address(other), address(broker), "amq.topic"]);
      const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
      const page = await context.newPage();
      await login(page, other, "guest");
      await go(page, "#/federation");
      await until(page, () => document.querySelector(".map .edge.good") && document.querySelector("tbody td.state.good")?.innerText === "Messages pass.");
      const plan = `${OUT}/management-plan.json`;
      writeFileSync(plan, JSON.stringify({ chosen: { tree: "B-2B-16C" } }));
      await page.setInputFiles("#plan-file", plan);
      await until(page, () => document.querySelectorAll(".map").length === 2 && document.querySelector("main").innerText.includes("B-2B-16C"));
      const complaints = await page.evaluate(looked);
      await page.screenshot({ path: `${OUT}/management-federation-map.png` });
      writeFileSync(plan, JSON.stringify({ chosen: { tree: "<b>" } }));
      await page.setInputFiles("#plan-file", []);
      await page.setInputFiles("#plan-file", plan);
      await page.waitForSelector(".note.bad:has-text('is no tree')", { timeout: WAIT_MS });
      await context.close();
      return complaints;
    });
    await check("shovels", async () => {
      const api = async (of, method, path, body) => {
        const headers = { Authorization: `Basic ${btoa("guest:guest")}`, "Content-Type": "application/json" };
        const answer = await fetch(`http://127.0.0.1:${of.port}/api/${path}`, { method, headers, body: JSON.stringify(body) });
        if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
      };
      const value = { "src-uri": `amqp://guest:guest@127.0.0.1:${broker.amqp}`, "src-queue": "shovelled", "dest-uri": "amqp://", "dest-queue": "brought" };
      await api(other, "PUT", "parameters/shovel/%2F/bring", { value });
      const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
      const page = await context.newPage();
      await login(page, other, "guest");
      await go(page, "#/federation");
      const says = (words) => until(page, (expected) => document.querySelector("#shovels tbody td.state")?.innerText === expected, words);
      await says("It moves what comes.");
      const complaints = await page.evaluate(looked);
      const shown = await page.innerText("#shovels tbody tr");
      for (const expected of ["bring", "queue shovelled", "queue brought"]) if (!shown.includes(expected)) complaints.push(`'${expected}' is not in '${shown}'`);
      await page.screenshot({ path: `${OUT}/management-shovels.png`, fullPage: true });
      await page.click("#shovels button:has-text('Pause')");
      await says("Paused: it moves nothing until it is resumed.");
      await api(broker, "PUT", "queues/%2F/shovelled", { durable: true });
      await api(broker, "POST", "exchanges/%2F/amq.default/publish", { routing_key: "shovelled", payload: "x", payload_encoding: "string", properties: {} });
      await page.click("#shovels button:has-text('Resume')");
      await says("It moves what comes.");
      await until(page, () => document.querySelector("#shovels tbody td.number")?.innerText === "1");
      await page.click("#shovels button:has-text('Restart')");
      await page.waitForSelector(".note:has-text('The shovel connects again')", { timeout: WAIT_MS });
      await says("It moves what comes.");
      await api(other, "DELETE", "parameters/shovel/%2F/bring");
      await until(page, () => document.querySelector("#shovels tbody")?.innerText.startsWith("There is no shovel"));
      await context.close();
      return complaints;
    });
    await check("federation-map-of-the-source", async () => {
      const context = await browser.newContext();
      const page = await context.newPage();
      await login(page, broker, "guest");
      await go(page, "#/federation");
      await until(page, () => document.querySelector(".map")?.textContent.includes("has dialled from"));
      await context.close();
      return [];
    });
  } finally {
    await other.stop();
  }
}

async function restart(page, broker, stopping) {
  let again = null;
  await check("a-broker-that-restarts", async () => {
    await go(page, "#/overview");
    stopping.now = true;
    await broker.stop();
    await until(page, () => document.querySelector(".pulse")?.innerText === "no answer");
    stopping.now = false;
    again = await Broker.start(broker.port, broker.amqp);
    // Sessions end with the broker: the page asks for a login and goes on where it was.
    await page.waitForSelector("#login-name", { timeout: WAIT_MS });
    await page.fill("#login-name", "guest");
    await page.fill("#login-password", "guest");
    await page.click("button[type=submit]");
    await until(page, () => document.querySelector(".pulse")?.innerText === "live");
    return [];
  });
  // The page asks on while this one ends, too.
  stopping.now = true;
  await again?.stop();
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
let broker = null;
try {
  broker = await Broker.start();
  await furnish(broker);
  const errors = [];
  const stopping = { now: false };
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  const page = await context.newPage();
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // 401 is how the page learns that nobody has logged in; a broker that ends refuses what still comes with 503.
    const expected = stopping.now ? /401|503|ERR_CONNECTION|ERR_EMPTY/ : /401|ERR_CONNECTION|ERR_EMPTY/;
    if (["error", "warning"].includes(message.type()) && !expected.test(message.text())) errors.push(message.text());
  });
  page.on("request", (request) => !request.url().startsWith(broker.url) && !request.url().startsWith("blob:") && errors.push(`asks for ${request.url()}`));
  await check("words", words);
  await check("login", async () => { await login(page, broker, "guest"); });
  await queueView(page, broker);
  await eachView(page);
  await page.emulateMedia({ colorScheme: "dark" });
  await check("dark", async () => {
    await go(page, "#/overview");
    await until(page, () => document.querySelector(".tile strong")?.innerText !== "");
    await page.screenshot({ path: `${OUT}/management-dark.png` });
    return page.evaluate(contrasts, 4.5);
  });
  await page.emulateMedia({ colorScheme: "light" });
  await queuesView(page, broker);
  await search(page);
  await tags(browser, broker);
  await federation(browser, broker);
  await restart(page, broker, stopping);
  report("console", errors);
} finally {
  if (broker?.process.exitCode === null) await broker.stop();
  await browser.close();
}
process.exitCode = failures === 0 ? 0 : 1;
