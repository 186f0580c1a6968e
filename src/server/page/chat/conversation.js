// The open conversation: shows its branch, sends messages, switches versions.
import { byId, notify } from "../base/dom.js";
import { session } from "../base/web_storage.js";
import { maxContext } from "../client/server_state.js";
import { requestPersistence } from "../storage/database.js";
import { saveDraft, saveFiles } from "../storage/drafts.js";
import { newMessage } from "../storage/message.js";
import * as store from "../storage/store.js";
import { branchOf, leafBelow, newVersion, titleOf, versionsOf } from "../storage/tree.js";
import { activityOf, canRun, openCalls } from "../tools/tool_loop.js";
import { addressed, showAddress } from "./address.js";
import { messageText, showChips, showFiles, showGauge } from "./composer.js";
import { markFound, turnToFound } from "./found.js";
import { clearLog, drawLog, isScrolledToEnd, scrollLog, setUpLog, turnOf, whenShown } from "./log.js";
import { answer, failureOf, forgetFailure, isElsewhere, runningAnswer, runTools, setUpAnswers, stopAnswer } from "./running.js";

/**
 * @typedef {import("../storage/message.js").Message} Message
 * @typedef {import("../storage/message.js").Conversation} Conversation
 */

const kOpenItem = "nibble.open";  // sessionStorage key: id of the conversation to reopen after a reload

const kTitle = document.title;

/** @type {Conversation} */
export let open = store.newConversation();
/** @type {Message[]} */
let branch = [];
let showList = () => {};

/** Whether it receives an answer, or runs tools. */
export const isRunning = () => runningAnswer(open.id) !== undefined;
export const stop = () => stopAnswer(open.id);

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
  const typed = byId("input").value;  // text typed while the conversations were loading
  if (typed && typed !== open.draft) saveDraft(open, [open.draft, typed].filter(Boolean).join("\n"));
  byId("input").value = open.draft;
  setUpLog();
  showConversation();
  setUpAnswers({ isOpen: (chat) => chat === open, show: showConversation, showProgress, showEnd: () => scrollLog(Infinity), showList });
}

const reportMissing = (id, chat) => notify("missing", id !== null && !chat ? "The conversation of this address is not in this browser." : "");

// A conversation without messages may be gone after a reload: it has no address.
/** @param {boolean} isStep */
function showOpenAddress(isStep) {
  session.set(kOpenItem, open.id);
  showAddress(open.messages.size ? open.id : null, isStep);
}

/** @param {Conversation} chat @param {boolean} isStep  adds it to the browser's history @param {string[]} words  of the search that found it */
export function openConversation(chat, isStep = true, words = []) {
  if (isStep) notify("missing", "");
  open = chat;
  clearLog();
  showOpenAddress(isStep);
  byId("input").value = chat.draft;
  showList();
  const found = turnToFound(chat, words);
  markFound(null, []);
  showConversation();
  scrollLog(Infinity);
  if (found) whenShown(found, (element) => markFound(element, words));
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
  document.body.classList.toggle("empty", branch.length === 0);
  showFiles(open);
  showChips(open);
  showGauge(branch, maxContext);
  document.title = open.messages.size ? `${titleOf(open)} – ${kTitle}` : kTitle;
  byId("export-json").disabled = byId("export-markdown").disabled = branch.length === 0;
  byId("send").hidden = isRunning();
  byId("stop").hidden = !isRunning();
  scrollLog(scrolled);
}

/** @param {Message} message @param {Message[]} versions */
function stateOf(message, versions) {
  const waiting = openCalls(branch);
  const isStored = versions.includes(message);
  const failure = message.role === "assistant" && !message.error ? failureOf(message.parent) : undefined;
  const isRunningNow = runningAnswer(open.id) === message;
  const state = {
    isRunning: isRunningNow,
    isElsewhere: isElsewhere(message),
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
    ...actionsOf(message),
    ...(waiting?.message === message ? { openCalls: waiting.calls, sendResults: results,
      run: canRun(open) ? () => runTools(open, message, branch.at(-1).id, true) : undefined } : {}),
  };
}

/** @param {Message} message */
function actionsOf(message) {
  if (message.role === "user") return { edit: (text) => send([newVersion(open, message.parent, { role: "user", content: text })]) };
  if (message.role !== "assistant") return {};
  const isCut = !message.complete || message.error || ["length", "stopped"].includes(message.finish) || message.isEdited;
  const mayGoOn = isCut && !isElsewhere(message) && message === branch.at(-1) && !message.calls.length && (message.content || message.reasoning);
  return {
    edit: message.content && !message.calls.length ? (text) => saveEdited(message, text) : undefined,
    retry: () => answer(open, message.parent),
    goOn: mayGoOn ? () => answer(open, message.parent, message) : undefined,
  };
}

/** Adds a version of an answer that the user wrote.
 * @param {Message} message @param {string} content */
function saveEdited(message, content) {
  const { reasoning, isJson, effort } = message;
  const edited = newVersion(open, message.parent, { role: "assistant", content, reasoning, calls: [], isJson, effort, isEdited: true, finish: "stop" });
  open.shown = edited.id;
  store.append(open, [edited], edited.id);
  showConversation();
}

/** Shows another version and the messages after it.
 * @param {Message} message @param {number} by */
function showVersion(message, by) {
  open.shown = leafBelow(open.messages, message.id);
  open.leaf = open.shown;
  forgetFailure(message.parent);
  store.saveShown(open);
  showConversation();
  const buttons = /** @type {HTMLButtonElement[]} */ ([...turnOf(message.id).element.querySelectorAll(".versions button")]);
  const [same, other] = by < 0 ? buttons : buttons.reverse();
  (same.disabled ? other : same).focus();
}

/** Sends the draft.
 * @param {string} text  of the field */
export function ask(text) {
  const content = messageText(text, open.files);
  byId("input").value = "";
  send([newVersion(open, open.shown, { role: "user", content })], { endsDraft: true });
  requestPersistence().catch(() => {});  // the storage is blocked
}

/** Adds messages, each the parent of the next, and receives the answer.
 * @param {Message[]} messages */
function send(messages, options = {}) {
  const last = messages.at(-1).id;
  open.shown = last;
  store.append(open, messages, last, options);
  showOpenAddress(false);
  answer(open, last);
  byId("input").focus();
}

let isDrawing = false;
/** @param {Message} message */
function showProgress(message) {
  if (isDrawing) return;
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

/** Shows a change made in another tab.
 * @param {import("../storage/channel.js").Change} change @param {boolean} isNews */
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
  if (change.kind === "messages") for (const message of change.messages) forgetFailure(message.parent);
  // Progress of an answer must not switch the user back to it from another version.
  const shows = change.kind === "shown" || (change.kind === "messages" && (isNews || change.messages.some(({ id }) => id === chat.shown)));
  if (shows && !hidesEdit(chat, change.shown) && !runningAnswer(chat.id) && chat.messages.has(change.shown)) [chat.shown, chat.leaf] = [change.shown, change.leaf];
  if (chat !== open || change.kind === "draft") return;
  if (change.kind === "files") return showFiles(open);
  const isProgress = change.kind === "messages" && change.messages.length === 1 && branch.at(-1)?.id === change.messages[0].id;
  if (isProgress && chat.shown === branch.at(-1).id) redraw(chat.messages.get(chat.shown));
  else showConversation();
}

/** Whether a message that the user edits is not on the branch that ends there.
 * @param {Conversation} chat @param {string | null} end */
function hidesEdit(chat, end) {
  if (chat !== open) return false;
  const edited = branch.filter(({ id }) => turnOf(id)?.element.querySelector(":scope > form"));
  return edited.some((message) => !branchOf(chat.messages, end).includes(message));
}

/** The last answer with text, complete or not. */
export const lastAnswer = () => branch.filter((message) => message.role === "assistant" && message.content).at(-1);

/** Presses a button of the last turn of a role: `.edit`, `.retry`.
 * @param {string} role @param {string} button */
export function pressLast(role, button) {
  const message = branch.filter((known) => known.role === role).at(-1);
  const found = message && /** @type {HTMLElement | undefined} */ (turnOf(message.id)?.element.querySelector(button));
  if (found && !found.hidden) found.click();
}
