// Shows one message of a conversation.
import { statistics } from "./answer.js";
import { copyButton, h } from "./dom.js";
import { codeBlock, renderMarkdown } from "./markdown.js";

// Answers whose reasoning the user has opened; it stays open when they are drawn again.
const unfolded = new WeakSet();

const kNames = { user: "You", assistant: "Answer", tool: "Tool result" };

// `actions`: edit(text), retry() and sendResults(results), each undefined if not possible now. Returns the
// element, and update(), which redraws the message.
export function showTurn(message, actions) {
  const element = h("article", { class: `turn ${message.role}` }, h("h2", {}, kNames[message.role]));
  if (message.role === "assistant") return showAnswer(element, message, actions);
  element.append(h("div", { class: "said" }, message.content));
  const tools = h("div", { class: "tools" }, copyButton(() => message.content, "Copy this message"));
  if (actions.edit) {
    const begin = () => beginEdit(element, message.content, actions.edit);
    tools.append(h("button", { type: "button", class: "edit", onclick: begin }, "Edit"));
  }
  element.append(tools);
  return { element, update() {} };
}

function beginEdit(element, text, edit) {
  const before = [...element.childNodes];
  const field = h("textarea", { "aria-label": "Edit your message", rows: "4" });
  field.value = text;
  const cancel = () => {
    element.replaceChildren(...before);
    element.querySelector(".edit").focus();
  };
  const send = (event) => {
    event.preventDefault();
    if (field.value.trim()) edit(field.value);
  };
  const form = h("form", { onsubmit: send }, field,
    h("p", { class: "note" }, "Messages after this one are dropped."),
    h("div", { class: "tools" },
      h("button", { type: "submit", class: "main" }, "Send"),
      h("button", { type: "button", onclick: cancel }, "Cancel")));
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    cancel();
  });
  element.replaceChildren(before[0], form);
  field.focus();
}

function showAnswer(element, message, actions) {
  const thought = h("div", { class: "said" });
  const summary = h("summary");
  const reasoning = h("details", { class: "reasoning", open: unfolded.has(message) }, summary, thought);
  reasoning.addEventListener("toggle", () => (reasoning.open ? unfolded.add(message) : unfolded.delete(message)));
  const answer = h("div", { class: "answer" });
  const calls = h("div");
  const error = h("p", { class: "error", role: "alert" });
  const numbers = h("p", { class: "numbers" });
  const tools = h("div", { class: "tools" }, copyButton(() => message.content, "Copy this answer"));
  if (actions.retry) tools.append(h("button", { type: "button", class: "retry", onclick: actions.retry }, "Retry"));
  element.append(reasoning, answer, calls, error, numbers, tools);

  function update(isRunning) {
    element.setAttribute("aria-busy", String(isRunning));
    reasoning.hidden = !message.reasoning;
    thought.textContent = message.reasoning;
    const count = message.usage?.completion_tokens_details.reasoning_tokens;
    summary.textContent = isRunning && !message.content ? "Reasoning …" : `Reasoning${count ? `, ${count} tokens` : ""}`;
    if (message.isJson && message.content) answer.replaceChildren(codeBlock(isRunning ? message.content : indented(message.content), "json"));
    else renderMarkdown(answer, message.content);
    calls.replaceChildren(...message.calls.filter(Boolean).map(showCall));
    if (actions.sendResults && message.calls.length) calls.append(resultsForm(message.calls, actions.sendResults));
    error.hidden = !message.error;
    error.textContent = message.error ?? "";
    numbers.textContent = statistics(message);
    tools.hidden = isRunning;
  }
  return { element, update };
}

function showCall(call) {
  const { name, arguments: text } = call.function;
  return h("div", { class: "call" }, h("h3", {}, "Call: ", h("code", {}, name)), codeBlock(indented(text), "json"));
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
function resultsForm(calls, sendResults) {
  const fields = calls.map(() => h("textarea", { rows: "3", required: true }));
  const send = (event) => {
    event.preventDefault();
    sendResults(calls.map((call, at) => ({ role: "tool", tool_call_id: call.id, content: fields[at].value })));
  };
  return h("form", { class: "results", onsubmit: send },
    ...calls.map((call, at) => h("label", {}, `Result of ${call.function.name}`, fields[at])),
    h("div", {}, h("button", { type: "submit", class: "main" }, calls.length > 1 ? "Send results" : "Send result")));
}
