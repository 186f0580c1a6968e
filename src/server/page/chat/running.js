// The answers that are received now, in all conversations: at most one in each. The user may have another one open.
import { say, notify } from "../base/dom.js";
import { settingsOf } from "../settings/settings.js";
import * as store from "../storage/store.js";
import { branchOf } from "../storage/tree.js";
import { saveAtOnce } from "../storage/unsaved.js";
import { canRun, offerTools, runCalls } from "../tools/tool_loop.js";
import { isBlank, newAnswer, receive, requestOf } from "./answer.js";
import { alone, closeAnswer, followAnswers, messageOfAnswer, newChunks, openAnswers, releaseAnswer, restOfChunks } from "./resume.js";

/**
 * @typedef {import("../storage/message.js").Message} Message
 * @typedef {import("../storage/message.js").Conversation} Conversation
 *
 * @typedef {object} View  shows the open conversation
 * @property {(chat: Conversation) => boolean} isOpen
 * @property {() => void} show          draws it again
 * @property {(message: Message) => void} showProgress  of its answer
 * @property {() => void} showEnd       scrolls to its end
 * @property {() => void} showList      draws the list of conversations
 */

const kSaveMs = 200;  // maximum time that received text stays unsaved

/** @type {Map<string, {message: Message, stop: AbortController}>} */
const running = new Map();  // by conversation
/** @type {Map<string | null, string>} */
const failures = new Map();  // by parent message
/** @type {Set<string>} */
const elsewhere = new Set();  // ids of messages that other tabs receive
let view = /** @type {View} */ ({});

/** Goes on with the answers that a reload has interrupted, and with those of tabs that close.
 * @param {View} given */
export function setUpAnswers(given) {
  view = given;
  addEventListener("pagehide", () => saveAtOnce([...running.values()].map(({ message }) => message).filter(
    (message) => store.conversations.has(message.chat) && !isBlank(store.conversations.get(message.chat), message))));
  for (const handle of openAnswers()) awaitAnswer(handle, false);
  followAnswers((handle) => awaitAnswer(handle, true));
}

/** Goes on with an answer when no other tab receives it.
 * @param {import("./resume.js").Handle} handle @param {boolean} isInUse  the page was loaded a while ago: the user reads or writes */
function awaitAnswer(handle, isInUse) {
  const setElsewhere = (isElsewhere) => {
    if (isElsewhere === elsewhere.has(handle.message)) return;
    if (isElsewhere) elsewhere.add(handle.message);
    else elsewhere.delete(handle.message);
    const chat = store.conversations.get(handle.chat);
    if (chat && view.isOpen(chat)) view.show();
  };
  const goOn = () => {
    setElsewhere(false);
    return resumeAnswer(handle, isInUse);
  };
  const wait = () => {
    isInUse = true;
    setElsewhere(true);
  };
  if (isInUse) wait();
  alone(handle, goOn, wait).finally(() => setElsewhere(false));
}

/** Whether another tab receives an answer.
 * @param {Message} message */
export const isElsewhere = ({ id, complete }) => !complete && elsewhere.has(id);

/** The answer that a conversation receives, or whose tools run.
 * @param {string} chat */
export const runningAnswer = (chat) => running.get(chat)?.message;

/** @param {string} chat */
export const stopAnswer = (chat) => running.get(chat)?.stop.abort();

/** The error of the last failed answer to a message.
 * @param {string | null} parent */
export const failureOf = (parent) => failures.get(parent);

/** @param {string | null} parent */
export const forgetFailure = (parent) => failures.delete(parent);

/** Receives an answer to a message: a new version if it has one already.
 * @param {Conversation} chat @param {string | null} parent @param {Message} [begun]  the version that the new one goes on with */
export async function answer(chat, parent, begun) {
  const settings = settingsOf(chat);
  if (!chat.settings) {
    chat.settings = settings;  // later changes of the defaults do not change this conversation
    store.saveFields(chat);
  }
  const body = requestOf(branchOf(chat.messages, parent), settings, begun);
  const message = newAnswer(chat, parent, settings, begun);
  const before = chat.shown;
  failures.delete(parent);
  store.keep(message);
  chat.shown = message.id;
  await follow(chat, message, (signal) => chunksWithTools(chat, message, body, signal), before);
}

/** Adds the conversation's tools to a request, then yields the chunks of its answer.
 * @param {Conversation} chat @param {Message} message */
async function* chunksWithTools(chat, message, body, signal) {
  await offerTools(chat, message, body, signal, () => showProgress(chat, message))
    .catch((error) => notify("mcp", signal.aborted ? "" : error.message));
  yield* newChunks(message, body, signal);
}

/** Goes on with an answer that a reload or a closed tab has interrupted. Resolves to false if its conversation receives another
 * one now.
 * @param {import("./resume.js").Handle} handle @param {boolean} isInUse */
async function resumeAnswer(handle, isInUse) {
  if (running.has(handle.chat)) return false;
  const chat = store.conversations.get(handle.chat);
  const message = messageOfAnswer(handle, chat);
  if (!message) return true;
  store.keep(message);
  const before = chat.shown === message.id ? message.parent : chat.shown;
  const isNear = message.parent === null || branchOf(chat.messages, before).some(({ id }) => id === message.parent);
  // Does not switch to this answer while the user is reading or editing another version.
  if (isInUse ? before === message.parent : isNear) chat.shown = message.id;
  await follow(chat, message, (signal) => restOfChunks(message, handle, signal), before, !isInUse);
  return true;
}

/**
 * Receives an answer until it is over, saves it, and runs the tools that it calls.
 * @param {Conversation} chat @param {Message} message @param {(signal: AbortSignal) => AsyncIterable<any>} chunks
 * @param {string | null} before  what was shown before @param {boolean} [showsEnd]
 */
async function follow(chat, message, chunks, before, showsEnd = true) {
  const stop = new AbortController();
  running.set(chat.id, { message, stop });
  store.saveProgress(chat, message, false);
  view.showList();
  if (view.isOpen(chat)) {
    view.show();
    if (showsEnd) view.showEnd();
    say("Answering");
  }
  let timer, saved = -kSaveMs;
  const save = () => {
    clearTimeout(timer);
    timer = undefined;
    if (isBlank(chat, message)) return;
    saved = performance.now();
    store.saveProgress(chat, message);
  };
  const isOver = await receive(message, chunks(stop.signal), stop.signal, () => {
    showProgress(chat, message);
    // A timer alone would be late in a hidden tab, where browsers run timers once a minute.
    if (performance.now() - saved >= kSaveMs) save();
    else timer ??= setTimeout(save, kSaveMs);
  });
  clearTimeout(timer);
  running.delete(chat.id);
  if (store.conversations.get(chat.id) !== chat) {  // deleted; the user may bring it back
    message.complete = isOver;
    if (isBlank(chat, message)) chat.messages.delete(message.id);
    if (!chat.messages.has(chat.shown)) chat.shown = before;
    return releaseAnswer(message);
  }
  const isSaved = finish(chat, message, before, isOver);
  if (view.isOpen(chat)) view.show();
  // Screen readers read the answer once, not each token. Errors are alerts of their own.
  if (view.isOpen(chat) && !message.error) say(`Answer: ${message.content}`);
  if (isOver && canRun(chat) && message.calls.length && chat.messages.has(message.id)) runTools(chat, message, message.id, false);
  await isSaved;
  if (isOver) closeAnswer(message);
  releaseAnswer(message);
}

/**
 * Runs the calls of an answer that the page can run. The model goes on once all have results.
 * @param {Conversation} chat @param {Message} message @param {string} last  the end of its branch @param {boolean} isWanted  by the user
 */
export async function runTools(chat, message, last, isWanted) {
  const stop = new AbortController();
  running.set(chat.id, { message, stop });
  const show = () => {
    if (view.isOpen(chat)) view.show();
    return view.isOpen(chat);
  };
  const end = await runCalls(chat, last, { signal: stop.signal, isWanted, onChange: show }).finally(() => running.delete(chat.id));
  if (store.conversations.get(chat.id) !== chat) return;  // deleted
  if (end !== null) answer(chat, end);
  else show();
}

/**
 * Ends an answer. After a failed Retry, shows the previous version; text that arrived stays as a version.
 * @param {Conversation} chat @param {Message} message @param {string | null} before  what was shown before the attempt
 * @param {boolean} isOver  else a reload may get the rest
 */
function finish(chat, message, before, isOver) {
  const isVersion = before !== message.parent;
  const isFailure = message.error !== undefined || message.finish === "stopped";
  message.complete = isOver;
  const isNothing = isBlank(chat, message);
  if (isFailure && isNothing) store.drop(chat, message);
  if (isFailure && (isNothing || (isVersion && message.error))) {
    if (message.error) failures.set(message.parent, message.error);
    if (chat.shown === message.id) chat.shown = before;
  }
  if (chat.messages.has(message.id)) return store.append(chat, [message], chat.shown === message.id ? message.id : chat.leaf);
  return store.saveShown(chat);
}

/** @param {Conversation} chat @param {Message} message */
function showProgress(chat, message) {
  if (view.isOpen(chat)) view.showProgress(message);
}
