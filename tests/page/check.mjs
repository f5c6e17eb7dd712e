// Opens pages in Chromium and checks what a reader would stumble over.
//
// Usage:  node check.mjs PAGE.html...
// Does:   one browser, scripts switched off; widths of a phone and of a desk, and paper.
// Leaves: screenshots and PDFs in $OUT; prints `ok NAME` or `not ok NAME - why`; status 1 if anything failed.

import { readFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { inflateSync } from "node:zlib";
import { chromium } from "playwright-core";

const OUT = process.env.OUT;
const WIDTHS = [360, 768, 1280];
const PHONE = 360;
// Height of letters in a figure on a phone, in CSS pixels.
const LETTERS_MIN = 9;
// WCAG 2.1, 1.4.3 for text; 1.4.11 for what is no text.
const TEXT_CONTRAST = 4.5;
const SHAPE_CONTRAST = 3;
// A4 less its margins of 14 mm.
const PAPER_WIDTH = 688;
// What a page of a document with everything must show: the figures of the paper, and more.
const EVERY_FIGURE = [
  "latency-small", "latency-large", "latency-tail", "rate", "speed", "bandwidth", "cpu", "pairs-bandwidth", "pairs-rate", "pairs-cpu",
  "fanout-bandwidth", "fanout-rate", "fanout-deliveries", "topic-bandwidth", "topic-rate", "topic-patterns", "confirm-rate", "confirm-latency",
  "open-latency", "open-tail", "open-delivered",
];

let failures = 0;
function report(name, complaints) {
  if (complaints.length === 0) {
    console.log(`ok ${name}`);
  } else {
    failures += 1;
    console.log(`not ok ${name} - ${complaints.slice(0, 5).join("; ")}${complaints.length > 5 ? `; and ${complaints.length - 5} more` : ""}`);
  }
}

// Runs in the page: everything about its figures that can be measured.
function figures() {
  const complaints = [];
  for (const svg of document.querySelectorAll("svg.plot")) {
    const figure = svg.closest("figure")?.id ?? "a figure outside of <figure>";
    const say = (what) => complaints.push(`${figure}: ${what}`);
    const frame = svg.getBoundingClientRect();
    if (frame.width < 200 || frame.height < 60) say(`is ${frame.width} x ${frame.height} pixels`);
    const box = svg.viewBox.baseVal;
    const inside = (element, what) => {
      const its = element.getBBox();
      if (![its.x, its.y, its.width, its.height].every(Number.isFinite)) say(`${what} has no place`);
      if (its.x < -0.5 || its.y < -0.5 || its.x + its.width > box.width + 0.5 || its.y + its.height > box.height + 0.5) {
        say(`${what} leaves the figure: ${its.x.toFixed(1)} ${its.y.toFixed(1)} ${its.width.toFixed(1)} ${its.height.toFixed(1)}`);
      }
    };
    const lines = [...svg.querySelectorAll("path.line")];
    const dots = [...svg.querySelectorAll(".dot")];
    if (dots.length === 0) say("has no points");
    for (const line of lines) {
      if ((line.getAttribute("d").match(/L/g) ?? []).length < 1) say("a line of one point");
      if (!(line.getTotalLength() > 1)) say("a line without length");
      inside(line, "a line");
    }
    for (const dot of dots) inside(dot, "a point");
    for (const interval of svg.querySelectorAll(".interval")) inside(interval, "an interval");
    const texts = [...svg.querySelectorAll("text")];
    for (const text of texts) inside(text, `the text '${text.textContent}'`);
    if (texts.filter((text) => text.classList.contains("unit") && text.textContent.trim()).length < 1) say("axes have no names");
    // Texts must not cover one another. The star of an INVALID point may touch what is below it.
    const boxes = texts.filter((text) => text.textContent !== "*").map((text) => [text.textContent, text.getBBox()]);
    for (let a = 0; a < boxes.length; a++) {
      for (let b = a + 1; b < boxes.length; b++) {
        const [one, other] = [boxes[a][1], boxes[b][1]];
        const wide = Math.min(one.x + one.width, other.x + other.width) - Math.max(one.x, other.x);
        const high = Math.min(one.y + one.height, other.y + other.height) - Math.max(one.y, other.y);
        if (wide > 1 && high > 3) say(`'${boxes[a][0]}' and '${boxes[b][0]}' cover one another`);
      }
    }
    // Lines of one panel are told apart by more than their colour.
    const looks = lines.map((line) => line.getAttribute("stroke-dasharray") ?? "");
    const shapes = dots.map((dot) => dot.tagName + (dot.getAttribute("points") ?? "").split(" ").length);
    if (lines.length > 1 && new Set(looks).size === 1 && new Set(shapes).size === 1) say("lines differ in colour alone");
  }
  for (const figure of document.querySelectorAll("figure")) {
    if (!figure.querySelector("svg.plot")) complaints.push(`${figure.id}: nothing is drawn`);
    if (!(figure.querySelector("figcaption")?.textContent ?? "").match(/loop/i)) complaints.push(`${figure.id}: does not say which loop`);
    if (figure.querySelectorAll("details tbody tr").length === 0) complaints.push(`${figure.id}: has no table`);
  }
  if (document.querySelectorAll("figure").length === 0) complaints.push("there is no figure");
  return complaints;
}

// Runs in the page: text and shapes whose contrast with what is behind them is too low.
function contrasts([textMin, shapeMin]) {
  const parse = (text) => {
    const numbers = (text.match(/[\d.]+/g) ?? []).map(Number);
    return { rgb: numbers.slice(0, 3), alpha: numbers.length > 3 ? numbers[3] : 1 };
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.alpha > 0) return colour.rgb;
    }
    return [255, 255, 255];
  };
  const complaints = [];
  let texts = 0;
  for (const element of document.querySelectorAll("body *")) {
    const style = getComputedStyle(element);
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const drawn = element.closest("svg") !== null;
    if (own && !["title", "desc", "style"].includes(element.tagName)) {
      texts += 1;
      const found = ratio(parse(drawn ? style.fill : style.color).rgb, ground(element));
      if (found < textMin) complaints.push(`'${element.textContent.trim().slice(0, 30)}' ${found.toFixed(2)}`);
    } else if (drawn && element.matches(".line, .dot")) {
      const found = ratio(parse(style.stroke).rgb, ground(element));
      if (found < shapeMin) complaints.push(`a line or point in ${element.closest("figure")?.id} ${found.toFixed(2)}`);
    }
  }
  if (texts < 20) complaints.push(`only ${texts} texts`);
  return complaints;
}

// Runs in the page: what makes it wider than the window.
function overflow() {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const wide = [...document.querySelectorAll("body *")].filter((element) => {
    return !element.closest(".wide table") && element.getBoundingClientRect().right > width + 1;
  });
  return [`${document.documentElement.scrollWidth} pixels in a window of ${width}`, ...wide.slice(0, 3).map((element) => `<${element.tagName.toLowerCase()}> ${element.textContent.slice(0, 40)}`)];
}

// Runs in the page: letters of figures that are too small to read.
function letters(least) {
  const complaints = [];
  for (const text of document.querySelectorAll("svg.plot text")) {
    const size = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
    if (size < least) complaints.push(`${text.closest("figure")?.id}: '${text.textContent}' is ${size.toFixed(1)} pixels high`);
  }
  return complaints;
}

// Runs in the page: whether the tree is drawn, everything of it within its picture, and no two nodes touch.
function drawn() {
  const svg = document.querySelector("svg.tree");
  if (!svg) return ["there is no tree"];
  const complaints = [];
  const box = svg.viewBox.baseVal;
  const rings = [...svg.querySelectorAll(".ring")].map((ring) => ring.getBBox());
  if (rings.length < 2 || svg.querySelectorAll(".way").length !== rings.length) complaints.push(`${rings.length} nodes, ${svg.querySelectorAll(".way").length} links`);
  for (const element of svg.querySelectorAll(".ring, .way, text")) {
    const its = element.getBBox();
    if (its.x < 0 || its.y < 0 || its.x + its.width > box.width || its.y + its.height > box.height) complaints.push(`${element.tagName} '${element.textContent}' leaves the picture`);
  }
  rings.forEach((one, at) => rings.slice(at + 1).forEach((other) => {
    if (Math.hypot(one.x - other.x, one.y - other.y) < (one.width + other.width) / 2) complaints.push("two nodes touch");
  }));
  return complaints;
}

// Whether what moves does so without a script, stops when it is told to, and rests for those who want no motion.
async function moves(page) {
  const running = (state) => page.evaluate((state) => document.getAnimations().filter((one) => one.playState === state).length, state);
  const complaints = [];
  const all = await running("running");
  if (all < 3) complaints.push(`${all} things move`);
  await page.check("#pause");
  if ((await running("paused")) !== all) complaints.push("something goes on when it is paused");
  await page.uncheck("#pause");
  await page.emulateMedia({ reducedMotion: "reduce" });
  if ((await running("running")) + (await running("paused")) !== 0) complaints.push("something moves where no motion is wanted");
  await page.emulateMedia({ reducedMotion: null });
  return complaints;
}

const openAll = (page, open) => page.evaluate((open) => document.querySelectorAll("details").forEach((one) => { one.open = open; }), open);

// Pages of a PDF, and how many of its streams draw text.
function paper(pdf) {
  const bytes = pdf.toString("latin1");
  const pages = (bytes.match(/\/Type\s*\/Page\b(?!s)/g) ?? []).length;
  let written = 0;
  for (const match of bytes.matchAll(/stream\r?\n/g)) {
    const from = match.index + match[0].length;
    const to = bytes.indexOf("endstream", from);
    try {
      if (/\bT[jJ]\b/.test(inflateSync(pdf.subarray(from, to)).toString("latin1"))) written += 1;
    } catch {
      // Fonts and the like are packed in other ways; they draw nothing.
    }
  }
  return { pages, written };
}

async function check(browser, file) {
  const name = basename(file, ".html");
  const url = pathToFileURL(resolve(file)).href;
  const source = readFileSync(file, "utf8");
  report(`${name}-self-contained`, [...source.matchAll(/<script|<iframe|<img|@import|url\(|(?:src|href)="(?!#|data:)[^"]*"/g)].map((match) => match[0]));

  const [errors, requests] = [[], []];
  const watch = (page) => {
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("request", (request) => request.url() !== url && !request.url().startsWith("data:") && requests.push(request.url()));
    return page;
  };
  // Once as anybody would open it; then everything is looked at with scripts switched off.
  const usual = watch(await browser.newPage());
  await usual.goto(url, { waitUntil: "load" });
  await usual.close();
  const context = await browser.newContext({ javaScriptEnabled: false, viewport: { width: 1280, height: 900 } });
  const page = watch(await context.newPage());
  await page.goto(url, { waitUntil: "load" });

  const missing = await page.evaluate(() => [...document.querySelectorAll("nav a")].filter((link) => !document.getElementById(link.hash.slice(1))).map((link) => link.hash));
  report(`${name}-contents`, missing.map((hash) => `${hash} leads nowhere`));
  if (name === "made-up") {
    const found = await page.evaluate(() => [...document.querySelectorAll("figure")].map((figure) => figure.id));
    report(`${name}-every-figure`, EVERY_FIGURE.filter((id) => !found.includes(id)).map((id) => `${id} is missing`));
    const marked = await page.evaluate(() => document.querySelectorAll("figure .invalid li").length);
    report(`${name}-invalid`, marked > 0 ? [] : ["no mark says INVALID"]);
  }
  if (name.startsWith("simulated")) {
    report(`${name}-tree`, await page.evaluate(drawn));
    report(`${name}-moves`, await moves(page));
  }
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    const closed = await page.evaluate(overflow);
    await page.screenshot({ path: `${OUT}/${name}-${width}.png`, clip: { x: 0, y: 0, width, height: 5000 }, fullPage: true });
    await openAll(page, true);
    report(`${name}-no-overflow-${width}`, [...closed, ...(await page.evaluate(overflow))]);
    report(`${name}-figures-${width}`, await page.evaluate(figures));
    if (width === PHONE) report(`${name}-letters-${width}`, await page.evaluate(letters, LETTERS_MIN));
    if (width === 1280) report(`${name}-contrast`, await page.evaluate(contrasts, [TEXT_CONTRAST, SHAPE_CONTRAST]));
    await openAll(page, false);
  }

  await page.emulateMedia({ media: "print" });
  await page.setViewportSize({ width: PAPER_WIDTH, height: 900 });
  const hidden = await page.evaluate(() => [...document.querySelectorAll("figure")].filter((figure) => !figure.querySelector("td")?.checkVisibility()).map((figure) => `${figure.id}: its table is not printed`));
  const clipped = await page.evaluate((width) => [...document.querySelectorAll("figure table")].filter((table) => table.getBoundingClientRect().right > width + 1).map((table) => `${table.closest("figure").id}: its table is ${Math.round(table.getBoundingClientRect().right)} wide, paper ${width}`), PAPER_WIDTH);
  report(`${name}-paper-tables`, [...hidden, ...clipped]);
  const { pages, written } = paper(await page.pdf({ path: `${OUT}/${name}.pdf`, format: "A4", preferCSSPageSize: true, printBackground: true }));
  report(`${name}-paper`, pages > 0 && written >= pages ? [] : [`${pages} pages, ${written} with text`]);

  report(`${name}-console`, errors);
  report(`${name}-no-requests`, requests);
  await context.close();
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
try {
  for (const file of process.argv.slice(2)) await check(browser, file);
} finally {
  await browser.close();
}
process.exitCode = failures === 0 ? 0 : 1;
