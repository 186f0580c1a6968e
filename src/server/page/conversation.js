// The open conversation: shows its branch, sends messages, receives answers, switches versions.
import { addressed, showAddress } from "./address.js";
import { newAnswer, receive, requestOf } from "./answer.js";
import { messageText, showChips, showFiles, showGauge } from "./composer.js";
import { byId, notify, say } from "./dom.js";
import { saveDraft, saveFiles } from "./drafts.js";
import { clearLog, drawLog, isScrolledToEnd, scrollLog, turnOf } from "./log.js";
import { isEmpty, newMessage } from "./message.js";
import { alone, closeAnswer, messageOfAnswer, newChunks, openAnswers, releaseAnswer, restOfChunks } from "./resume.js";
import { settingsOf } from "./settings.js";
import { maxContext } from "./server_state.js";
import * as store from "./store.js";
import { activityOf, canRun, offerTools, openCalls, runCalls } from "./tool_loop.js";
import { branchOf, leafBelow, versionsOf } from "./tree.js";
import { session } from "./web_storage.js";

/**
 * @typedef {import("./message.js").Message} Message
 * @typedef {import("./message.js").Conversation} Conversation
 */

const kOpenItem = "nibble.open";  // sessionStorage key: id of the conversation to reopen after a reload
const kSaveMs = 200;              // maximum time that received text stays unsaved

/** @type {Conversation} */
export let open = store.newConversation();
/** @type {Message[]} */
let branch = [];
/** @type {Map<string, {message: Message, stop: AbortController}>} */
const running = new Map();  // by conversation; the user may have another conversation open
/** @type {Map<string | null, string>} */
const failures = new Map();  // by parent message: the error of the last failed answer
let showList = () => {};

export const isRunning = () => running.has(open.id);

/** @param {() => void} onListChange */
export function setUpConversation(onListChange) {
  showList = onListChange;
  const wanted = addressed();
  const known = store.conversations.get(wanted ?? session.get(kOpenItem));
  if (known) open = known;
  reportMissing(wanted, known);
  showOpenAddress(false);
  addEventListener("popstate", () => {
    const id = addressed();
    const chat = store.conversations.get(id);
    reportMissing(id, chat);
    openConversation(chat ?? store.newConversation(), false);
  });
  // While the page is in the browser's back-forward cache, it learns nothing from other tabs.
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  addEventListener("pagehide", () => store.saveAtOnce([...running.values()].map(({ message }) => message)));
  const typed = byId("input").value;  // text typed while the conversations were loading
  if (typed && typed !== open.draft) saveDraft(open, [open.draft, typed].filter(Boolean).join("\n"));
  byId("input").value = open.draft;
  showConversation();
  for (const handle of openAnswers()) alone(handle.id, () => resumeAnswer(handle));
}

const reportMissing = (id, chat) => notify("missing", id !== null && !chat ? "The conversation of this address is not in this browser." : "");

// A conversation without messages may be gone after a reload: it has no address.
/** @param {boolean} isStep */
function showOpenAddress(isStep) {
  session.set(kOpenItem, open.id);
  showAddress(open.messages.size ? open.id : null, isStep);
}

/** @param {Conversation} chat @param {boolean} isStep  adds it to the browser's history */
export function openConversation(chat, isStep = true) {
  if (isStep) notify("missing", "");
  open = chat;
  clearLog();
  showOpenAddress(isStep);
  byId("input").value = chat.draft;
  showList();
  showConversation();
  scrollLog(Infinity);
}

export function showConversation() {
  branch = branchOf(open.messages, open.shown);
  const last = branch.at(-1);
  const waiting = openCalls(branch);
  // Show an empty answer below an unanswered question: the page was closed, or no text arrived.
  if (last && last.role !== "assistant" && !waiting)
    branch.push(newMessage(open.id, last.id, { id: `after ${last.id}`, role: "assistant", reasoning: "", calls: [], finish: "none" }));
  const versions = versionsOf(open.messages);
  const scrolled = isScrolledToEnd() ? Infinity : byId("log").scrollTop;
  drawLog(branch, (message) => stateOf(message, versions.get(message.parent) ?? []));
  byId("welcome").hidden = branch.length > 0;
  showFiles(open);
  showChips(open);
  showGauge(branch, maxContext);
  byId("export-json").disabled = byId("export-markdown").disabled = branch.length === 0;
  byId("send").hidden = isRunning();
  byId("stop").hidden = !isRunning();
  scrollLog(scrolled);
}

/** @param {Message} message @param {Message[]} versions */
function stateOf(message, versions) {
  const waiting = openCalls(branch);
  const isStored = versions.includes(message);
  const failure = message.role === "assistant" && !message.error ? failures.get(message.parent) : undefined;
  const isRunningNow = running.get(open.id)?.message === message;
  const state = {
    isRunning: isRunningNow,
    activity: isRunningNow ? activityOf(open.id) : undefined,
    version: isStored ? versions.indexOf(message) : 0,
    numVersions: isStored ? versions.length : 1,
    failure: failure && isStored ? `Retry failed. ${failure}` : failure,
    showVersion: (by) => showVersion(versions[versions.indexOf(message) + by], by),
  };
  if (isRunning()) return state;
  const results = (values) => {
    let parent = branch.at(-1).id;
    send(values.map((value) => {
      const result = newMessage(open.id, parent, { role: "tool", ...value });
      parent = result.id;
      return result;
    }));
  };
  return {
    ...state,
    edit: message.role === "user" ? (text) => send([newMessage(open.id, message.parent, { role: "user", content: text })]) : undefined,
    retry: message.role === "assistant" ? () => answer(open, message.parent) : undefined,
    ...(waiting?.message === message ? { openCalls: waiting.calls, sendResults: results,
      run: canRun(open) ? () => runTools(open, message, branch.at(-1).id, true) : undefined } : {}),
  };
}

/** Shows another version and the messages after it. @param {Message} message @param {number} by */
function showVersion(message, by) {
  open.shown = leafBelow(open.messages, message.id);
  open.leaf = open.shown;
  failures.delete(message.parent);
  store.saveShown(open);
  showConversation();
  const buttons = [...turnOf(message.id).element.querySelectorAll(".versions button")];
  const [same, other] = by < 0 ? buttons : buttons.reverse();
  (same.disabled ? other : same).focus();
}

/** Sends the draft. @param {string} text  of the field */
export function ask(text) {
  const content = messageText(text, open.files);
  byId("input").value = "";
  send([newMessage(open.id, open.shown, { role: "user", content })], { endsDraft: true });
}

/** Adds messages, each the parent of the next, and receives the answer. @param {Message[]} messages */
function send(messages, options = {}) {
  const last = messages.at(-1).id;
  open.shown = last;
  store.append(open, messages, last, options);
  showOpenAddress(false);
  answer(open, last);
  byId("input").focus();
}

export const stop = () => running.get(open.id)?.stop.abort();

/** @param {string} chat */
export const stopAnswer = (chat) => running.get(chat)?.stop.abort();

/** Receives an answer to a message: a new version if it has one already. @param {Conversation} chat @param {string | null} parent */
async function answer(chat, parent) {
  const settings = settingsOf(chat);
  if (!chat.settings) {
    chat.settings = settings;  // later changes of the defaults do not change this conversation
    store.saveFields(chat);
  }
  const body = requestOf(branchOf(chat.messages, parent), settings);
  const message = newAnswer(chat.id, parent, settings);
  const before = chat.shown;
  failures.delete(parent);
  store.keep(message);
  chat.shown = message.id;
  await follow(chat, message, (signal) => chunksWithTools(chat, message, body, signal), before);
}

/** Adds the conversation's tools to a request, then yields the chunks of its answer. @param {Conversation} chat @param {Message} message */
async function* chunksWithTools(chat, message, body, signal) {
  await offerTools(chat, message, body, signal, () => showProgress(chat, message))
    .catch((error) => notify("mcp", signal.aborted ? "" : error.message));
  yield* newChunks(message, body, signal);
}

/** Goes on with an answer that a reload or a closed tab has interrupted. @param {import("./resume.js").Handle} handle */
async function resumeAnswer(handle) {
  const chat = store.conversations.get(handle.chat);
  const message = messageOfAnswer(handle, chat);
  if (!message || running.has(chat.id)) return;
  store.keep(message);
  const before = chat.shown === message.id ? message.parent : chat.shown;
  const isNear = message.parent === null || branchOf(chat.messages, before).some(({ id }) => id === message.parent);
  if (isNear) chat.shown = message.id;
  await follow(chat, message, (signal) => restOfChunks(message, handle, signal), before);
}

/** @param {Conversation} chat @param {Message} message @param {(signal: AbortSignal) => AsyncIterable<any>} chunks @param {string | null} before  what was shown before */
async function follow(chat, message, chunks, before) {
  const stop = new AbortController();
  running.set(chat.id, { message, stop });
  store.saveProgress(chat, message, false);
  showList();
  if (chat === open) showConversation();
  if (chat === open) scrollLog(Infinity);
  if (chat === open) say("Answering");
  let timer, saved = -kSaveMs;
  const save = () => {
    clearTimeout(timer);
    timer = undefined;
    if (isEmpty(message)) return;
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
  if (store.conversations.get(chat.id) !== chat) return releaseAnswer(message);  // deleted
  const isSaved = finish(chat, message, before, isOver);
  if (chat === open) showConversation();
  // Screen readers read the answer once, not each token. Errors are alerts of their own.
  if (chat === open && !message.error) say(`Answer: ${message.content}`);
  if (isOver && canRun(chat) && message.calls.length && chat.messages.has(message.id)) runTools(chat, message, message.id, false);
  await isSaved;
  if (isOver) closeAnswer(message);
  releaseAnswer(message);
}

/**
 * Runs the calls of an answer that the page can run. The model goes on once all have results.
 * @param {Conversation} chat @param {Message} message @param {string} last  the end of its branch @param {boolean} isWanted  by the user
 */
async function runTools(chat, message, last, isWanted) {
  const stop = new AbortController();
  running.set(chat.id, { message, stop });
  const show = () => chat === open && (showConversation(), true);
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
  if (isFailure && isEmpty(message)) store.drop(chat, message);
  if (isFailure && (isEmpty(message) || (isVersion && message.error))) {
    if (message.error) failures.set(message.parent, message.error);
    if (chat.shown === message.id) chat.shown = before;
  }
  if (chat.messages.has(message.id)) return store.append(chat, [message], chat.shown === message.id ? message.id : chat.leaf);
  return store.saveShown(chat);
}

let isDrawing = false;
function showProgress(chat, message) {
  if (chat !== open || isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    const at = branch.indexOf(message);
    if (!isRunning() || at < 0) return;
    const follows = isScrolledToEnd();
    redraw(message);
    if (follows) scrollLog(Infinity);
  });
}

/** @param {Message} message */
function redraw(message) {
  const versions = versionsOf(open.messages).get(message.parent) ?? [];
  turnOf(message.id)?.update(stateOf(message, versions));
}

/** Shows a change made in another tab. @param {import("./store.js").Change} change @param {boolean} isNews */
export function followChange(change, isNews) {
  if (change.kind === "deleted") stopAnswer(change.chat);
  if (change.kind === "deleted" && change.chat === open.id) {
    const text = byId("input").value, { files } = open;
    openConversation(store.newConversation());
    if (text) saveDraft(open, byId("input").value = text);  // keeps what the user is typing
    if (files.length) saveFiles(open, files).then(() => showFiles(open));
  }
  showList();
  const chat = store.conversations.get(change.chat);
  if (!chat) return;
  // `open` may be a new conversation that the store did not contain until now.
  if (change.chat === open.id && chat !== open) open = chat;
  if (change.kind === "draft" && chat === open) byId("input").value = change.text;
  if (change.kind === "dropped" && chat.shown === change.id) chat.shown = leafBelow(chat.messages, chat.leaf);
  if (change.kind === "messages") for (const message of change.messages) failures.delete(message.parent);
  // Progress of an answer must not switch the user back to it from another version.
  const shows = change.kind === "shown" || (change.kind === "messages" && (isNews || change.messages.some(({ id }) => id === chat.shown)));
  if (shows && !running.has(chat.id) && chat.messages.has(change.shown)) [chat.shown, chat.leaf] = [change.shown, change.leaf];
  if (chat !== open || change.kind === "draft") return;
  if (change.kind === "files") return showFiles(open);
  const isProgress = change.kind === "messages" && change.messages.length === 1 && branch.at(-1)?.id === change.messages[0].id;
  if (isProgress && chat.shown === branch.at(-1).id) redraw(chat.messages.get(chat.shown));
  else showConversation();
}

/** The last answer with text, complete or not. */
export const lastAnswer = () => branch.filter((message) => message.role === "assistant" && message.content).at(-1);

/** Presses a button of the last turn of a role: `.edit`, `.retry`. @param {string} role @param {string} button */
export function pressLast(role, button) {
  const message = branch.filter((known) => known.role === role).at(-1);
  const found = message && turnOf(message.id)?.element.querySelector(button);
  if (found && !found.hidden) found.click();
}
