// A long list of the API: only the rows in sight are asked for and are in the document.
//
// Owns:  pages of rows as the broker sorts and filters them, which are asked for again while they are in sight; the selection.

import { ApiError, get } from "./api.js";
import { at, count, fill, h, visible } from "./dom.js";

const PAGE_ROWS = 100;
const ROW_HEIGHT = 34;
const ROWS_BEYOND = 12;
const PAGES_KEPT = 12;

export class Table {
  /**
   * `path(parameters)` of the list; `columns` of `{name, field, sort, show(row), class}`, `sort` where the broker can;
   * `fields`: all that is asked of a row; `key(row)`; `link(row)`; `parameters`: of the address; `change(parameters)` when the
   * reader sorts or filters; `bulk`: actions on a selection, `{name, run(rows, table)}`; `empty`: what to say of no rows.
   */
  constructor(options) {
    this.options = options;
    this.pages = new Map();
    this.selected = new Map();
    this.total = 0;
    this.filtered = 0;
    this.generation = 0;
    this.body = h("tbody");
    this.head = h("thead");
    this.counts = h("span", { class: "counts", role: "status" });
    this.fault = h("p", { class: "fault", hidden: true, role: "alert" });
    this.table = h("table", { class: "list", "aria-label": options.label }, this.head, this.body);
    this.empty = h("p", { class: "empty" });
    this.scroller = h("div", { class: "scroller", tabindex: 0, "aria-label": `${options.label}, rows` }, this.table, this.empty);
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.search = h("input", {
      type: "search", class: "filter", placeholder: options.filter ?? "Filter by name", "aria-label": "Filter by name", "data-key": "filter",
      value: options.parameters.name ?? "", oninput: () => this.typed(),
    });
    this.regex = h("input", { type: "checkbox", checked: options.parameters.regex === "true", onchange: () => this.typed() });
    this.bar = h("div", { class: "bulk", hidden: true });
    this.element = h("section", { class: "table" },
      h("div", { class: "toolbar" }, this.search, h("label", { class: "check" }, this.regex, "Regex"), this.counts, options.tools ?? []),
      this.bar, this.fault, this.scroller);
    this.drawHead();
  }

  get parameters() {
    return this.options.parameters;
  }

  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.change({ name: this.search.value, regex: this.regex.checked ? "true" : "" }), 200);
  }

  change(parameters) {
    Object.assign(this.parameters, parameters);
    this.options.change(this.parameters);
    this.scroller.scrollTop = 0;
    this.forget();
    this.drawHead();
    return this.refresh();
  }

  forget() {
    this.generation += 1;
    this.pages.clear();
  }

  drawHead() {
    const { columns, bulk } = this.options;
    const { sort, reverse } = this.parameters;
    const all = h("input", { type: "checkbox", "aria-label": "Select all rows that are loaded", onchange: (event) => this.selectLoaded(event.target.checked) });
    const cells = columns.map((column) => {
      const isSorted = column.sort !== undefined && column.sort === (sort || this.options.sort);
      const order = isSorted ? (reverse === "true" ? "descending" : "ascending") : null;
      const mark = order === null ? "" : order === "ascending" ? " ▲" : " ▼";
      const label = column.sort === undefined ? column.name
        : h("button", { type: "button", class: "sort", onclick: () => this.sortBy(column, isSorted) }, column.name, h("span", { "aria-hidden": "true" }, mark));
      return h("th", { scope: "col", class: column.class, "aria-sort": order }, label);
    });
    fill(this.head, h("tr", {}, bulk ? h("th", { class: "pick" }, all) : null, cells));
  }

  sortBy(column, isSorted) {
    // Numbers are looked at from the largest down.
    const isNumber = (column.class ?? "").includes("number");
    const reverse = isSorted ? this.parameters.reverse !== "true" : isNumber;
    return this.change({ sort: column.sort, reverse: String(reverse) });
  }

  request(page) {
    const { name, regex, sort, reverse } = this.parameters;
    return {
      page, page_size: PAGE_ROWS, name, use_regex: name && regex === "true" ? "true" : undefined,
      sort, sort_reverse: reverse === "true" ? "true" : undefined,
      columns: this.options.fields?.join(","), pagination: "true",
    };
  }

  inSight() {
    const first = Math.floor(this.scroller.scrollTop / ROW_HEIGHT);
    const rows = Math.ceil((this.scroller.clientHeight || 600) / ROW_HEIGHT);
    return [Math.max(0, first - ROWS_BEYOND), first + rows + ROWS_BEYOND];
  }

  pagesInSight() {
    const [begin, end] = this.inSight();
    const last = Math.max(1, Math.ceil(this.filtered / PAGE_ROWS));
    const pages = [];
    for (let page = Math.floor(begin / PAGE_ROWS) + 1; page <= Math.min(last, Math.ceil(end / PAGE_ROWS)); page += 1) pages.push(page);
    return pages.length === 0 ? [1] : pages;
  }

  /** Asks again for what is in sight. */
  async refresh() {
    const generation = this.generation;
    try {
      for (const page of this.pagesInSight()) {
        await this.load(page, generation);
        if (generation !== this.generation) return;
      }
      this.fault.hidden = true;
    } catch (error) {
      if (generation !== this.generation) return;
      if (error instanceof ApiError && error.status === 400 && error.message.startsWith("Page out of range")) {
        // The list has become shorter.
        this.forget();
        this.filtered = 0;
        this.scroller.scrollTop = 0;
        await this.load(1, this.generation);
      } else {
        this.fault.hidden = false;
        fill(this.fault, error.message);
      }
    }
    this.draw();
  }

  async load(page, generation) {
    const answer = await get(this.options.path(this.parameters), this.request(page));
    if (generation !== this.generation) return;
    if (Array.isArray(answer)) throw new Error("the broker gave a list without pages");
    this.total = answer.total_count;
    this.filtered = answer.filtered_count;
    this.pages.delete(page);
    this.pages.set(page, answer.items);
    while (this.pages.size > PAGES_KEPT) this.pages.delete(this.pages.keys().next().value);
    this.draw();
  }

  scrolled() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
      const isMissing = this.pagesInSight().some((page) => !this.pages.has(page));
      if (isMissing && !this.loading) {
        this.loading = this.refresh().finally(() => {
          this.loading = null;
          if (this.pagesInSight().some((page) => !this.pages.has(page)) && this.fault.hidden) this.scrolled();
        });
      }
    });
  }

  row(index) {
    return this.pages.get(Math.floor(index / PAGE_ROWS) + 1)?.[index % PAGE_ROWS];
  }

  draw() {
    const { columns, bulk, key } = this.options;
    const [begin, end] = this.inSight();
    const last = Math.min(end, this.filtered);
    const spacer = (rows) => {
      const row = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td"));
      row.style.height = `${rows * ROW_HEIGHT}px`;
      return row;
    };
    const focused = document.activeElement?.closest?.("tr")?.dataset.row;
    const isPick = document.activeElement?.type === "checkbox";
    const rows = [spacer(Math.min(begin, this.filtered))];
    for (let index = begin; index < last; index += 1) rows.push(this.drawRow(index, columns, bulk, key));
    rows.push(spacer(Math.max(0, this.filtered - last)));
    // Not a row: one that spans columns would make room for those that a phone does not show.
    this.empty.hidden = this.filtered > 0;
    fill(this.empty, this.pages.size === 0 ? "Loading…" : this.total > 0 ? "No row has such a name." : this.options.empty);
    this.body.replaceChildren(...rows);
    this.table.setAttribute("aria-rowcount", String(this.filtered + 1));
    if (focused !== undefined) {
      const again = this.body.querySelector(`tr[data-row="${CSS.escape(focused)}"]`);
      again?.querySelector(isPick ? "input" : "a, button")?.focus({ preventScroll: true });
    }
    const { filtered, total } = this;
    const noun = this.options.label.toLowerCase();
    fill(this.counts, filtered === total ? `${count(total)} ${noun}` : `${count(filtered)} of ${count(total)} ${noun}`);
    this.drawBulk();
  }

  drawRow(index, columns, bulk, key) {
    const row = this.row(index);
    if (row === undefined) return h("tr", { class: "waiting", "aria-rowindex": index + 2 }, h("td", { class: "name" }, "…"));
    const id = key(row);
    const isSelected = this.selected.has(id);
    const cells = columns.map((column) => {
      const value = column.show ? column.show(row) : visible(at(row, column.field) ?? "–");
      return h("td", { class: column.class }, value);
    });
    const pick = bulk && h("td", { class: "pick" }, h("input", {
      type: "checkbox", checked: isSelected, "aria-label": `Select ${visible(row.name ?? id)}`,
      onchange: (event) => this.select(id, row, event.target.checked),
    }));
    return h("tr", { class: isSelected ? "selected" : null, "aria-rowindex": index + 2, "data-row": id }, pick, cells);
  }

  select(id, row, isSelected) {
    if (isSelected) this.selected.set(id, row);
    else this.selected.delete(id);
    this.draw();
  }

  selectLoaded(isSelected) {
    for (const rows of this.pages.values()) {
      for (const row of rows) {
        if (isSelected) this.selected.set(this.options.key(row), row);
        else this.selected.delete(this.options.key(row));
      }
    }
    this.draw();
  }

  /** All rows that the filter takes, page by page; tells how far it has come. */
  async all(limit, progress) {
    const rows = [];
    for (let page = 1; ; page += 1) {
      const answer = await get(this.options.path(this.parameters), { ...this.request(page), page_size: 500, sort: undefined, sort_reverse: undefined });
      rows.push(...answer.items);
      progress?.(rows.length, answer.filtered_count);
      if (page >= answer.page_count || rows.length >= limit) return rows.slice(0, limit);
    }
  }

  async selectAll(button) {
    button.disabled = true;
    try {
      for (const row of await this.all(100_000, (done, total) => fill(button, `${count(done)} of ${count(total)}…`))) {
        this.selected.set(this.options.key(row), row);
      }
    } catch (error) {
      this.fault.hidden = false;
      fill(this.fault, error.message);
    }
    this.drawBulk(true);
    this.draw();
  }

  drawBulk(isAnew = false) {
    const { bulk } = this.options;
    if (!bulk) return;
    const { size } = this.selected;
    const mark = `${size} ${this.filtered}`;
    if (this.bulkMark === mark && !isAnew) return;
    this.bulkMark = mark;
    this.bar.hidden = size === 0;
    if (size === 0) return fill(this.bar);
    const rest = this.filtered > size
      ? h("button", { type: "button", onclick: (event) => this.selectAll(event.target) }, `Select all ${count(this.filtered)} that match`) : null;
    fill(this.bar, h("strong", {}, `${count(size)} selected`), rest,
      bulk.map(({ name, danger, run }) => h("button", { type: "button", class: danger ? "danger" : null, onclick: () => run([...this.selected.values()], this) }, name)),
      h("button", { type: "button", class: "plain", onclick: () => { this.selected.clear(); this.draw(); } }, "Clear"));
  }

  dispose() {
    clearTimeout(this.typing);
    this.forget();
  }
}
