// The page for people: texts in, labels with probabilities out. Whatever came from outside is set as textContent.
"use strict";

const CHUNK_TEXTS = 50; // of a request: the first results show soon
const SHOWN_ROWS = 200;
const GOLDEN_DEGREES = 137.508; // neighbouring labels get hues far apart
const by = (id) => document.getElementById(id);

let table = null; // {columns, rows} of an opened file
let results = []; // {text, found, probs} of every text, in order; found are the labels it gets
let labels = [];
let thresholds = null; // of a model that gives any number of labels: the probabilities above which it does

function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text ?? "";
  return made;
}

function hued(made, label) {
  made.style.setProperty("--hue", Math.round(labels.indexOf(label) * GOLDEN_DEGREES) % 360);
  return made;
}

function say(message, wrong = false) {
  by("status").textContent = message;
  by("status").classList.toggle("wrong", wrong);
}

async function call(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (by("key").value) headers.Authorization = `Bearer ${by("key").value}`;
  const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  const document = await answer.json();
  if (answer.status === 401) by("access").open = true;
  if (!answer.ok) throw new Error(document.error.message ?? `${document.error.what}: ${document.error.hint}`);
  return document;
}

// Cells of a CSV text: quotes double inside quotes, and may hold line ends.
function parseCsv(text, delimiter) {
  const rows = [[]];
  let cell = "", quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') { cell += c; i++; }
      else quoted = false;
    } else if (c === '"' && !cell) quoted = true;
    else if (c === delimiter) { rows.at(-1).push(cell); cell = ""; }
    else if (c === "\n") { rows.at(-1).push(cell.replace(/\r$/, "")); cell = ""; rows.push([]); }
    else cell += c;
  }
  rows.at(-1).push(cell);
  return rows.filter((row) => row.some((value) => value.trim()));
}

function decode(bytes) {
  try { return new TextDecoder("utf-8", { fatal: true }).decode(bytes); }
  catch { return new TextDecoder("gb18030").decode(bytes); } // what spreadsheets save Chinese in
}

async function open(file) {
  const text = decode(await file.arrayBuffer());
  if (!/\.(csv|tsv)$/i.test(file.name)) {
    by("texts").value = text;
    return;
  }
  const head = text.split("\n", 1)[0];
  const [delimiter] = [",", ";", "\t"].sort((a, b) => head.split(b).length - head.split(a).length);
  const [columns, ...rows] = parseCsv(text, delimiter);
  if (!rows.length) { say(`${file.name} has no rows below its header`, true); return; }
  table = { columns, rows };
  by("column").replaceChildren(...columns.map((name, i) => new Option(name, i)));
  const characters = columns.map((_, i) => rows.reduce((sum, row) => sum + (row[i] ?? "").length, 0));
  const named = columns.findIndex((name) => /^(text|content|review|sentence|文本|内容|评论)$/i.test(name.trim()));
  by("column").value = named >= 0 ? named : characters.indexOf(Math.max(...characters));
  by("loaded").textContent = `${rows.length} rows of ${file.name}`;
  by("columns").hidden = false;
  by("texts").disabled = true;
  by("submit").focus();
}

function discard() {
  table = null;
  by("columns").hidden = true;
  by("texts").disabled = false;
  by("file").value = "";
  by("texts").focus();
}

// The texts to label: a column, or lines; texts of several turns, each a line, stand apart by a blank line.
function given(turns) {
  if (table) return table.rows.map((row) => row[by("column").value] ?? "").filter((text) => text.trim());
  return by("texts").value.split(turns > 1 ? /\n\s*\n/ : "\n").map((text) => text.trim()).filter(Boolean);
}

async function classify() {
  by("submit").disabled = true;
  results = [];
  try {
    await listed;
    const model = by("model").value;
    const about = (await call("/info")).models[model];
    const texts = given(about.turns);
    if (!texts.length) { say("Write a text first, or open a file.", true); by("texts").focus(); return; }
    ({ labels, thresholds } = about);
    for (let begin = 0; begin < texts.length; begin += CHUNK_TEXTS) {
      const input = texts.slice(begin, begin + CHUNK_TEXTS);
      say(`${begin} of ${texts.length} texts`);
      const { data } = await call("/v1/classify", { model, input });
      results.push(...data.map(({ index, label, probs }) => ({ text: input[index], found: foundIn(label, probs), probs })));
      show();
    }
    say(`${results.length} ${results.length === 1 ? "text" : "texts"} classified`);
  } catch (error) {
    say(error.message, true);
  } finally {
    by("submit").disabled = false;
  }
}

const foundIn = (label, probs) => (thresholds ? labels.filter((name, i) => probs[i] > thresholds[name]) : [label]);

// As `predict` has it: the probability of the label, or that of the least sure of the decisions on each.
function confidence({ found, probs }) {
  if (!thresholds) return Math.max(...probs);
  return Math.min(...labels.map((name, i) => (found.includes(name) ? probs[i] : 1 - probs[i])));
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

function rowOf({ text, found, probs }) {
  const row = element("li", ""), verdict = element("p", "row"), scores = element("div", "scores");
  found.forEach((label) => {
    const share = percent(probs[labels.indexOf(label)]);
    verdict.append(hued(element("span", "chip", label), label), element("span", "note", share));
  });
  if (!found.length) verdict.append(element("span", "note", "no label"));
  labels.map((name, i) => [name, probs[i]]).sort((a, b) => b[1] - a[1]).forEach(([name, share]) => {
    const meter = hued(document.createElement("meter"), name);
    meter.value = share;
    meter.setAttribute("aria-label", name);
    scores.append(element("span", "", name), meter, element("span", "number", percent(share)));
  });
  row.append(element("p", "text", text), verdict, scores);
  return row;
}

function show() {
  by("results").hidden = false;
  by("rows").replaceChildren(...results.slice(0, SHOWN_ROWS).map(rowOf));
  const counts = labels.map((label) => [label, results.filter((row) => row.found.includes(label)).length]);
  by("summary").replaceChildren(...counts.map(([label, n]) => hued(element("span", "chip", `${label}: ${n}`), label)));
  const more = results.length - SHOWN_ROWS;
  by("more").textContent = more > 0 ? `and ${more} more, which the download holds` : "";
}

// A cell that a spreadsheet would run as a formula gets an apostrophe, as in files that predict writes.
function csvCell(value) {
  const text = typeof value === "string" && /^'*[=+\-@\t\r\n＝＋－＠]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function download() {
  const header = ["text", thresholds ? "labels" : "label", "confidence", ...labels.map((label) => `score_${label}`)];
  const said = ({ found }) => (thresholds ? JSON.stringify(found) : found[0]);
  const rows = results.map((row) => [row.text, said(row), confidence(row), ...row.probs]);
  const csv = [header, ...rows].map((row) => row.map(csvCell).join(",")).join("\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", csv, "\n"], { type: "text/csv" })); // the mark tells Excel: UTF-8
  link.download = "predictions.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

let listed; // the answer about models that is awaited, which says and chooses before anything is asked of one

async function listModels() {
  try {
    const { data } = await call("/v1/models");
    by("model").replaceChildren(...data.map(({ id }) => new Option(id, id)));
    by("model").hidden = data.length < 2;
    say("");
  } catch (error) {
    say(error.message, true);
  }
}

by("ask").addEventListener("submit", (event) => { event.preventDefault(); classify(); });
by("texts").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) by("ask").requestSubmit();
});
by("file").addEventListener("change", () => by("file").files.length && open(by("file").files[0]));
by("discard").addEventListener("click", discard);
by("download").addEventListener("click", download);
by("key").addEventListener("change", () => { listed = listModels(); });
for (const [name, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  by("drop").addEventListener(name, (event) => {
    event.preventDefault();
    by("drop").classList.toggle("over", over);
    if (name === "drop" && event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });
}
listed = listModels();
