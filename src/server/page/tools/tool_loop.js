// Runs the calls of an answer, one after another, and stores their results as they come. Calls that the page can't run are
// left for the user.
import { h, notify, say } from "../base/dom.js";
import { settingsOf } from "../settings/settings.js";
import { newMessage } from "../storage/message.js";
import * as store from "../storage/store.js";
import { branchOf, titleOf } from "../storage/tree.js";
import { allow, isAllowed, permissionCard } from "./permission.js";
import { hasTools, offer, runTool, toolsOf } from "./tools.js";

/**
 * @typedef {import("../storage/message.js").Message} Message
 * @typedef {import("../storage/message.js").Conversation} Conversation
 * @typedef {import("../storage/message.js").Call} Call
 * @typedef {import("./tools.js").Tool} Tool
 */

const kRefused = "The user refused this call.";
const kMostRounds = 25;  // answers with calls to one question; then the user is asked

/** The tools that were offered for an answer.
 * @type {WeakMap<Message, Tool[]>} */
const offered = new WeakMap();
/** Elements that show what a conversation waits for besides an answer, by its id.
 * @type {Map<string, HTMLElement>} */
const activities = new Map();

/** The element that shows it; the same until it changes.
 * @param {string} chat */
export const activityOf = (chat) => activities.get(chat);

/**
 * The calls at the end of a branch that have no result yet, and their message; null without such calls.
 * @param {Message[]} branch @returns {{message: Message, calls: Call[]} | null}
 */
export function openCalls(branch) {
  const results = new Set();
  let at = branch.length - 1;
  for (; branch[at]?.role === "tool"; --at) results.add(branch[at].tool_call_id);
  const message = branch[at];
  const calls = (message?.calls ?? []).filter((call) => call && !results.has(call.id));
  return calls.length ? { message, calls } : null;
}

/** Whether the page could run calls of this conversation.
 * @param {Conversation} chat */
export const canRun = (chat) => hasTools(settingsOf(chat));

/**
 * Adds the conversation's tools to the request for an answer. MCP servers that fail are reported above the composer.
 * @param {Conversation} chat @param {Message} answer @param {any} body @param {AbortSignal} signal @param {() => unknown} onChange
 */
export async function offerTools(chat, answer, body, signal, onChange) {
  if (!canRun(chat)) return;
  const { tools } = await findTools(chat, signal, onChange);
  offered.set(answer, tools);
  offer(body, tools);
}

/**
 * The tools that an answer may call. After a reload they are found again; then those of MCP servers only if all servers
 * answer, because the names of one server's tools depend on those of the others.
 * @param {Conversation} chat @param {Message} answer @param {AbortSignal} signal @param {() => boolean} onChange
 */
async function offeredTools(chat, answer, signal, onChange) {
  if (offered.has(answer)) return offered.get(answer);
  const { tools, isComplete } = await findTools(chat, signal, onChange);
  return isComplete ? tools : tools.filter(({ url }) => url === undefined);
}

/** @param {Conversation} chat @param {AbortSignal} signal @param {() => unknown} onChange */
async function findTools(chat, signal, onChange) {
  const settings = settingsOf(chat);
  if (settings.mcp) show(chat, note("Connecting to the MCP servers …"), onChange);
  try {
    const { faults, ...found } = await toolsOf(settings, signal);
    notify("mcp", faults.join("\n"));
    return found;
  } finally {
    show(chat, null, onChange);
  }
}

const note = (text) => h("p", { class: "note" }, text);

/** Returns whether the user sees it: the conversation is open. */
function show(chat, element, onChange) {
  if (element) activities.set(chat.id, element);
  else activities.delete(chat.id);
  return onChange();
}

/**
 * Runs the open calls of a conversation that the page can run. Returns the last message if all calls have results, so that the
 * model can go on, else null. After many rounds it runs none unless the user wants it.
 * @param {Conversation} chat @param {string} last  the end of the branch
 * @param {{signal: AbortSignal, isWanted: boolean, onChange: () => boolean}} options  onChange
 *   draws the conversation if it is open, and returns whether it is
 * @returns {Promise<string | null>}
 */
export async function runCalls(chat, last, { signal, isWanted, onChange }) {
  const branch = branchOf(chat.messages, last);
  const open = openCalls(branch);
  if (!open) return null;
  const isLong = roundsOf(branch) > 0 && roundsOf(branch) % kMostRounds === 0;
  if (isLong && !isWanted) return null;
  let end = last, numLeft = open.calls.length;
  try {
    const tools = await offeredTools(chat, open.message, signal, onChange);
    for (const call of open.calls) {
      const tool = tools.find(({ name }) => name === call.function.name);
      if (!tool) continue;  // the user's
      const content = await resultOf(chat, tool, call, signal, onChange);
      if (store.conversations.get(chat.id) !== chat) return null;  // deleted
      end = append(chat, end, call, content);
      --numLeft;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    show(chat, null, onChange);
  }
  return numLeft ? null : end;
}

/** The answers with calls since the user's last message.
 * @param {Message[]} branch */
const roundsOf = (branch) =>
  branch.slice(branch.findLastIndex(({ role }) => role === "user") + 1).filter(({ calls }) => calls?.length).length;

/** @param {Conversation} chat @param {Tool} tool @param {Call} call @param {AbortSignal} signal @param {() => boolean} onChange */
async function resultOf(chat, tool, call, signal, onChange) {
  if (!isAllowed(chat.id, tool) && !(await ask(chat, tool, call, signal, onChange))) return kRefused;
  show(chat, note(`Running ${tool.title} …`), onChange);
  return runTool(tool, call.function.arguments, signal);
}

/** Whether the user allows a call. Rejects if `signal` is aborted. */
async function ask(chat, tool, call, signal, onChange) {
  const decision = await new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
    signal.throwIfAborted();
    const isShown = show(chat, permissionCard({ tool, call, decide: resolve }), onChange);
    say(`The model wants to call ${tool.title} of ${tool.url}. Allow or refuse the call.`);
    if (!isShown) notify(`permission ${chat.id}`, `"${titleOf(chat)}" waits for permission to call a tool.`);
  }).finally(() => notify(`permission ${chat.id}`, ""));
  if (decision === "always") allow(chat.id, tool);
  return decision !== "refuse";
}

/** Stores a result at the end of a branch. Returns its id.
 * @param {Conversation} chat @param {string} parent @param {Call} call @param {string} content */
function append(chat, parent, call, content) {
  const result = newMessage(chat.id, parent, { role: "tool", tool_call_id: call.id, name: call.function.name, content });
  const isShown = chat.shown === parent;
  if (isShown) chat.shown = result.id;
  store.append(chat, [result], isShown ? result.id : chat.leaf);
  return result.id;
}
