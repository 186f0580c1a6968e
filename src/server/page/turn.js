// Shows one message of a conversation.
import { outcome, reasoningTitle, statistics, waitText } from "./answer.js";
import { codeBlock } from "./code.js";
import { copyText, h, notify, say } from "./dom.js";
import { iconButton, setIcon } from "./icons.js";
import { renderMarkdown } from "./markdown.js";
import { session } from "./web_storage.js";

/**
 * @typedef {import("./message.js").Message} Message
 *
 * @typedef {object} TurnState  the rest of what a turn shows; an action that is not possible now is undefined
 * @property {boolean} isRunning
 * @property {number} version       of the message, from 0
 * @property {number} numVersions
 * @property {string} [failure]     why the last attempt at an answer failed
 * @property {(step: number) => void} showVersion
 * @property {(text: string) => void} [edit]
 * @property {() => void} [retry]
 * @property {(results: {tool_call_id: string, content: string}[]) => void} [sendResults]
 */

// Answers whose reasoning the user has opened or closed; it stays so when they are drawn again.
/** @type {Map<string, boolean>} */
const folds = new Map();

// A field whose unsent text survives a switch to another version or conversation, and a reload.
const unsentItem = (id) => `nibble.unsent.${id}`;
function unsentField(id, text, properties) {
  const field = h("textarea", { dir: "auto", ...properties });
  field.value = session.get(unsentItem(id)) ?? text;
  field.addEventListener("input", () => session.set(unsentItem(id), field.value));
  return field;
}

const kNames = { user: "You", assistant: "Answer", tool: "Tool result" };

/**
 * Returns the element, and update(), which redraws the message.
 * @param {Message} message
 * @returns {{element: HTMLElement, update: (state: TurnState) => void}}
 */
export function showTurn(message) {
  const element = h("article", { class: `turn ${message.role}` }, h("h2", {}, kNames[message.role]));
  if (message.role === "assistant") return showAnswer(element, message);
  let state = /** @type {TurnState | null} */ (null);
  const edit = iconButton("edit", "Edit this message", { class: "edit", onclick: () => beginEdit(element, message, () => state.edit) });
  const versions = showVersions("message");
  const tools = h("div", { class: "tools actions" }, copyIcon(message, "Copy this message"), edit);
  element.append(h("div", { class: "said", dir: "auto" }, message.content), h("div", { class: "tools" }, tools, versions.element));
  if (session.get(unsentItem(message.id)) !== null) beginEdit(element, message, () => state.edit);
  return {
    element,
    update(changed) {
      state = changed;
      edit.hidden = !state.edit;
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

function beginEdit(element, message, currentEdit) {
  const before = [...element.childNodes];
  const field = unsentField(message.id, message.content, { "aria-label": "Edit your message", rows: "4" });
  const end = () => {
    session.remove(unsentItem(message.id));
    element.replaceChildren(...before);
    element.querySelector(".edit").focus();
  };
  const send = (event) => {
    event.preventDefault();
    const edit = currentEdit();  // undefined while an answer is received
    if (!field.value.trim() || !edit) return;
    end();
    edit(field.value);
  };
  const form = h("form", { onsubmit: send }, field,
    h("p", { class: "note" }, "Sends a new version of this message. The old one is kept."),
    h("div", { class: "tools" },
      h("button", { type: "submit", class: "main" }, "Send"),
      h("button", { type: "button", onclick: end }, "Cancel")));
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    end();
  });
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
  const results = h("div");
  const error = h("p", { class: "error", role: "alert" });
  const end = h("p", { class: "note end" });
  const numbers = h("p", { class: "numbers", hidden: true });
  const info = iconButton("info", "Statistics", { class: "info", "aria-expanded": "false", onclick: toggleNumbers });
  function toggleNumbers() {
    numbers.hidden = !numbers.hidden;
    info.setAttribute("aria-expanded", String(!numbers.hidden));
  }
  const retry = iconButton("retry", "Retry", { class: "retry", onclick: () => state.retry() });
  const versions = showVersions("answer");
  const tools = h("div", { class: "tools actions" }, copyIcon(message, "Copy this answer"), retry, info);
  element.append(stage, reasoning, answer, calls, results, error, end, h("div", { class: "tools" }, tools, versions.element), numbers);

  let drawn = "";
  function drawText() {
    const { isRunning } = state;
    const now = JSON.stringify([isRunning, message.content, message.reasoning, message.calls, message.usage]);
    if (now === drawn) return;  // keeps what the user has selected
    drawn = now;
    reasoning.hidden = !message.reasoning;
    thought.textContent = message.reasoning;
    summary.textContent = reasoningTitle(message, isRunning);
    if (message.isJson && message.content) answer.replaceChildren(codeBlock(isRunning ? message.content : indented(message.content), "json", !isRunning));
    else renderMarkdown(answer, message.content);
    calls.replaceChildren(...message.calls.filter(Boolean).map(showCall));
  }

  function update(changed) {
    state = changed;
    element.setAttribute("aria-busy", String(state.isRunning));
    drawText();
    reasoning.open = folds.get(message.id) ?? (state.isRunning && !message.content && !message.calls.length);
    stage.hidden = !state.isRunning || (!message.isReconnecting && Boolean(message.content || message.reasoning || message.calls.length));
    if (!stage.hidden) stage.textContent = waitText(message);
    const takesResults = Boolean(state.sendResults && message.calls.length);
    if (!takesResults) results.replaceChildren();
    else if (!results.firstChild) results.append(resultsForm(message, (values) => state.sendResults?.(values)));
    const fault = [message.error, state.failure].filter(Boolean).join(" ");
    error.hidden = !fault;
    setText(error, fault);
    setText(end, outcome(message, state.isRunning));
    end.hidden = !end.textContent;
    setText(numbers, statistics(message));
    info.hidden = !numbers.textContent;
    tools.hidden = state.isRunning;
    retry.hidden = !state.retry;
    versions.update(state);
  }
  return { element, update };
}

function showCall(call) {
  const { name, arguments: text } = call.function;
  return h("div", { class: "call" }, h("h3", {}, "Call: ", h("code", {}, name)), codeBlock(indented(text), "json", true));
}

// Indents JSON. Returns the text unchanged if it is not valid JSON (it may be cut off), or if JavaScript
// would change it, which rounds numbers of more than 15 digits.
function indented(text) {
  const withoutSpaces = (json) => json.replace(/\s/g, "");
  try {
    const value = JSON.parse(text);
    return withoutSpaces(JSON.stringify(value)) === withoutSpaces(text) ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}

// The page runs no tools: the user enters their results.
function resultsForm({ id, calls }, sendResults) {
  const fields = calls.map((call, at) => unsentField(`${id}.${at}`, "", { rows: "3", required: true }));
  const send = (event) => {
    event.preventDefault();
    sendResults(calls.map((call, at) => ({ tool_call_id: call.id, content: fields[at].value })));
    for (const at of fields.keys()) session.remove(unsentItem(`${id}.${at}`));
  };
  return h("form", { class: "results", onsubmit: send },
    ...calls.map((call, at) => h("label", {}, `Result of ${call.function.name}`, fields[at])),
    h("div", {}, h("button", { type: "submit", class: "main" }, calls.length > 1 ? "Send results" : "Send result")));
}
