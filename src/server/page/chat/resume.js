// Answers that outlive their connection. After a lost connection or a reload, an answer goes on after the last event that
// was received: message.received is its number. What is needed for that is in localStorage until the answer is complete.
import { kServer } from "../base/server_address.js";
import { local } from "../base/web_storage.js";
import { ConnectionError, endAnswer, resumeChat, streamChat } from "../client/api.js";
import { newMessage } from "../storage/message.js";

/**
 * @typedef {import("../storage/message.js").Message} Message
 * @typedef {import("../storage/message.js").Conversation} Conversation
 * @typedef {{id: string, message: string, chat: string, parent: string | null, created: number, isJson: boolean, continues?: string}} Handle
 *   id: of the answer at the server
 */

const kItems = `nibble.answer ${new URL(kServer).pathname} `;  // and the message's id
const kPatienceMs = 20_000;  // without a connection to the server: then the page gives up
const kFirstWaitMs = 250, kMostWaitMs = 2000;  // between two attempts
const kDayMs = 86_400_000;
const kReloadMs = 5000;  // for a page to load again
const kLateMs = 250;  // the lock of a page before its reload may be free a moment late
const kGone = "The rest of this answer is lost: the server was restarted, or does not keep the answer any more.";
const kGivenUp = "The connection ended before the answer was complete, and the server can't be reached. Reload the page to look for the rest.";

let channel = /** @type {BroadcastChannel | null} */ (null);
try {
  channel = new BroadcastChannel(kItems);
} catch {
  // The storage is blocked too: no other tab has the conversation.
}

/** @type {Map<string, () => void>} */
const held = new Map();  // by message: lets go of the lock of an answer that this tab began

/** Answers that may go on: of this tab, of other tabs, and of closed ones.
 * @returns {Handle[]} */
export function openAnswers() {
  const handles = [];
  for (const key of local.keys()) {
    if (!key.startsWith(kItems)) continue;
    try {
      const handle = JSON.parse(local.get(key));
      if (typeof handle.id !== "string" || typeof handle.chat !== "string" || key !== kItems + handle.message) throw new Error("damaged");
      handles.push(handle);
    } catch {
      local.remove(key);
    }
  }
  return handles;
}

/**
 * The message of an answer that goes on: the stored one, or a new one, because an answer without text is not stored. Null if
 * it can't go on: its conversation is not here, or another tab has completed it.
 * @param {Handle} handle @param {Conversation | undefined} chat @returns {Message | null}
 */
export function messageOfAnswer(handle, chat) {
  const { message: id, parent, created, isJson, continues } = handle;
  if (!chat && Date.now() - created > kDayMs) local.remove(kItems + id);
  if (!chat || local.get(kItems + id) === null || (parent !== null && !chat.messages.has(parent))) return null;
  const begun = chat.messages.get(continues ?? "");
  const fields = { id, created, isJson, continues: begun?.id, role: /** @type {"assistant"} */ ("assistant"), content: begun?.content ?? "",
    reasoning: begun?.reasoning ?? "", calls: [], complete: false };
  const message = chat.messages.get(id) ?? newMessage(chat.id, parent, fields);
  if (message.complete) {
    closeAnswer(message);
    return null;
  }
  message.error = undefined;
  message.received ??= -1;
  return message;
}

const lockOf = (/** @type {Handle} */ { id }) => `nibble.answer ${id}`;
// Held with the first one, but tabs that wait for its end share this one: one of them may be suspended when it gets the lock,
// and must not keep it from the others.
const endLockOf = (/** @type {Handle} */ handle) => `${lockOf(handle)} end`;
const wait = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** @param {Handle} handle @param {Promise<unknown>} end  of the time in which this tab receives the answer */
const holdEnd = (handle, end) => void navigator.locks.request(endLockOf(handle), () => end).catch(() => {});

/**
 * Calls `work` once no other tab receives the answer, unless that one has completed it; a tab that closes lets another one go on.
 * `work` resolves to false if it could not begin: then it is called again later.
 * If the page with the lock is reloaded, it goes on itself: the others wait a little. Without locks (a page by HTTP of another
 * machine, or blocked storage) several tabs may receive it: the numbers of the events keep their texts right.
 * @param {Handle} handle @param {() => Promise<boolean>} work @param {() => void} onOther  another tab receives it
 */
export async function alone(handle, work, onOther) {
  let hasBegun = false, isFree = false;
  const begin = async (/** @type {Lock | null} */ lock) => {
    hasBegun = isFree = lock !== null;
    if (!isFree) return;
    const over = work();
    holdEnd(handle, over);
    hasBegun = (await over) !== false;
  };
  const attempt = () => navigator.locks.request(lockOf(handle), { ifAvailable: true }, begin);
  const isOpen = () => local.get(kItems + handle.message) !== null;
  try {
    await attempt();
    if (!isFree) {
      await wait(kLateMs);
      if (isOpen()) await attempt();
    }
    while (!hasBegun && isOpen()) {
      if (!isFree) onOther();
      await navigator.locks.request(endLockOf(handle), { mode: "shared" }, () => {});
      await wait(kReloadMs);
      if (isOpen()) await attempt();
    }
  } catch (error) {
    if (hasBegun) throw error;
    await work();
  }
}

/** Holds the lock of an answer that this tab receives, and tells the other tabs. Ends with releaseAnswer().
 * @param {Handle} handle */
async function hold(handle) {
  try {
    await navigator.locks.request(lockOf(handle), () => {
      const end = new Promise((resolve) => held.set(handle.message, () => resolve(undefined)));
      holdEnd(handle, end);
      channel?.postMessage(handle);
      return end;
    });
  } catch {
    // Without locks, no other tab goes on before it is loaded again.
  }
}

/** Calls `take` for each answer that another tab begins. That tab has its lock by then.
 * @param {(handle: Handle) => void} take */
export function followAnswers(take) {
  channel?.addEventListener("message", ({ data }) => take(data));
}

/** Forgets an answer that is complete and saved. The server drops it after a time.
 * @param {Message} message */
export const closeAnswer = (message) => local.remove(kItems + message.id);

/** Lets another tab receive the answer.
 * @param {Message} message */
export function releaseAnswer(message) {
  held.get(message.id)?.();
  held.delete(message.id);
}

/** Yields the chunks of a new answer.
 * @param {Message} message @param {object} body @param {AbortSignal} signal */
export function newChunks(message, body, signal) {
  const keep = (id) => {
    if (!id) return;  // the server keeps no answers
    const { chat, parent, created, isJson, continues } = message;
    message.received = -1;
    const handle = { id, message: message.id, chat, parent, created, continues, isJson: isJson === true };
    local.set(kItems + message.id, JSON.stringify(handle));
    hold(handle);
  };
  return goOn(message, streamChat(body, signal, keep), signal);
}

/** Yields the rest of an answer.
 * @param {Message} message @param {Handle} handle @param {AbortSignal} signal */
export const restOfChunks = (message, handle, signal) => goOn(message, resumeChat(handle.id, message.received, signal), signal);

async function* goOn(message, events, signal) {
  let failedMs = 0, waitMs = kFirstWaitMs;
  for (;;) {
    try {
      for await (const { number, chunk } of events) {
        [failedMs, waitMs, message.isReconnecting] = [0, kFirstWaitMs, false];
        if (number !== undefined && number <= message.received) continue;  // another tab was faster
        if (number !== undefined) message.received = number;
        yield chunk;
      }
      return;
    } catch (error) {
      const { id } = JSON.parse(local.get(kItems + message.id) ?? "{}");
      if (!id) throw error;
      const mayGoOn = error instanceof ConnectionError || error.status >= 502;  // from a proxy, if not from the server
      if (error.status === 404) {
        local.remove(kItems + message.id);
        throw new Error(kGone);
      }
      if (signal.aborted || !mayGoOn) {
        closeAnswer(message);
        if (signal.aborted) endAnswer(id);
        throw error;
      }
      if (failedMs >= kPatienceMs) throw new ConnectionError(kGivenUp);
      message.isReconnecting = true;
      await pause(waitMs, signal);
      if (navigator.onLine) failedMs += waitMs;  // without a network only a server on this machine can answer
      waitMs = Math.min(2 * waitMs, kMostWaitMs);
      events = resumeChat(id, message.received, signal);
    }
  }
}

/** Waits for `ms`. Ends early if aborted, or when the browser gets a network.
 * @param {number} ms @param {AbortSignal} signal */
async function pause(ms, signal) {
  const ended = new AbortController();
  const event = (target, name) => new Promise((resolve) => target.addEventListener(name, resolve, { once: true, signal: ended.signal }));
  await Promise.race([event(signal, "abort"), event(globalThis, "online"), wait(ms)]);
  ended.abort();
}
