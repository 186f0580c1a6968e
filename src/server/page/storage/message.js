// The messages of conversations, as they are stored and exported. A conversation is a tree: `parent` is the
// previous message. Messages with the same parent are versions: of an answer after Retry, of a question after an edit.

/**
 * @typedef {{id: string, type: "function", function: {name: string, arguments: string}}} Call
 *
 * @typedef {object} Message
 * @property {string} id
 * @property {string} chat           the conversation's id
 * @property {string | null} parent  null for the first message
 * @property {number} created        milliseconds since 1970
 * @property {"user" | "assistant" | "tool"} role
 * @property {string} content
 * @property {boolean} complete      false while an answer is received; stays false if the page was closed meanwhile
 * @property {string} [tool_call_id] role "tool": the call whose result this is
 * @property {string} [name]         role "tool": of the function, where known
 * @property {string} [reasoning]    role "assistant", as all below
 * @property {Call[]} [calls]
 * @property {boolean} [isJson]      the answer follows a schema
 * @property {any} [usage]           the usage of OpenAI's API
 * @property {number} [firstMs]      time to the first token
 * @property {number} [lastMs]       time to the last token
 * @property {number} [firstTokens]  tokens in the first chunk with text
 * @property {number} [thoughtMs]    time of the reasoning
 * @property {string} [finish]       the finish reason, "stopped", or "none" where an answer is missing
 * @property {string} [error]
 * @property {string} [effort]       reasoning effort of the request
 * @property {string} [continues]    the id of the version whose text it began with
 * @property {boolean} [isEdited]    the user wrote it
 * @property {number} [received]     number of the last event received, while incomplete: resume.js
 * @property {any} [progress]        before the first token: the server's prompt_progress; not stored
 * @property {boolean} [isReconnecting]  not stored
 *
 * @typedef {object} Conversation
 * @property {string} id
 * @property {Map<string, Message>} messages
 * @property {string | null} leaf    the last message of the branch that a reload shows
 * @property {string | null} shown   the last message of the branch that this tab shows
 * @property {number} changed
 * @property {string} draft
 * @property {{name: string, text: string}[]} files  attached to the draft
 * @property {object} [settings]     settings.js; without them, the defaults are used
 * @property {string} [title]        the user's title; without it, the first line is shown
 * @property {boolean} [pinned]      listed first
 */

/** A random id: several tabs may create messages at once. */
export const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * @param {string} chat @param {string | null} parent @param {Partial<Message>} fields
 * @returns {Message}
 */
export const newMessage = (chat, parent, fields) =>
  /** @type {Message} */ ({ id: newId(), chat, parent, created: Date.now(), complete: true, content: "", ...fields });

/** Whether a message has any text.
 * @param {Message} message */
export const isEmpty = (message) => !message.content && !message.reasoning && !message.calls?.length;

/** @param {{content?: string, reasoning?: string}} message */
const textLength = ({ content, reasoning }) => (content ?? "").length + (reasoning ?? "").length;

/** Whether a record of the same answer has more text.
 * @param {Message} message @param {any} other */
export const isBehind = (message, other) => textLength(message) < textLength(other);

const isCall = (call) => typeof call?.id === "string" && typeof call.function?.name === "string" &&
  typeof call.function.arguments === "string";
const isUsage = (usage) => [usage?.completion_tokens, usage?.prompt_tokens, usage?.prompt_tokens_details?.cached_tokens,
  usage?.completion_tokens_details?.reasoning_tokens].every(Number.isFinite);

/**
 * Returns the message of a stored or imported record. Throws if a field that it needs is damaged; drops statistics
 * that are damaged.
 * @param {any} record @returns {Message}
 */
export function messageOf(record) {
  const need = (name, isValid) => {
    if (!isValid) throw new Error(`its field "${name}" is damaged`);
  };
  need("id", typeof record?.id === "string" && record.id !== "");
  need("chat", typeof record.chat === "string" && record.chat !== "");
  need("parent", record.parent === null || (typeof record.parent === "string" && record.parent !== record.id));
  need("created", Number.isFinite(record.created));
  need("role", ["user", "assistant", "tool"].includes(record.role));
  need("content", typeof record.content === "string");
  const { id, chat, parent, created, role, content } = record;
  const message = { id, chat, parent, created, role, content, complete: record.complete !== false };
  if (role === "tool") {
    need("tool_call_id", typeof record.tool_call_id === "string");
    message.tool_call_id = record.tool_call_id;
    if (typeof record.name === "string") message.name = record.name;
  }
  if (role !== "assistant") return message;
  const calls = record.calls ?? [];
  need("calls", Array.isArray(calls) && calls.filter(Boolean).every(isCall));
  need("reasoning", typeof (record.reasoning ?? "") === "string");
  Object.assign(message, { calls: calls.filter(Boolean), reasoning: record.reasoning ?? "", isJson: record.isJson === true });
  if (record.isEdited === true) message.isEdited = true;
  if (isUsage(record.usage)) message.usage = record.usage;
  for (const name of ["firstMs", "lastMs", "firstTokens", "thoughtMs", "received"]) if (Number.isFinite(record[name])) message[name] = record[name];
  for (const name of ["finish", "error", "effort", "continues"]) if (typeof record[name] === "string") message[name] = record[name];
  return message;
}
