// The chat page: shows a conversation, sends messages and handles the user's actions.
import { newAnswer, receive, requestOf } from "./answer.js";
import { getJson, onKeyNeeded } from "./api.js";
import { applyTheme, askForKey, setUpSettings } from "./dialogs.js";
import { byId, copyText, h, say } from "./dom.js";
import { exportJson, exportMarkdown } from "./export.js";
import * as store from "./store.js";
import { showTurn } from "./turn.js";

let settings = store.loadSettings();
let open = store.allConversations().find(store.isOpen) ?? store.newConversation();
let turns = [];  // results of showTurn(), one per message of the open conversation
// AbortController of each conversation that is being answered. The user may have another conversation open.
const running = new Map();

const isRunning = () => running.has(open);
const isLast = (at) => at === open.messages.length - 1;

function save(conversation) {
  byId("notice").textContent = store.saveConversation(conversation) ? "" :
    "This conversation is not saved: the browser's storage for this page is full. Export and delete conversations to make room.";
}

function showConversation() {
  const scrolled = isScrolledToEnd() ? Infinity : byId("log").scrollTop;
  turns = open.messages.map((message, at) => showTurn(message, actionsOf(message, at)));
  byId("turns").replaceChildren(...turns.map((turn) => turn.element));
  turns.forEach((turn, at) => turn.update(isRunning() && isLast(at)));
  byId("welcome").hidden = turns.length > 0;
  byId("export-json").disabled = byId("export-markdown").disabled = turns.length === 0;
  byId("send").hidden = isRunning();
  byId("stop").hidden = !isRunning();
  scrollTo(scrolled);
}

function actionsOf(message, at) {
  if (isRunning()) return {};
  return {
    edit: message.role === "user" ? (text) => askFrom(at, { role: "user", content: text }) : undefined,
    retry: message.role === "assistant" ? () => askFrom(at) : undefined,
    sendResults: isLast(at) ? (results) => askFrom(at + 1, ...results) : undefined,
  };
}

function showList() {
  const items = store.allConversations().map((conversation) => {
    const title = store.titleOf(conversation);
    const current = conversation.id === open.id ? "true" : undefined;
    return h("li", {},
      h("button", { type: "button", class: "open", "aria-current": current, onclick: () => openConversation(conversation) }, title),
      h("button", { type: "button", class: "delete", "aria-label": `Delete: ${title}`, onclick: () => remove(conversation) }, "×"));
  });
  byId("conversations").replaceChildren(...items);
}

function openConversation(conversation) {
  // A running answer goes to its conversation's object, so open that object, not its copy in the storage.
  open = [open, ...running.keys()].find((known) => known.id === conversation.id) ?? conversation;
  store.rememberOpen(open);
  showList();
  showConversation();
  scrollTo(Infinity);
  toggleList(false);
  byId("input").focus();
}

function remove(conversation) {
  if (!confirm(`Delete "${store.titleOf(conversation)}"?`)) return;
  for (const [known, stop] of running) if (known.id === conversation.id) stop.abort();
  store.deleteConversation(conversation);
  byId("notice").textContent = "";
  if (conversation.id === open.id) return openConversation(store.newConversation());
  showList();
  byId("new").focus();
}

// Replaces the messages from index `at` on, and requests the next answer.
function askFrom(at, ...messages) {
  open.messages.splice(at, Infinity, ...messages);
  answer(open);
  byId("input").focus();
}

async function answer(conversation) {
  const body = requestOf(conversation.messages, settings);
  const message = newAnswer(settings);
  const stop = new AbortController();
  conversation.messages.push(message);
  running.set(conversation, stop);
  save(conversation);
  store.rememberOpen(open);
  showList();
  showConversation();
  scrollTo(Infinity);
  say("Answering");
  await receive(message, body, stop.signal, () => showProgress(conversation));
  running.delete(conversation);
  // Otherwise the conversation was deleted, or could not be saved before.
  if (store.allConversations().some((known) => known.id === conversation.id)) save(conversation);
  if (conversation !== open) return;
  showConversation();
  // Screen readers read the answer once, not each token. Errors are alerts of their own.
  if (!message.error) say(`Answer: ${message.content}`);
}

let isDrawing = false;
function showProgress(conversation) {
  if (conversation !== open || isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    if (!isRunning()) return;
    const follows = isScrolledToEnd();
    turns.at(-1).update(true);
    if (follows) scrollTo(Infinity);
  });
}

function isScrolledToEnd() {
  const log = byId("log");
  return log.scrollHeight - log.scrollTop - log.clientHeight < 40;
}

function scrollTo(top) {
  byId("log").scrollTop = Math.min(top, byId("log").scrollHeight);
}

function send() {
  const text = byId("input").value;
  if (!text.trim() || isRunning()) return;
  byId("input").value = "";
  askFrom(open.messages.length, { role: "user", content: text });
}

const stop = () => running.get(open)?.abort();

function lastOf(role) {
  return open.messages.map((message) => message.role).lastIndexOf(role);
}

function editLast() {
  turns[lastOf("user")]?.element.querySelector(".edit")?.click();
}

function retryLast() {
  turns[lastOf("assistant")]?.element.querySelector(".retry")?.click();
}

async function copyLast() {
  const message = open.messages[lastOf("assistant")];
  if (!message) return;
  await copyText(message.content);
  say("Copied");
}

function toggleList(isShown) {
  document.body.classList.toggle("with-list", isShown);
  byId("toggle-list").setAttribute("aria-expanded", String(isShown));
}

// Keyed by event.code, the key's position: Option on a Mac and other layouts change event.key.
const kShortcuts = { KeyN: () => openConversation(store.newConversation()), KeyR: retryLast, KeyC: copyLast,
  Comma: () => byId("open-settings").click(), KeyK: () => byId("shortcuts").showModal() };

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") return document.body.classList.contains("with-list") ? toggleList(false) : stop();
  if (!event.altKey || event.ctrlKey || event.metaKey || !kShortcuts[event.code]) return;
  event.preventDefault();
  kShortcuts[event.code]();
});

byId("input").addEventListener("keydown", (event) => {
  if (event.key === "ArrowUp" && byId("input").value === "") {
    event.preventDefault();
    editLast();
  }
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
byId("stop").addEventListener("click", stop);
byId("new").addEventListener("click", () => openConversation(store.newConversation()));
byId("export-json").addEventListener("click", () => exportJson(open));
byId("export-markdown").addEventListener("click", () => exportMarkdown(open));
byId("toggle-list").addEventListener("click", () => toggleList(!document.body.classList.contains("with-list")));
byId("open-shortcuts").addEventListener("click", () => byId("shortcuts").showModal());
addEventListener("storage", showList);  // another tab has changed the storage
addEventListener("pagehide", () => [...running.keys()].forEach(store.saveConversation));

setUpSettings((changed, isSaved) => {
  settings = changed;
  applyTheme(settings.theme);
  if (!isSaved) byId("notice").textContent = "The settings last only until the page is closed: the browser's storage is full.";
});
onKeyNeeded(askForKey);
showList();
showConversation();

async function showModel() {
  try {
    const { model, state, setup } = await getJson("status.json");
    byId("model").textContent = setup ? `${model} on ${setup.backend}` : `${model} (${state})`;
    if (!setup) setTimeout(showModel, 1000);
  } catch (error) {
    byId("model").textContent = error.message;
  }
}
showModel();
