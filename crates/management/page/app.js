// The page: who is logged in, which view an address names, and when it asks again.
//
// Owns:  the addresses of views (behind `#`, so that a reload shows the same), the clock of refreshes, keys, the theme.

import { listen, login, logout, whoami } from "./api.js";
import { note } from "./dialog.js";
import { fill, h, setText, visible } from "./dom.js";
import { openSearch } from "./search.js";
import { overview } from "./view_overview.js";
import { queues } from "./view_queues.js";
import { queue } from "./view_queue.js";
import { exchanges } from "./view_exchanges.js";
import { exchange } from "./view_exchange.js";
import { channels, consumers } from "./view_channels.js";
import { connection, connections } from "./view_connections.js";
import { federation } from "./view_federation.js";
import { node } from "./view_node.js";
import { user, users } from "./view_users.js";
import { vhost, vhosts } from "./view_vhosts.js";
import { policies } from "./view_policies.js";
import { definitions } from "./view_definitions.js";
import { audit } from "./view_audit.js";

/** Views by their address; the shown name, the key behind `g`, and who sees the entry. */
const VIEWS = [
  { path: "overview", name: "Overview", view: overview, key: "o" },
  { path: "queues", name: "Queues", view: queues, detail: queue, key: "q" },
  { path: "exchanges", name: "Exchanges", view: exchanges, detail: exchange, key: "e" },
  { path: "connections", name: "Connections", view: connections, detail: connection, key: "c" },
  { path: "channels", name: "Channels", view: channels, key: "h" },
  { path: "consumers", name: "Consumers", view: consumers, key: "s" },
  { path: "federation", name: "Federation", view: federation, key: "f", needs: "seesNode" },
  { path: "node", name: "Node", view: node, key: "n", needs: "seesNode" },
  { path: "vhosts", name: "Virtual hosts", view: vhosts, detail: vhost, key: "v" },
  { path: "policies", name: "Policies", view: policies, key: "p" },
  { path: "users", name: "Users", view: users, detail: user, key: "u", needs: "isAdministrator" },
  { path: "definitions", name: "Definitions", view: definitions, key: "d", needs: "isAdministrator" },
  { path: "audit", name: "Audit log", view: audit, key: "a", needs: "isAdministrator" },
];

const REFRESH_MS = 1_000;
const root = document.getElementById("root");
let session = null;
let shown = null;

/** What a user may see of the page; the broker decides anew with each request. */
function rights({ name, tags }) {
  const list = Array.isArray(tags) ? tags : String(tags).split(",");
  const isAdministrator = list.includes("administrator");
  const seesNode = isAdministrator || list.includes("monitoring");
  const setsPolicies = isAdministrator || list.includes("policymaker");
  return { name, tags: list, isAdministrator, seesNode, setsPolicies };
}

/** `#/queues/%2F/orders?name=x` in parts. */
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  let parts;
  try {
    parts = path.split("/").filter((text) => text !== "").map(decodeURIComponent);
  } catch {
    // An escape that is none: as if nothing had been said.
    parts = [];
  }
  return { parts: parts.length === 0 ? ["overview"] : parts, parameters: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

function changeParameters(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined && value !== "false");
  const [path] = location.hash.split("?");
  const query = given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
  history.replaceState(null, "", `${location.pathname}${path || "#/overview"}${query}`);
}

function theme(next) {
  if (next) localStorage.setItem("theme", next);
  const wanted = localStorage.getItem("theme") ?? "auto";
  if (wanted === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
  return wanted;
}

function themeButton() {
  const names = { auto: "System", light: "Light", dark: "Dark" };
  const button = h("button", { type: "button", class: "plain", title: "Colours: as the system, light or dark", "aria-label": "Colours" });
  const tell = () => fill(button, "◐", h("span", { class: "label" }, ` ${names[theme()]}`));
  button.addEventListener("click", () => {
    const order = Object.keys(names);
    theme(order[(order.indexOf(theme()) + 1) % order.length]);
    tell();
  });
  tell();
  return button;
}

function showLogin(text) {
  leave();
  session = null;
  document.title = "Harrier";
  const fault = h("p", { class: "fault", role: "alert", hidden: text === undefined }, text ?? "");
  const name = h("input", { id: "login-name", name: "username", autocomplete: "username", required: true, autocapitalize: "none", spellcheck: "false" });
  const password = h("input", { id: "login-password", name: "password", type: "password", autocomplete: "current-password" });
  const go = h("button", { type: "submit", class: "primary" }, "Log in");
  const form = h("form", {
    class: "login panel",
    onsubmit: async (event) => {
      event.preventDefault();
      go.disabled = true;
      fault.hidden = true;
      try {
        await login(name.value, password.value);
        const known = await whoami();
        if (known === null) throw new Error("The browser keeps no cookie of this page.");
        start(known);
      } catch (error) {
        fault.hidden = false;
        fill(fault, error.status === 401 ? "The name or the password is wrong, or the user has no tag that opens this page." : error.message);
        go.disabled = false;
        password.select();
      }
    },
  }, h("img", { src: "page/icon.svg", alt: "", width: 48, height: 48 }), h("h1", {}, "Harrier"),
  h("label", { for: "login-name" }, "User"), name, h("label", { for: "login-password" }, "Password"), password, fault, go);
  fill(root, h("main", { class: "login-page" }, form));
  name.focus();
}

function start(known) {
  session = { user: rights(known) };
  const entries = VIEWS.filter(({ needs }) => needs === undefined || session.user[needs]);
  const links = entries.map(({ path, name, key }) => h("a", { href: `#/${path}`, "data-path": path, title: `${name} (g ${key})` }, name));
  const menu = h("nav", { id: "menu", "aria-label": "Views" }, links);
  const toggle = h("button", { type: "button", class: "plain menu-button", "aria-expanded": "false", "aria-controls": "menu", onclick: () => setMenu(!menu.classList.contains("open")) }, "☰", h("span", { class: "unseen" }, "Menu"));
  const setMenu = (isOpen) => {
    menu.classList.toggle("open", isOpen);
    toggle.setAttribute("aria-expanded", String(isOpen));
  };
  const pulse = h("span", { class: "pulse", role: "status" });
  const header = h("header", {},
    toggle, h("a", { href: "#/overview", class: "brand" }, h("img", { src: "page/icon.svg", alt: "", width: 24, height: 24 }), "Harrier"),
    h("button", { type: "button", class: "search-button", title: "Search (/)", onclick: () => openSearch(session.user) }, "Search", h("kbd", {}, "/")),
    pulse, themeButton(), h("span", { class: "who" }, visible(session.user.name)),
    h("button", { type: "button", class: "plain", onclick: leaveSession }, "Log out"));
  const main = h("main", { id: "main", tabindex: -1 });
  fill(root, h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "To the content"), header, h("div", { class: "frame" }, menu, main));
  Object.assign(session, { main, links, pulse, setMenu });
  listen({
    expired: () => { if (session !== null) showLogin("The session has ended: log in again."); },
    reached: (isReached) => tellReached(isReached),
  });
  route();
}

async function leaveSession() {
  try {
    await logout();
    showLogin();
  } catch (error) {
    note(`Not logged out: ${error.message}`, "bad");
  }
}

function tellReached(isReached) {
  if (session === null || session.isReached === isReached) return;
  session.isReached = isReached;
  session.pulse.classList.toggle("lost", !isReached);
  setText(session.pulse, isReached ? "live" : "no answer");
}

function leave() {
  shown?.dispose?.();
  shown = null;
}

function route() {
  if (session === null) return;
  leave();
  session.setMenu(false);
  const { parts, parameters } = address();
  const [path, ...rest] = parts;
  const entry = VIEWS.find((one) => one.path === path);
  const maker = rest.length === 0 ? entry?.view : entry?.detail;
  for (const link of session.links) link.setAttribute("aria-current", link.dataset.path === path ? "page" : "false");
  if (maker === undefined || (entry.needs && !session.user[entry.needs])) {
    fill(session.main, h("h1", {}, "There is no such view"), h("p", {}, h("a", { href: "#/overview" }, "To the overview")));
    return;
  }
  document.title = `${rest.length > 0 ? visible(rest.at(-1)) : entry.name} · Harrier`;
  shown = maker({ user: session.user, names: rest, parameters, changeParameters, refresh: () => refresh(), goTo: (to) => { location.hash = to; } });
  fill(session.main, shown.element);
  scrollTo(0, 0);
  refresh();
}

/** Asks the view to ask again, unless it still waits for an answer. */
async function refresh() {
  const view = shown;
  if (!view?.refresh || view.isBusy) return;
  view.isBusy = true;
  view.last = performance.now();
  try {
    await view.refresh();
  } catch (error) {
    if (view === shown && error.status !== 0) showFault(view, error);
  } finally {
    view.isBusy = false;
  }
}

function showFault(view, error) {
  if (error.status === 401 && session === null) return;
  const text = error.status === 404 ? "It is not there any more." : error.message;
  if (!view.fault) {
    view.fault = h("p", { class: "fault", role: "alert" });
    view.element.prepend(view.fault);
  }
  fill(view.fault, text);
  // What is gone stays gone; anything else may pass.
  if (error.status === 404) view.refresh = undefined;
}

function tick() {
  if (document.visibilityState === "visible" && shown && performance.now() - (shown.last ?? 0) >= (shown.interval ?? REFRESH_MS) - 50) refresh();
}

let isGoing = false;
function pressed(event) {
  const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (session === null || document.querySelector("dialog[open]") || event.altKey || event.metaKey) return;
  if (event.ctrlKey) {
    if (event.key !== "k") return;
    event.preventDefault();
    openSearch(session.user);
    return;
  }
  if (isTyping) return;
  if (isGoing) {
    isGoing = false;
    const entry = VIEWS.find(({ key, needs }) => key === event.key && (needs === undefined || session.user[needs]));
    if (entry) location.hash = `#/${entry.path}`;
  } else if (event.key === "g") {
    isGoing = true;
  } else if (event.key === "/") {
    event.preventDefault();
    openSearch(session.user);
  } else if (event.key === "\\") {
    event.preventDefault();
    document.querySelector("[data-key=filter]")?.focus();
  }
}

addEventListener("hashchange", route);
addEventListener("keydown", pressed);
addEventListener("visibilitychange", tick);
setInterval(tick, REFRESH_MS);
theme();
whoami().then((known) => (known === null ? showLogin() : start(known)), (error) => showLogin(error.message));
