// Shows one message of a conversation.
import { copyText, h, notify, say } from "../base/dom.js";
import { iconButton, setIcon } from "../base/icons.js";
import { indented } from "../base/indented.js";
import { local } from "../base/web_storage.js";
import { codeBlock } from "../reading/code.js";
import { renderMarkdown } from "../reading/markdown.js";
import { forgetUnsent, keepUnsent, unsentText } from "../storage/unsent.js";
import { outcome, reasoningTitle, statistics, waitText } from "./answer.js";

/**
 * @typedef {import("../storage/message.js").Message} Message
 * @typedef {import("../storage/message.js").Call} Call
 *
 * @typedef {object} TurnState  the rest of what a turn shows; an action that is not possible now is undefined
 * @property {boolean} isRunning
 * @property {boolean} isElsewhere  another tab receives it
 * @property {number} version       of the message, from 0
 * @property {number} numVersions
 * @property {string} [failure]     why the last attempt at an answer failed
 * @property {(step: number) => void} showVersion
 * @property {(text: string) => void} [edit]
 * @property {() => void} [retry]
 * @property {() => void} [goOn]    continues an answer that was cut off
 * @property {HTMLElement} [activity]  what the answer waits for: permission for a call, the end of a tool
 * @property {Call[]} [openCalls]   calls of this message that have no result
 * @property {(results: {tool_call_id: string, name: string, content: string}[]) => void} [sendResults]
 * @property {() => void} [run]     lets the page run the open calls that it can run
 */

// Answers whose reasoning the user has opened or closed; it stays so when they are drawn again.
/** @type {Map<string, boolean>} */
const folds = new Map();

// Whether statistics are shown: as the user left those of another answer.
const kNumbersItem = "nibble.statistics";

// A field whose unsent text survives a switch to another version or conversation, a reload, and the end of the tab.
function unsentField(id, chat, text, properties) {
  const field = h("textarea", { dir: "auto", ...properties });
  field.value = unsentText(id) ?? text;
  field.addEventListener("input", () => keepUnsent(id, chat, field.value));
  return field;
}

const kNames = { user: "You", assistant: "Answer", tool: "Tool result" };

/**
 * Returns the element, and update(), which redraws the message.
 * @param {Message} message
 * @returns {{element: HTMLElement, update: (state: TurnState) => void}}
 */
export function showTurn(message) {
  const element = h("article", { class: `turn ${message.role}` }, h("h2", { class: message.role === "tool" ? undefined : "off-screen" }, kNames[message.role]));
  if (message.role === "tool" && message.name) element.firstChild.append(": ", h("code", {}, message.name));
  if (message.role === "assistant") return showAnswer(element, message);
  let state = /** @type {TurnState | null} */ (null);
  const edit = iconButton("edit", "Edit this message", { class: "edit", onclick: () => beginEdit(element, message, () => state.edit) });
  const versions = showVersions("message");
  const tools = h("div", { class: "tools actions" }, copyIcon(message, "Copy this message"), edit);
  element.append(h("div", { class: "said", dir: "auto", tabindex: message.role === "tool" ? "0" : undefined }, message.content),
    h("div", { class: "tools" }, tools, versions.element));
  if (unsentText(message.id) !== null) beginEdit(element, message, () => state?.edit);
  return {
    element,
    update(changed) {
      state = changed;
      edit.hidden = !state.edit;
      edits.get(element)?.();
      versions.update(state);
    },
  };
}

// Does not touch the page if nothing changes: a long conversation has thousands of these.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @param {Message} message @param {string} label */
function copyIcon(message, label) {
  const button = iconButton("copy", label, { class: "copy" });
  button.addEventListener("click", async () => {
    try {
      await copyText(message.content);
      notify("copy", "");
    } catch (error) {
      return notify("copy", `Not copied: ${error.message}.`);
    }
    setIcon(button, "done", "Copied");
    say("Copied");
    setTimeout(() => setIcon(button, "copy", label), 2000);
  });
  return button;
}

// Shows "‹ 2/3 ›" if a message has several versions.
function showVersions(what) {
  let state = /** @type {TurnState | null} */ (null);
  const step = (label, text, by) =>
    h("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick: () => state.showVersion(by) }, text);
  const previous = step(`Previous version of this ${what}`, "‹", -1), next = step(`Next version of this ${what}`, "›", 1);
  const count = h("span", {});
  const name = h("span", { class: "off-screen" });
  const element = h("div", { class: "versions", role: "group", "aria-label": `Versions of this ${what}` }, previous, h("span", {}, name, count), next);
  count.setAttribute("aria-hidden", "true");
  return {
    element,
    update(changed) {
      state = changed;
      const { version, numVersions } = state;
      element.hidden = numVersions < 2;
      setText(name, `Version ${version + 1} of ${numVersions}`);
      setText(count, `${version + 1}/${numVersions}`);
      previous.disabled = version === 0;
      next.disabled = version === numVersions - 1;
    },
  };
}

/** Updates of the edits that are open, by the elements of their messages.
 * @type {WeakMap<HTMLElement, () => void>} */
const edits = new WeakMap();

/** @param {HTMLElement} element @param {Message} message @param {() => ((text: string) => void) | undefined} currentEdit  undefined
 *   while an answer is received */
function beginEdit(element, message, currentEdit) {
  const before = [...element.childNodes];
  const isAnswer = message.role === "assistant";
  const rows = String(Math.min(20, Math.max(4, message.content.split("\n").length)));
  const field = unsentField(message.id, message.chat, message.content, { "aria-label": isAnswer ? "Edit this answer" : "Edit your message", rows });
  const end = () => {
    edits.delete(element);
    forgetUnsent(message.id);
    element.replaceChildren(...before);
    /** @type {HTMLElement} */ (element.querySelector(".edit")).focus();
  };
  const send = (event) => {
    event.preventDefault();
    const edit = currentEdit();
    if (!field.value.trim() || !edit) return;
    end();
    edit(field.value);
  };
  const effect = `${isAnswer ? "Adds a new version of this answer" : "Sends a new version of this message"}. The old one is kept.`;
  const note = h("p", { class: "note" }), submit = h("button", { type: "submit", class: "main" }, isAnswer ? "Save" : "Send");
  const update = () => {
    const isPossible = Boolean(currentEdit());
    submit.disabled = !isPossible;
    setText(note, isPossible ? effect : "Wait until the running answer ends, or stop it.");
  };
  const form = h("form", { onsubmit: send }, field, note,
    h("div", { class: "tools" }, submit,
      h("button", { type: "button", onclick: end }, "Cancel")));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return send(event);
    if (event.key !== "Escape") return;
    event.stopPropagation();
    if (field.value === message.content || confirm("Discard the changes of this message?")) end();
  });
  edits.set(element, update);
  update();
  element.replaceChildren(before[0], form);
  field.focus();
}

function showAnswer(element, message) {
  let state = /** @type {TurnState | null} */ (null);
  const thought = h("div", { class: "said", dir: "auto" });
  const summary = h("summary");
  const reasoning = h("details", { class: "reasoning" }, summary, thought);
  summary.addEventListener("click", () => folds.set(message.id, !reasoning.open));
  const stage = h("p", { class: "note stage" });
  const answer = h("div", { class: "answer" });
  const calls = h("div");
  const activity = h("div");
  const results = h("div");
  const error = h("p", { class: "error", role: "alert" });
  const end = h("p", { class: "note end" });
  const numbers = h("p", { class: "numbers", hidden: local.get(kNumbersItem) === null });
  const info = iconButton("info", "Statistics", { class: "info", "aria-expanded": String(!numbers.hidden), onclick: toggleNumbers });
  function toggleNumbers() {
    numbers.hidden = !numbers.hidden;
    info.setAttribute("aria-expanded", String(!numbers.hidden));
    if (numbers.hidden) local.remove(kNumbersItem);
    else local.set(kNumbersItem, "shown");
  }
  const edit = iconButton("edit", "Edit this answer", { class: "edit", onclick: () => beginEdit(element, message, () => state.edit) });
  const goOn = h("button", { type: "button", class: "go-on", onclick: () => state.goOn() }, "Continue");
  const retry = iconButton("retry", "Retry", { class: "retry", onclick: () => state.retry() });
  const versions = showVersions("answer");
  const copy = copyIcon(message, "Copy this answer");
  const tools = h("div", { class: "tools actions" }, copy, retry, edit, info);
  element.append(stage, reasoning, answer, calls, activity, results, error, h("div", { class: "tools ending" }, end, goOn), h("div", { class: "tools" }, tools, versions.element), numbers);
  if (unsentText(message.id) !== null) beginEdit(element, message, () => state?.edit);

  let drawn = "";
  function drawText() {
    const { isRunning } = state;
    const now = JSON.stringify([isRunning, message.content, message.reasoning, message.calls, message.usage]);
    if (now === drawn) return;  // keeps what the user has selected
    drawn = now;
    reasoning.hidden = !message.reasoning;
    thought.textContent = message.reasoning;
    summary.textContent = reasoningTitle(message, isRunning && !message.calls.length);
    if (message.isJson && message.content) answer.replaceChildren(codeBlock(isRunning ? message.content : indented(message.content), "json", !isRunning));
    else renderMarkdown(answer, message.content);
    calls.replaceChildren(...message.calls.filter(Boolean).map(showCall));
  }

  function update(changed) {
    state = changed;
    element.setAttribute("aria-busy", String(state.isRunning));
    drawText();
    reasoning.open = folds.get(message.id) ?? (state.isRunning && !message.content && !message.calls.length);
    const hasBegun = message.firstMs !== undefined || (!message.continues && Boolean(message.content || message.reasoning || message.calls.length));
    stage.hidden = !state.isRunning || Boolean(state.activity) || (hasBegun && !message.isReconnecting);
    if (!stage.hidden) stage.textContent = waitText(message);
    if (state.activity !== activity.firstChild) activity.replaceChildren(...[state.activity].filter(Boolean));
    const open = state.sendResults ? state.openCalls.map(({ id }) => id).join() : "";
    if (open !== results.dataset.open) {
      results.dataset.open = open;
      results.replaceChildren(...(open ? [resultsForm(message, state.openCalls, () => state)] : []));
    }
    const fault = [message.error, state.failure].filter(Boolean).join(" ");
    error.hidden = !fault;
    setText(error, fault);
    setText(end, outcome(message, state));
    end.hidden = !end.textContent;
    setText(numbers, statistics(message));
    info.hidden = !numbers.textContent;
    tools.hidden = state.isRunning;
    retry.hidden = !state.retry;
    edit.hidden = !state.edit;
    edits.get(element)?.();
    copy.hidden = !message.content;
    goOn.hidden = !state.goOn;
    versions.update(state);
  }
  return { element, update };
}

function showCall(call) {
  const { name, arguments: text } = call.function;
  return h("div", { class: "call" }, h("h3", {}, "Call: ", h("code", {}, name)), codeBlock(indented(text), "json", true));
}

// For calls that the page can't run, or did not run: the user enters their results.
function resultsForm({ id, chat }, calls, currentState) {
  const fields = calls.map((call) => unsentField(`${id}.${call.id}`, chat, "", { rows: "3", required: true }));
  const send = (event) => {
    event.preventDefault();
    const { sendResults } = currentState();
    if (!sendResults) return;
    sendResults(calls.map((call, at) => ({ tool_call_id: call.id, name: call.function.name, content: fields[at].value })));
    for (const call of calls) forgetUnsent(`${id}.${call.id}`);
  };
  const run = currentState().run ? [h("button", { type: "button", class: "run", onclick: () => currentState().run?.() }, "Run the tools")] : [];
  return h("form", { class: "results", onsubmit: send },
    ...calls.map((call, at) => h("label", {}, `Result of ${call.function.name}`, fields[at])),
    h("div", { class: "tools" }, h("button", { type: "submit", class: "main" }, calls.length > 1 ? "Send results" : "Send result"), ...run));
}
