// The chat page: starts it, lists the conversations and handles the user's actions.
import { byId, copyText, notify, reportStart, say } from "../base/dom.js";
import { addIcons } from "../base/icons.js";
import { onKeyNeeded } from "../client/api.js";
import { askForKey } from "../client/key_dialog.js";
import { followServer } from "../client/server_state.js";
import { copyFormulas } from "../reading/math.js";
import { addPresets, presets } from "../settings/presets.js";
import { saveSettings, settingsOf } from "../settings/settings.js";
import { applyTheme, hasUnsavedSettings, setUpSettings } from "../settings/settings_dialog.js";
import { hasUnsavedDraft, saveDraft } from "../storage/drafts.js";
import { exportAll, exportJson, exportMarkdown, importAll } from "../storage/exchange.js";
import { moveOldConversations } from "../storage/old_storage.js";
import * as store from "../storage/store.js";
import { followClosedPages, recoverUnsaved } from "../storage/unsaved.js";
import { hasUnsavedText, sweepUnsent } from "../storage/unsent.js";
import { onTokenNeeded } from "../tools/mcp_servers.js";
import { askForToken } from "../tools/token_dialog.js";
import { setUpChips, setUpComposer, showChips } from "./composer.js";
import * as conversation from "./conversation.js";
import { stopAnswer } from "./running.js";
import { setUpSidebar, showList } from "./sidebar.js";
import { removeWithUndo, setUpUndo, undoDelete } from "./undo.js";

reportStart();
addIcons();

// Keyboards on screens have no Shift+Enter: there, Enter makes a new line, as their key says, and the button sends.
const isTouch = matchMedia("(pointer: coarse)");
const labelEnter = () => { byId("input").enterKeyHint = isTouch.matches ? "enter" : "send"; };
isTouch.addEventListener("change", labelEnter);
labelEnter();

let isReady = false;  // the conversations are loaded

function openConversation(chat, words = []) {
  if (!isReady) return;  // the text in the field belongs to no conversation yet
  conversation.openConversation(chat, true, words);
  toggleList(false);
  byId("input").focus();
}

function remove(chat) {
  stopAnswer(chat.id);
  removeWithUndo(chat);
  if (chat.id === conversation.open.id) conversation.openConversation(store.newConversation());
  showList();
  byId("undo-delete").focus();
}

function send() {
  const text = byId("input").value;
  if (isReady && (text.trim() || conversation.open.files.length) && !conversation.isRunning()) conversation.ask(text);
}

async function copyLast() {
  const message = conversation.lastAnswer();
  if (!message) return;
  await copyText(message.content);
  say("Copied");
}

async function importFile() {
  const [file] = byId("import-file").files;
  byId("import-file").value = "";
  if (!file) return;
  try {
    const outcome = await importAll(await file.text(), addPresets);
    notify("import", "");
    byId("outcome").textContent = outcome;
    if (!byId("input").value) byId("input").value = conversation.open.draft;  // may come from an import
    conversation.showConversation();
  } catch (error) {
    notify("import", `"${file.name}" was not imported: ${error.message}.`);
  }
  showList();
}

function focusSearch() {
  toggleList(true);
  byId("search").focus();
}

function toggleList(isShown) {
  document.body.classList.toggle("with-list", isShown);
  byId("toggle-list").setAttribute("aria-expanded", String(isShown));
}

// While an input method composes a word, as for Japanese, its keys belong to it: Enter takes the word, Escape drops it, arrows
// choose another. Safari reports the key that ends the composition after its end, with the code 229.
addEventListener("keydown", (event) => { if (event.isComposing || event.keyCode === 229) event.stopPropagation(); }, true);

// Keyed by event.code, the key's position: Option on a Mac and other layouts change event.key.
const kShortcuts = { KeyN: () => openConversation(store.newConversation()), KeyC: copyLast,
  KeyR: () => conversation.pressLast("assistant", ".retry"),
  KeyS: focusSearch, KeyZ: undoDelete, KeyE: () => byId("effort-now").focus(), Comma: () => byId("open-settings").click(), KeyK: () => byId("shortcuts").showModal() };

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") return document.body.classList.contains("with-list") ? toggleList(false) : conversation.stop();
  if (!event.altKey || event.ctrlKey || event.metaKey || !kShortcuts[event.code]) return;
  event.preventDefault();
  kShortcuts[event.code]();
});

byId("input").addEventListener("keydown", (event) => {
  if (event.key === "ArrowUp" && byId("input").value === "") {
    event.preventDefault();
    conversation.pressLast("user", ".edit");
  }
  if (event.key !== "Enter" || event.shiftKey) return;
  if (isTouch.matches && !event.ctrlKey && !event.metaKey) return;  // a new line
  event.preventDefault();
  send();
});

byId("input").addEventListener("input", () => {
  if (!isReady) return;
  saveDraft(conversation.open, byId("input").value);
  if (conversation.open.messages.size === 0) showList();  // the title of an empty conversation is its draft
});

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
document.addEventListener("copy", copyFormulas);
byId("stop").addEventListener("click", conversation.stop);
byId("new").addEventListener("click", () => openConversation(store.newConversation()));
byId("export-json").addEventListener("click", () => exportJson(conversation.open));
byId("export-markdown").addEventListener("click", () => exportMarkdown(conversation.open));
byId("export-all").addEventListener("click", () => exportAll(presets()));
byId("import").addEventListener("click", () => byId("import-file").click());
byId("import-file").addEventListener("change", importFile);
byId("toggle-list").addEventListener("click", () => toggleList(!document.body.classList.contains("with-list")));
byId("open-shortcuts").addEventListener("click", () => byId("shortcuts").showModal());

/** @param {any} settings  of this conversation and of new ones @param {boolean} isSaved */
function changeSettings(settings, isSaved, chat = conversation.open) {
  applyTheme(settings.theme);
  chat.settings = settings;
  if (chat.messages.size && store.conversations.get(chat.id) === chat) store.saveFields(chat);
  showChips(conversation.open);
  notify("settings", isSaved ? "" : "The settings last only until the page is closed: the browser's storage is full or blocked.");
}
let ofDialog = conversation.open;  // the user may go back to another one while the dialog is open
const openedSettings = () => settingsOf(ofDialog = conversation.open);
setUpSettings(openedSettings, (settings, isSaved) => changeSettings(settings, isSaved, store.conversations.get(ofDialog.id) ?? ofDialog));
setUpChips((settings) => changeSettings(settings, saveSettings(settings)));
setUpUndo(openConversation);
addEventListener("beforeunload", (event) => { if (store.hasUnsaved() || hasUnsavedDraft() || hasUnsavedSettings() || hasUnsavedText()) event.preventDefault(); });
onKeyNeeded(askForKey);
onTokenNeeded(askForToken);

await store.load(conversation.followChange, notify);
setUpSidebar({ openId: () => conversation.open.id, open: openConversation, remove });
store.reportDamage((await moveOldConversations()) + (await recoverUnsaved()));
if (store.isLoaded) sweepUnsent((chat) => store.conversations.has(chat));
conversation.setUpConversation(showList);
followClosedPages();
setUpComposer(() => conversation.open, showList);
showList();
isReady = true;
byId("log").removeAttribute("aria-busy");

followServer(conversation.showConversation);
