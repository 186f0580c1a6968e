// Converts a conversation to the API's messages; receives the streamed answer.
import { ConnectionError } from "../client/api.js";
import { kSampling } from "../settings/settings.js";
import { newVersion } from "../storage/tree.js";

/** @typedef {import("../storage/message.js").Message} Message */

// Browsers end the connections of a page just before they close it, which is no fault of the server. The user may stay.
const kLeaveMs = 5000;
let isLeaving = false;
addEventListener("beforeunload", () => {
  isLeaving = true;
  setTimeout(() => { isLeaving = false; }, kLeaveMs);
});

/**
 * The request for the next answer, or for the rest of one, without settings that the user left empty.
 * @param {Message[]} messages @param {any} settings @param {Message | undefined} begun  the answer to go on with
 */
export function requestOf(messages, settings, begun) {
  const body = /** @type {any} */ ({
    messages: messages.filter((message) => !isEmpty(message)).map(toApi),
    stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true },  // stopped answers get usage too
    resumable: true,
    return_progress: true,
    reasoning_effort: settings.effort,
  });
  if (begun) {
    body.messages.push({ role: "assistant", content: begun.content || null, reasoning_content: begun.reasoning || undefined });
    body.continue_final_message = true;
  }
  if (settings.instructions) body.messages.unshift({ role: "system", content: settings.instructions });
  for (const { name } of kSampling) if (settings[name] !== "") body[name] = Number(settings[name]);
  if (settings.tools) body.tools = JSON.parse(settings.tools);
  if (settings.schema) {
    const schema = JSON.parse(settings.schema);
    body.response_format = { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
  }
  return body;
}

const isEmpty = (message) => message.role === "assistant" && !message.content && !message.calls?.length;

function toApi(message) {
  if (message.role === "tool") return { role: "tool", tool_call_id: message.tool_call_id, content: message.content };
  if (message.role === "user") return { role: "user", content: message.content };
  const told = { role: "assistant", content: message.content || null };
  if (!message.calls?.length) return told;
  // After tool calls the model continues its turn, so it needs its reasoning again.
  return { ...told, tool_calls: message.calls, reasoning_content: message.reasoning };
}

/**
 * An answer to a message, without text, or with the text of the version that it goes on with.
 * @param {import("../storage/message.js").Conversation} chat @param {string | null} parent @param {any} settings @param {Message} [begun]
 */
export const newAnswer = (chat, parent, settings, begun) =>
  newVersion(chat, parent, { role: "assistant", content: begun?.content ?? "", reasoning: begun?.reasoning ?? "", calls: [],
    continues: begun?.id, effort: settings.effort, isJson: settings.schema !== "", complete: false });

/** Whether an answer has no text of its own.
 * @param {import("../storage/message.js").Conversation} chat @param {Message} message */
export function isBlank(chat, message) {
  const begun = chat.messages.get(message.continues ?? "");
  if (!begun) return !message.content && !message.reasoning && !message.calls.length;
  return message.content === begun.content && message.reasoning === begun.reasoning && !message.calls.length;
}

/**
 * Fills `message` with the chunks of its answer; calls `onChange` after each. Returns whether the answer is over: false if
 * the server can't be reached, but may still have the rest, or the page is closed.
 * @param {Message} message @param {AsyncIterable<any>} chunks @param {AbortSignal} signal
 * @param {() => void} onChange
 */
export async function receive(message, chunks, signal, onChange) {
  const began = performance.now() - sinceMs(message);
  const { received, firstMs, thoughtMs } = message;
  let isOver = true;
  const timer = setInterval(() => { if (message.firstMs === undefined || message.isReconnecting) onChange(); }, 1000);  // the waiting time is shown
  try {
    for await (const chunk of chunks) {
      if (chunk.usage) message.usage = chunk.usage;
      message.progress = chunk.prompt_progress;
      const choice = chunk.choices[0];
      if (choice && addDelta(message, choice.delta)) {
        message.lastMs = performance.now() - began;
        message.firstMs ??= message.lastMs;
        message.firstTokens ??= chunk.usage.completion_tokens;
        if (!message.content) message.thoughtMs = message.lastMs - message.firstMs;
      }
      if (choice?.finish_reason) message.finish = choice.finish_reason;
      onChange();
    }
  } catch (error) {
    const isLost = error instanceof ConnectionError && !signal.aborted;
    if (signal.aborted) message.finish = "stopped";
    else if (!(isLost && isLeaving)) message.error = error.message;
    if (isLost && (isLeaving || message.received !== undefined)) isOver = false;
  }
  clearInterval(timer);
  message.isReconnecting = message.progress = undefined;
  if (received !== undefined)  // times would include those without a connection
    Object.assign(message, { lastMs: undefined, firstMs, thoughtMs: thoughtMs && message.thoughtMs });
  if (!isOver) return false;
  message.received = undefined;
  if (message.finish !== "tool_calls") message.calls = [];  // cut-off calls are unusable
  return true;
}

// Returns whether the delta has any text.
function addDelta(message, delta) {
  message.content += delta.content ?? "";
  message.reasoning += delta.reasoning_content ?? "";
  for (const part of delta.tool_calls ?? []) {
    message.calls[part.index] ??= { id: part.id, type: "function", function: { name: part.function.name, arguments: "" } };
    message.calls[part.index].function.arguments += part.function.arguments ?? "";
  }
  return Boolean(delta.content || delta.reasoning_content || delta.tool_calls);
}

// Never negative: the clock may have been set back.
const sinceMs = ({ created }) => Math.max(0, Date.now() - created);

// Returns "Queued (2nd) …", "Reading the prompt, 43 % …" or "Waiting for the first token …", after some seconds with their number.
export function waitText({ created, progress, isReconnecting }) {
  const seconds = Math.floor(sinceMs({ created }) / 1000);
  const what = isReconnecting ? "The connection is lost. Trying again"
    : progress?.queue > 0 ? `Queued (${ordinal(progress.queue)})`
    : progress ? `Reading the prompt, ${Math.floor((100 * progress.processed) / progress.total)} %`
    : "Waiting for the first token";
  return `${what}${seconds >= 2 && !isReconnecting ? `, ${seconds} s` : ""} …`;
}

// Returns "1st", "2nd", "3rd", "11th".
export function ordinal(number) {
  const ending = { one: "st", two: "nd", few: "rd", other: "th" };
  return `${number}${ending[new Intl.PluralRules("en", { type: "ordinal" }).select(number)]}`;
}

// Returns "Reasoning, 62 tokens in 3.2 s".
export function reasoningTitle(message, isRunning) {
  const count = message.usage?.completion_tokens_details.reasoning_tokens;
  const time = message.thoughtMs === undefined ? "" : ` in ${(message.thoughtMs / 1000).toFixed(1)} s`;
  return `Reasoning${count ? `, ${count} tokens${time}` : ""}${isRunning && !message.content ? " …" : ""}`;
}

// Returns "62 tokens, 410 tokens/s, the first after 23 ms; prompt of 90 tokens, 64 of them cached; effort medium".
export function statistics({ usage, firstMs, lastMs, firstTokens, effort }) {
  if (!usage) return "";
  const seconds = (lastMs - firstMs) / 1000;
  const speed = seconds > 0 ? `, ${rounded((usage.completion_tokens - firstTokens) / seconds)} tokens/s` : "";
  const first = firstMs === undefined ? "" : `, the first after ${firstMs < 1000 ? `${Math.round(firstMs)} ms` : `${(firstMs / 1000).toFixed(1)} s`}`;
  return `${usage.completion_tokens} tokens${speed}${first}; ` +
    `prompt of ${usage.prompt_tokens} tokens, ${usage.prompt_tokens_details.cached_tokens} of them cached` + (effort ? `; effort ${effort}` : "");
}

/** Returns why the answer ended, if it did not end as it should.
 * @param {Message} message @param {{isRunning: boolean, isElsewhere: boolean}} state */
export function outcome({ finish, complete, isEdited }, { isRunning, isElsewhere }) {
  const parts = [];
  if (isEdited) parts.push("Edited by you.");
  if (finish === "length") parts.push("Cut off: the token limit was reached.");
  if (finish === "stopped") parts.push("Stopped.");
  if (finish === "none") parts.push("No answer yet.");
  if (!complete && !isRunning) parts.push(isElsewhere ? "Another tab receives this answer." : "Not complete.");
  return parts.join(" ");
}

const rounded = (number) => number.toFixed(number < 10 ? 1 : 0);
