// The composer: attached files, which become text of the message when it is sent, the settings that are active, and how full the context is.
import { byId, h, notify, say } from "../base/dom.js";
import { kSampling, serverUrls, settingsOf } from "../settings/settings.js";
import { presets, presetWith } from "../settings/presets.js";
import { openSettings } from "../settings/settings_dialog.js";
import { saveFiles } from "../storage/drafts.js";
import { fenced } from "../storage/exchange.js";
import { conversations } from "../storage/store.js";

const kMostBytes = 1_000_000;    // of a file
const kLongPaste = 10_000;       // characters; a longer paste becomes a file

/** Inserts text where the cursor is, as if it was typed: it is part of the draft, and can be undone.
 * @param {string} text */
function insert(text) {
  const field = byId("input");
  const { selectionStart: begin, selectionEnd: end, value } = field;
  const separator = begin > 0 && value[begin - 1] !== "\n" ? "\n" : "";
  field.focus();
  if (!document.execCommand("insertText", false, separator + text)) {
    field.setRangeText(separator + text, begin, end, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

/** @param {Iterable<File>} files */
async function attach(files) {
  const chat = openChat();
  const faults = [];
  for (const file of files) {
    try {
      if (file.size > kMostBytes) throw new Error("it is larger than 1 MB");
      const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      if (text.includes("\0")) throw new Error("it is not a text file");
      add({ name: file.name, text }, chat);
    } catch (error) {
      faults.push(`"${file.name}" was not attached: ${error instanceof TypeError ? "it is not a text file" : error.message}.`);
    }
  }
  notify("attach", faults.join("\n"));
}

/**
 * @typedef {{name: string, text: string}} Attachment
 * @typedef {import("../storage/message.js").Conversation} Conversation
 */


let openChat = () => /** @type {any} */ (null);
let onChange = () => {};
let shown = /** @type {any[]} */ ([]);
let removed = /** @type {{chat: string, file: Attachment} | null} */ (null);  // the last one can be attached again

/** The message of a draft.
 * @param {string} text @param {Attachment[]} files */
export const messageText = (text, files) =>
  [text.trim() ? text : "", ...files.map((file) => fenced(file.text, file.name))].filter(Boolean).join("\n");

/** @param {Attachment} file @param {Conversation} chat */
function add(file, chat) {
  const known = conversations.get(chat.id) ?? chat;  // another tab may have added to it
  setFiles(known, [...known.files, file]);
  say(`Attached: ${file.name}`);
}

/** @param {Conversation} chat @param {Attachment[]} files */
function setFiles(chat, files) {
  saveFiles(chat, files);
  showFiles(openChat());
  onChange();
}

/** Shows the files of the draft: each can be removed, or become text of the field.
 * @param {Conversation} chat */
export function showFiles(chat) {
  const now = [chat.id, chat.files, removed];
  if (now.every((part, at) => part === shown[at])) return;  // keeps the focus
  shown = now;
  const without = (file) => chat.files.filter((other) => other !== file);
  const remove = (file) => {
    removed = { chat: chat.id, file };
    setFiles(chat, without(file));
    byId("undo-remove").focus();
  };
  const edit = (file) => {
    insert(fenced(file.text, file.name));
    setFiles(chat, without(file));
  };
  const undo = () => {
    const { file } = removed;
    removed = null;
    add(file, chat);
    byId("input").focus();
  };
  const chips = chat.files.map((file) => h("span", { class: "file" },
    h("button", { type: "button", dir: "auto", title: "Edit as text of the message", onclick: () => edit(file) }, file.name),
    h("span", {}, sizeText(file.text)),
    h("button", { type: "button", "aria-label": `Remove ${file.name}`, onclick: () => remove(file) }, "\u00d7")));
  if (removed?.chat === chat.id)
    chips.push(h("button", { type: "button", id: "undo-remove", onclick: undo }, `Attach ${removed.file.name} again`));
  byId("files").hidden = chips.length === 0;
  byId("files").replaceChildren(...chips);
}

const sizeText = (text) => (text.length < 1000 ? `${text.length} B` : `${(text.length / 1000).toFixed(text.length < 10_000 ? 1 : 0)} kB`);

/** @param {() => Conversation} open  the open conversation @param {() => void} onFiles */
export function setUpComposer(open, onFiles) {
  openChat = open;
  onChange = onFiles;
  byId("attach").addEventListener("click", () => byId("attach-file").click());
  byId("attach-file").addEventListener("change", async () => {
    const files = [...byId("attach-file").files];
    byId("attach-file").value = "";
    await attach(files);
  });
  byId("input").addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    const text = event.clipboardData.getData("text/plain");
    if (!text && files.length) {
      event.preventDefault();
      attach(files);
    } else if (text.length > kLongPaste) {
      event.preventDefault();
      add({ name: "pasted.txt", text }, openChat());
    }
  });
  // In all of the page: the browser would open a file that is dropped elsewhere, instead of the page.
  addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) event.preventDefault(); });
  addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    if (!document.querySelector("dialog[open]")) attach([...event.dataTransfer.files]);
  });
}

/** Shows the settings that change answers; each opens its field.
 * @param {Conversation} chat */
export function showChips(chat) {
  const settings = settingsOf(chat);
  const { effort, instructions, schema, tools, mcp, javascript } = settings;
  const numTools = tools ? JSON.parse(tools).length : 0;
  const chips = [];
  for (const { name, label } of kSampling) if (settings[name] !== "") chips.push([name, `${label}: ${settings[name]}`]);
  if (instructions) chips.push(["instructions", "Instructions"]);
  if (schema) chips.push(["schema", "JSON schema"]);
  if (numTools) chips.push(["tools", `Functions: ${numTools}`]);
  if (mcp) chips.push(["mcp", `MCP servers: ${serverUrls(mcp).length}`]);
  if (javascript) chips.push(["javascript", "JavaScript"]);
  const buttons = chips.map(([name, text]) => h("button", { type: "button", "data-setting": name, onclick: () => openSettings(name) }, text));
  byId("other-chips").replaceChildren(...buttons);
  byId("effort-now").value = effort;
  showPreset(settings);
}

/** The list of presets, if there are any.
 * @param {import("../settings/presets.js").Settings} settings */
function showPreset(settings) {
  const list = presets(), field = byId("preset-now");
  field.hidden = !list.length;
  if (document.activeElement === field) return;  // it may be open
  field.replaceChildren(h("option", { value: "" }, "No preset"), ...list.map(({ name }) => h("option", { value: name }, name)));
  field.value = presetWith(settings);
}

/** Lets the user change the settings that change most often, without the dialog.
 * @param {(settings: any) => void} onChange */
export function setUpChips(onChange) {
  byId("effort-now").addEventListener("change", () => onChange({ ...settingsOf(openChat()), effort: byId("effort-now").value }));
  byId("preset-now").addEventListener("change", () => {
    const chosen = presets().find(({ name }) => name === byId("preset-now").value);
    if (chosen) onChange({ ...chosen.settings, theme: settingsOf(openChat()).theme });
    else {
      openSettings("preset");
      showPreset(settingsOf(openChat()));  // nothing has changed yet
    }
  });
}

/** Shows how much of the context the branch takes.
 * @param {import("../storage/message.js").Message[]} branch @param {number | undefined} maxContext */
export function showGauge(branch, maxContext) {
  const usage = branch.filter((message) => message.usage).at(-1)?.usage;
  byId("gauge").hidden = !usage || !maxContext;
  if (!usage || !maxContext) return;
  const count = usage.prompt_tokens + usage.completion_tokens;
  const percent = Math.round((100 * count) / maxContext);
  const exact = `${count.toLocaleString("en")} of ${maxContext.toLocaleString("en")} tokens`;
  byId("gauge").title = `Context: ${exact}`;
  byId("gauge-text").replaceChildren(h("span", { class: "off-screen" }, `Context: ${exact}, `), `${percent} %`);
  byId("ring").style.setProperty("--share", `${Math.min(percent, 100)}%`);
  byId("gauge").classList.toggle("error", percent >= 90);
}
