// Shows what the server is doing; polls once a second while the page is visible.
import { byId, h, reportStart } from "../base/dom.js";
import { getJson, onKeyNeeded } from "../client/api.js";
import { askForKey } from "../client/key_dialog.js";
import { Chart } from "./chart.js";
import { plainReason, sentences } from "./summary.js";

const kIntervalMs = 1000;

const whole = (number) => Math.round(number).toLocaleString("en");
const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
const milliseconds = (seconds) => `${(1000 * seconds).toPrecision(3)} ms`;
const share = (part, all) => (all > 0 ? part / all : 0);

function bytesText(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; bytes >= 999.5 && unit + 1 < units.length; ++unit) bytes /= 1000;
  return `${bytes.toFixed(unit === 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2)} ${units[unit]}`;
}

const charts = {
  speed: new Chart("Tokens per second", ["answers", "prompts"], whole),
  sequences: new Chart("Answers", ["running", "waiting"], whole),
  pages: new Chart("Pages of the KV cache in use", ["full layers", "sliding"], percent, 1),
  steps: new Chart("Step time", [""], milliseconds),
  rows: new Chart("Rows per step", [""], whole),
  hits: new Chart("Prefix cache hits", [""], percent, 1),
};
byId("charts").append(...Object.values(charts).map((chart) => chart.element));

// Draws what happened between two polls.
function draw(engine, before, seconds) {
  const since = (name) => engine[name] - before[name];
  const hasSteps = since("steps") > 0, hasPrompts = since("prompt_tokens") > 0;
  charts.speed.add([since("generated_tokens") / seconds, (since("prompt_tokens") - since("cached_tokens")) / seconds]);
  charts.sequences.add([engine.running, engine.waiting]);
  charts.pages.add(["full", "sliding"].map((kind) => share(engine.pages.held[kind], engine.pages.all)));
  charts.steps.add([hasSteps ? since("step_seconds") / since("steps") : undefined]);
  charts.rows.add([hasSteps ? since("step_rows") / since("steps") : undefined]);
  charts.hits.add([hasPrompts ? since("cached_tokens") / since("prompt_tokens") : undefined]);
}

function showNow(engine) {
  const pages = (held) => `${whole(held)} of ${whole(engine.pages.all)}`;
  const facts = {
    "running": whole(engine.running),
    "waiting": whole(engine.waiting),
    "pages, full layers": pages(engine.pages.held.full),
    "pages, sliding layers": pages(engine.pages.held.sliding),
    "tokens per page": whole(engine.page_tokens),
    "prefix cache hits": percent(share(engine.cached_tokens, engine.prompt_tokens)),
    "prompt tokens": whole(engine.prompt_tokens),
    "generated tokens": whole(engine.generated_tokens),
    "steps": whole(engine.steps),
    "preemptions": whole(engine.preemptions),
    "faults": whole(engine.faults),
  };
  byId("now").replaceChildren(...Object.entries(facts).map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

const cell = (text, side) => h("td", { class: side }, text);
const fill = (id, rows) => byId(id).querySelector("tbody").replaceChildren(...rows);

function showAnswers(answers) {
  byId("no-answers").hidden = answers.length > 0;
  byId("answers").hidden = answers.length === 0;
  fill("answers", answers.map(({ seconds, tokens }) =>
    h("tr", {}, cell(seconds.toFixed(1), "right"), cell(whole(tokens), "right"))));
}

const kStages = ["tokenised", "queued", "first_kernel", "first_token", "first_byte", "last_token", "end"];

function showRequests(requests) {
  fill("requests", requests.map((request) => {
    const counts = ["status", "prompt_tokens", "cached_tokens", "output_tokens"].map((name) => whole(request[name]));
    const times = kStages.map((name) => request.seconds[name] === null ? "" : (1000 * request.seconds[name]).toFixed(1));
    return h("tr", {}, ...[...counts, ...times].map((text) => cell(text, "right")));
  }));
}

// The setup does not change while the server runs.
let hasSetup = false;
function showSetup(setup) {
  if (hasSetup) return;
  hasSetup = true;
  const planned = setup.memory.reduce((sum, { bytes }) => sum + bytes, 0);
  const parts = [...setup.memory, { what: "total", bytes: planned },
    { what: "left free at the start", bytes: Math.max(setup.memory_budget - planned, 0) }];
  fill("memory", parts.map(({ what, bytes }) => h("tr", {}, cell(what), cell(bytesText(bytes), "right"))));
  fill("kernels", setup.kernels.map((row) =>
    h("tr", {}, ...["operation", "weights", "activations", "rows", "kernel"].map((name) => cell(row[name])), cell(plainReason(row.reason)))));
}

let before = null, beforeMs = 0;
async function poll() {
  try {
    const status = await getJson("status.json");
    const { model, version, state, max_context, engine, answers, requests, setup } = status;
    byId("fault").textContent = "";
    byId("summary").replaceChildren(...sentences(status).map((text) => h("li", {}, text)));
    byId("model").textContent = engine
      ? `${model}, ${state}; ${setup.backend}: ${setup.device}; up to ${whole(max_context)} tokens; version ${version}`
      : `${model}, ${state}`;
    if (engine) {
      const nowMs = performance.now();
      if (before) draw(engine, before, (nowMs - beforeMs) / 1000);
      [before, beforeMs] = [engine, nowMs];
      showNow(engine);
      showAnswers(answers);
      showRequests(requests);
      showSetup(setup);
    }
  } catch (error) {
    byId("fault").textContent = error.message;
    byId("summary").replaceChildren();  // what it says may be over
    before = null;  // the server may have restarted
  }
  setTimeout(next, kIntervalMs);
}

function next() {
  if (!document.hidden) return poll();
  before = null;
  document.addEventListener("visibilitychange", next, { once: true });
}

reportStart();
onKeyNeeded(askForKey);
poll();
