// Dialogs, and notes of what was done.
//
// Owns:  the form of a question; fields of forms and what was put into them; bulk actions with their progress.

import { count, fill, h, visible } from "./dom.js";

const NOTE_MS = 6_000;
const SHOWN_MAX = 200;

/** A note at the edge of the page; errors stay until they are closed. */
export function note(text, tone = "good") {
  const close = h("button", { type: "button", class: "plain", "aria-label": "Close this note", onclick: () => element.remove() }, "×");
  const element = h("div", { class: `note ${tone}` }, h("span", {}, text), close);
  document.getElementById("toasts").append(element);
  if (tone !== "bad") setTimeout(() => element.remove(), NOTE_MS);
}

function open(title, content, className) {
  const dialog = h("dialog", { class: className, "aria-label": title }, h("h2", {}, title), content);
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
  return dialog;
}

/** Asks whether to go on. `type`: a name that must be typed first. */
export function ask({ title, text, action, danger = true, type }) {
  return new Promise((answer) => {
    const typed = type === undefined ? null : h("input", { type: "text", "aria-label": `Type ${type}`, autocomplete: "off", oninput: () => { go.disabled = typed.value !== type; } });
    const go = h("button", { type: "submit", class: danger ? "danger" : "primary", disabled: type !== undefined }, action);
    const form = h("form", { method: "dialog", onsubmit: () => answer(true) },
      h("div", {}, text), typed && h("label", { class: "field" }, "Type ", h("code", {}, visible(type)), " to go on", typed),
      h("div", { class: "buttons" }, h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel"), go));
    const dialog = open(title, form);
    dialog.addEventListener("close", () => answer(false));
    (typed ?? go).focus();
  });
}

/** A field of a form: `{name, label, type, value, options, hint, required, rows}`. */
function field(spec) {
  const id = `field-${spec.name}-${Math.random().toString(36).slice(2)}`;
  const attributes = { id, name: spec.name, required: spec.required, "aria-describedby": spec.hint ? `${id}-hint` : null };
  let input;
  if (spec.type === "select") {
    input = h("select", attributes, spec.options.map((option) => {
      const [value, label] = Array.isArray(option) ? option : [option, option];
      return h("option", { value, selected: value === spec.value }, label);
    }));
  } else if (spec.type === "textarea" || spec.type === "json") {
    input = h("textarea", { ...attributes, rows: spec.rows ?? 4, spellcheck: "false" });
    input.value = spec.value ?? (spec.type === "json" ? "{}" : "");
  } else if (spec.type === "checkbox") {
    input = h("input", { ...attributes, type: "checkbox", checked: spec.value === true });
  } else {
    input = h("input", { ...attributes, type: spec.type ?? "text", autocomplete: spec.type === "password" ? "new-password" : "off", list: spec.suggestions ? `${id}-list` : null });
    input.value = spec.value ?? "";
  }
  const hint = spec.hint ? h("small", { id: `${id}-hint` }, spec.hint) : null;
  const list = spec.suggestions ? h("datalist", { id: `${id}-list` }, spec.suggestions.map((value) => h("option", { value }))) : null;
  const presets = spec.presets ? h("div", { class: "presets" }, spec.presets.map(([key, value]) => h("button", { type: "button", class: "preset", onclick: () => preset(input, key, value) }, key))) : null;
  const label = spec.type === "checkbox" ? h("label", { for: id, class: "check" }, input, spec.label) : [h("label", { for: id }, spec.label), input];
  return { input, spec, element: h("div", { class: "field" }, label, hint, presets, list) };
}

/** Puts a member into the JSON of a text, unless it is there. */
function preset(input, key, value) {
  try {
    const object = JSON.parse(input.value || "{}");
    input.value = JSON.stringify({ [key]: value, ...object }, null, 1);
    input.setCustomValidity("");
  } catch {
    input.setCustomValidity("This is no JSON");
    input.reportValidity();
  }
}

function read({ input, spec }) {
  if (spec.type === "checkbox") return input.checked;
  if (spec.type === "number") return input.value === "" ? undefined : Number(input.value);
  if (spec.type !== "json") return input.value;
  let value;
  try {
    value = JSON.parse(input.value === "" ? "{}" : input.value);
  } catch (error) {
    throw new Error(`${spec.label}: ${error.message}`);
  }
  if (spec.any !== true && (value === null || typeof value !== "object" || Array.isArray(value))) throw new Error(`${spec.label}: an object such as {"key": 1}`);
  return value;
}

/** A form within a page or a dialog. `submit(values)` may throw what the form then says. */
export function form({ fields, action, submit, danger = false, cancel }) {
  const made = fields.filter(Boolean).map(field);
  const fault = h("p", { class: "fault", role: "alert", hidden: true });
  const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
  const element = h("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      fault.hidden = true;
      go.disabled = true;
      try {
        await submit(Object.fromEntries(made.map((one) => [one.spec.name, read(one)])));
      } catch (error) {
        fault.hidden = false;
        fill(fault, error.message);
      } finally {
        go.disabled = false;
      }
    },
  }, made.map((one) => one.element), fault, h("div", { class: "buttons" }, cancel, go));
  return element;
}

/** The same in a dialog, which closes when it has been done. */
export function formDialog({ title, fields, action, submit, done }) {
  const cancel = h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel");
  const element = form({
    fields, action, cancel,
    submit: async (values) => {
      await submit(values);
      dialog.close();
      if (done) note(done);
    },
  });
  const dialog = open(title, element);
  element.querySelector("input, select, textarea")?.focus();
}

/**
 * Does something to each of many objects: shows first what it would do (a dry run), then its progress; can be stopped.
 * `describe(row)` is a line, `summary` a sentence, `run(row)` does it.
 */
export function bulkDialog({ title, rows, describe, summary, action, run, finished }) {
  let isStopped = false;
  let isRunning = false;
  const shown = rows.slice(0, SHOWN_MAX);
  const progress = h("progress", { max: rows.length, value: 0, hidden: true, "aria-label": title });
  const status = h("p", { role: "status" }, summary);
  const faults = h("ul", { class: "faults" });
  const stop = h("button", { type: "button", class: "plain", onclick: () => { isStopped = true; if (!isRunning) dialog.close(); } }, "Cancel");
  const go = h("button", { type: "button", class: "danger" }, action);
  go.addEventListener("click", async () => {
    go.disabled = true;
    isRunning = true;
    progress.hidden = false;
    stop.textContent = "Stop";
    let [done, failed] = [0, 0];
    for (const row of rows) {
      if (isStopped) break;
      try {
        await run(row);
      } catch (error) {
        failed += 1;
        if (failed <= 20) faults.append(h("li", {}, `${describe(row)}: ${error.message}`));
        // Nobody answers, or nobody may: the rest would fail likewise.
        if (error.status === 0 || error.status === 401) isStopped = true;
      }
      done += 1;
      progress.value = done;
      fill(status, `${count(done)} of ${count(rows.length)}${failed > 0 ? `, ${count(failed)} failed` : ""}${isStopped ? "; stopped" : ""}`);
    }
    isRunning = false;
    finished?.();
    if (failed === 0 && !isStopped) {
      dialog.close();
      note(`${title}: ${count(done)} done`);
    } else {
      go.hidden = true;
      stop.textContent = "Close";
      isStopped = true;
    }
  });
  const rest = rows.length > shown.length ? h("li", {}, `and ${count(rows.length - shown.length)} more`) : null;
  const dialog = open(title, h("div", {}, status, h("ul", { class: "dry-run", tabindex: 0, "aria-label": "What it would do" }, shown.map((row) => h("li", {}, describe(row))), rest), progress, faults, h("div", { class: "buttons" }, stop, go)), "bulk-dialog");
  dialog.addEventListener("cancel", (event) => { if (isRunning) event.preventDefault(); });
}
