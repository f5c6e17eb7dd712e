// Users: all of them, and one with its permissions and limits.

import { get, post, put, remove } from "./api.js";
import { ask, bulkDialog, formDialog, note } from "./dialog.js";
import { count, exchangeName, fill, h, pairs, part, visible } from "./dom.js";
import { Table } from "./table.js";
import { vhostNames } from "./view_queues.js";

const TAGS = ["administrator", "monitoring", "policymaker", "management", "federation"];

const tagsOf = (tags) => (Array.isArray(tags) ? tags : String(tags).split(",").filter(Boolean));

export function users({ user, parameters, changeParameters }) {
  const columns = [
    { name: "Name", sort: "name", class: "name", show: (row) => h("a", { href: `#/users/${part(row.name)}` }, visible(row.name)) },
    { name: "Tags", show: (row) => tagsOf(row.tags).map((tag) => h("span", { class: "mark" }, visible(tag))) },
    { name: "Logs in by password", show: (row) => (row.password_hash ? "yes" : "no") },
  ];
  const bulk = [{
    name: "Delete…", danger: true,
    run: (rows, table) => {
      const others = rows.filter((row) => row.name !== user.name);
      bulkDialog({
        title: "Delete users", rows: others, describe: (row) => visible(row.name), action: `Delete ${count(others.length)} users`,
        summary: `Deletes ${count(others.length)} users and closes their connections.${others.length < rows.length ? " You stay." : ""} Nothing is done yet.`,
        run: async (row) => { await remove(`users/${part(row.name)}`); table.selected.delete(row.name); },
        finished: () => { table.forget(); return table.refresh(); },
      });
    },
  }];
  const table = new Table({
    label: "Users", path: () => "users", columns, bulk, key: (row) => row.name, parameters, change: changeParameters, empty: "There is no user.",
    tools: [h("button", { type: "button", class: "primary", onclick: () => addUser(() => table.refresh()) }, "Add a user")],
  });
  return { element: h("div", { class: "full" }, h("h1", {}, "Users"), table.element), refresh: () => table.refresh(), interval: 5_000, dispose: () => table.dispose() };
}

function addUser(done) {
  formDialog({
    title: "Add a user",
    action: "Add",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "password", label: "Password", type: "password", hint: "Without one, the user logs in by a certificate only" },
      { name: "tags", label: "Tags", suggestions: TAGS, hint: `Comma between them: ${TAGS.join(", ")}. None: no entry to this page` },
    ],
    submit: async ({ name, password, tags }) => {
      await put(`users/${part(name)}`, password === "" ? { password_hash: "", tags } : { password, tags });
      await done();
    },
    done: "The user is there. It has no permissions yet.",
  });
}

export function user({ names: [name], user: me, goTo, refresh: again }) {
  const path = `users/${part(name)}`;
  const about = h("dl", { class: "grid" });
  const permissions = h("tbody");
  const topics = h("tbody");
  const limits = h("div");

  async function change(action, text) {
    try {
      await action();
      if (text) note(text);
    } catch (error) {
      note(error.message, "bad");
    }
    again();
  }
  const setPassword = () => formDialog({
    title: "Change the password",
    action: "Change",
    fields: [{ name: "password", label: "New password", type: "password", required: true }, { name: "again", label: "Once more", type: "password", required: true }],
    submit: async (values) => {
      if (values.password !== values.again) throw new Error("The two are different.");
      const { tags } = await get(path);
      await put(path, { password: values.password, tags: tagsOf(tags).join(",") });
    },
    done: "The password is changed. Open connections stay.",
  });
  const setTags = async () => {
    const answer = await get(path);
    formDialog({
      title: "Change the tags",
      action: "Change",
      fields: [{ name: "tags", label: "Tags", value: tagsOf(answer.tags).join(","), suggestions: TAGS, hint: `Comma between them: ${TAGS.join(", ")}` }],
      submit: ({ tags }) => put(path, { password_hash: answer.password_hash, hashing_algorithm: answer.hashing_algorithm, tags }).then(again),
      done: "The tags are changed",
    });
  };
  const allow = async () => formDialog({
    title: "Set a permission",
    action: "Set",
    fields: [{ name: "vhost", label: "Virtual host", type: "select", options: await vhostNames(), value: "/" },
      { name: "configure", label: "Configure (declare, delete)", value: ".*", hint: "A regular expression of names; ^$ for none" }, { name: "write", label: "Write (publish, bind)", value: ".*" }, { name: "read", label: "Read (consume, get, purge)", value: ".*" }],
    submit: ({ vhost, ...rest }) => put(`permissions/${part(vhost)}/${part(name)}`, rest).then(again),
    done: "The permission is set",
  });
  const allowTopic = async () => formDialog({
    title: "Set a topic permission",
    action: "Set",
    fields: [{ name: "vhost", label: "Virtual host", type: "select", options: await vhostNames(), value: "/" }, { name: "exchange", label: "Topic exchange", required: true, value: "amq.topic" },
      { name: "write", label: "Write: routing keys", value: ".*" }, { name: "read", label: "Read: routing keys", value: ".*" }],
    submit: ({ vhost, ...rest }) => put(`topic-permissions/${part(vhost)}/${part(name)}`, rest).then(again),
    done: "The topic permission is set",
  });
  const setLimit = () => formDialog({
    title: "Set a limit",
    action: "Set",
    fields: [{ name: "limit", label: "Limit", type: "select", options: ["max-connections", "max-channels"] }, { name: "value", label: "At most", type: "number", required: true, value: "100" }],
    submit: ({ limit, value }) => put(`user-limits/${part(name)}/${limit}`, { value }).then(again),
    done: "The limit is set",
  });
  const closeAll = async () => {
    if (await ask({ title: "Close all connections of this user?", text: h("p", {}, "Clients are told why, and may come again."), action: "Close them" })) await change(() => remove(`connections/username/${part(name)}`, {}, { reason: "Closed via the management page" }), "Connections are closed");
  };
  const drop = async () => {
    if (!(await ask({ title: "Delete this user?", text: h("p", {}, "Its connections are closed."), action: "Delete", type: name }))) return;
    try {
      await post("users/bulk-delete", { users: [name] });
      note("The user is deleted");
      goTo("#/users");
    } catch (error) {
      note(error.message, "bad");
    }
  };
  const heads = (titles) => h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title))));
  const clear = (action) => h("button", { type: "button", class: "plain", onclick: () => change(action, "It is cleared") }, "Clear");
  const element = h("div", {}, h("h1", {}, h("a", { href: "#/users" }, "Users"), " / ", visible(name)),
    h("div", { class: "actions" }, h("button", { type: "button", onclick: setPassword }, "Change the password…"), h("button", { type: "button", onclick: setTags }, "Change the tags…"),
      h("button", { type: "button", onclick: closeAll }, "Close its connections…"), name === me.name ? null : h("button", { type: "button", class: "danger", onclick: drop }, "Delete…")),
    h("div", { class: "panel" }, about),
    h("div", { class: "panel" }, h("h2", {}, "Permissions"), h("table", { class: "facts" }, heads(["Virtual host", "Configure", "Write", "Read", ""]), permissions), h("button", { type: "button", onclick: allow }, "Set a permission…")),
    h("div", { class: "panel" }, h("h2", {}, "Topic permissions"), h("table", { class: "facts" }, heads(["Virtual host", "Exchange", "Write", "Read", ""]), topics), h("button", { type: "button", onclick: allowTopic }, "Set a topic permission…")),
    h("div", { class: "panel" }, h("h2", {}, "Limits"), limits, h("button", { type: "button", onclick: setLimit }, "Set a limit…")));

  async function refresh() {
    const [answer, granted, topical, limited] = await Promise.all([get(path), get(`${path}/permissions`), get(`${path}/topic-permissions`), get(`user-limits/${part(name)}`)]);
    fill(about, pairs([["Tags", tagsOf(answer.tags).map(visible).join(", ") || "none"], ["Password", answer.password_hash ? visible(answer.hashing_algorithm ?? "hashed") : "none: no login by password"]]));
    const none = (columns, text) => h("tr", {}, h("td", { colspan: columns, class: "empty" }, text));
    fill(permissions, granted.length === 0 ? none(5, "None: the user can log in nowhere.") : granted.map((one) => h("tr", {}, h("td", {}, visible(one.vhost)), [one.configure, one.write, one.read].map((text) => h("td", {}, h("code", {}, visible(text)))),
      h("td", {}, clear(() => remove(`permissions/${part(one.vhost)}/${part(name)}`))))));
    fill(topics, topical.length === 0 ? none(5, "None: routing keys are not looked at.") : topical.map((one) => h("tr", {}, h("td", {}, visible(one.vhost)), h("td", {}, exchangeName(one.exchange)), [one.write, one.read].map((text) => h("td", {}, h("code", {}, visible(text)))),
      h("td", {}, clear(() => remove(`topic-permissions/${part(one.vhost)}/${part(name)}/${part(one.exchange === "" ? "amq.default" : one.exchange)}`))))));
    const values = Object.entries(limited[0]?.value ?? {});
    fill(limits, values.length === 0 ? h("p", { class: "empty" }, "None.") : h("table", { class: "facts" }, h("tbody", {}, values.map(([limit, value]) => h("tr", {}, h("th", { scope: "row" }, limit), h("td", { class: "number" }, count(value)), h("td", {}, clear(() => remove(`user-limits/${part(name)}/${limit}`))))))));
  }
  return { element, refresh, interval: 5_000 };
}
