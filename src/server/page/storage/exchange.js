// The file formats of conversations: JSON for all or one of them, Markdown for one.
//
//   {"format": "nibble.conversations", "version": 1, "presets": [{name, settings}], "conversations": [{id, title, settings, pinned, leaf, draft, files, messages: [...]}], "damaged": [...]}
//
// Imports also accept exports of earlier versions: {id, changed, messages}, a conversation without branches.
import { download } from "../base/dom.js";
import { saveDraft, saveFiles } from "./drafts.js";
import { damagedRecords, merge } from "./merge.js";
import { messageOf } from "./message.js";
import { areFiles, conversation, listed, saveFields } from "./store.js";
import { branchOf, titleOf, versionsOf } from "./tree.js";

/**
 * @typedef {import("./message.js").Message} Message
 * @typedef {import("./message.js").Conversation} Conversation
 */

const kFormat = "nibble.conversations";

/** The messages with parents before their children.
 * @param {Map<string, Message>} messages */
function inOrder(messages) {
  const versions = versionsOf(messages), ordered = [], parents = [null];
  for (const parent of parents) {
    for (const message of versions.get(parent) ?? []) {
      ordered.push(message);
      parents.push(message.id);
    }
  }
  return ordered;
}

/** @param {Conversation[]} chats @param {object[]} damaged @param {object[]} [presets] */
const fileOf = (chats, damaged, presets) => JSON.stringify({
  format: kFormat, version: 1, presets,
  conversations: chats.map((chat) => ({ id: chat.id, title: chat.title, settings: chat.settings, pinned: chat.pinned, leaf: chat.leaf, draft: chat.draft, files: chat.files, messages: inOrder(chat.messages) })),
  damaged,
}, null, 2) + "\n";

/** @param {Conversation} chat */
export const exportJson = (chat) => download(titleOf(chat), "json", "application/json", fileOf([chat], []));

/** @param {object[]} presets  of the settings */
export async function exportAll(presets) {
  download("nibble-conversations", "json", "application/json", fileOf(listed(), await damagedRecords(), presets));
}

/** Exports the branch that is shown.
 * @param {Conversation} chat */
export function exportMarkdown(chat) {
  const turns = branchOf(chat.messages, chat.shown).map((message) => {
    const names = { user: "You", assistant: "Answer", tool: message.name ? `Tool result: ${message.name}` : "Tool result" };
    const calls = (message.calls ?? []).filter(Boolean).map((call) => fenced(`${call.function.name}(${call.function.arguments})`).trimEnd());
    return [`## ${names[message.role]}`, message.content, ...calls].filter(Boolean).join("\n\n");
  });
  download(titleOf(chat), "md", "text/markdown", [`# ${titleOf(chat)}`, ...turns].join("\n\n") + "\n");
}

/** Text as a fenced block with a name. The fence is longer than any in the text.
 * @param {string} text */
export function fenced(text, name = "") {
  const longest = [...text.matchAll(/`+/g)].reduce((most, [run]) => Math.max(most, run.length), 2);
  const fence = "`".repeat(longest + 1);
  return `${fence}${name.replace(/[\s`]+/g, "_")}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}\n`;
}

/**
 * Links the messages of an earlier version's conversation. It always gives the same ids, so moving it twice adds nothing.
 * @param {any} old @returns {{id: string, messages: Message[], numDamaged: number}}
 */
export function linear(old) {
  if (typeof old?.id !== "string" || !Array.isArray(old.messages)) throw new Error("this is not a conversation");
  const began = (Number.isFinite(old.changed) ? old.changed : Date.now()) - old.messages.length;
  const messages = [];
  old.messages.forEach((record, at) => {
    try {
      const parent = messages.at(-1)?.id ?? null;
      messages.push(messageOf({ ...record, id: `${old.id}.${at}`, chat: old.id, parent, created: began + at }));
    } catch {
      // Damaged: left out.
    }
  });
  return { id: old.id, messages, numDamaged: old.messages.length - messages.length };
}

/**
 * Adds the conversations of a file. Throws if it is not an export; returns what was done, for the user.
 * @param {string} text @param {(presets: any) => void} [addPresets]  takes the file's presets
 */
export async function importAll(text, addPresets) {
  const file = JSON.parse(text);
  const isOld = file?.format === undefined && Array.isArray(file?.messages);
  if (!isOld && (file?.format !== kFormat || file.version !== 1 || !Array.isArray(file.conversations)))
    throw new Error("this is not an export of this page");
  addPresets?.(file.presets);
  const sources = isOld ? [linear(file)] : file.conversations;
  let numAdded = 0, numKnown = 0, numDamaged = isOld ? sources[0].numDamaged : 0;
  for (const source of sources) {
    const messages = [];
    for (const record of Array.isArray(source?.messages) ? source.messages : []) {
      try {
        messages.push(messageOf({ ...record, chat: source.id }));
      } catch {
        ++numDamaged;
      }
    }
    if (typeof source?.id !== "string" || !source.id) continue;
    const added = await merge(source.id, messages, source.leaf);
    numAdded += added.numAdded;
    numKnown += messages.length - added.numAdded;
    const chat = conversation(source.id);
    if (typeof source.settings === "object" && !chat.settings) chat.settings = source.settings ?? undefined;
    if (typeof source.title === "string" && !chat.title) chat.title = source.title;
    if (source.pinned === true) chat.pinned = true;
    if (chat.title || chat.settings || chat.pinned) saveFields(chat);
    if (typeof source.draft === "string" && source.draft.trim() && !chat.draft) saveDraft(chat, source.draft);
    if (areFiles(source.files) && !chat.files.length) saveFiles(chat, source.files);
  }
  const parts = [`Imported messages: ${numAdded}`];
  if (numKnown) parts.push(`already here: ${numKnown}`);
  if (numDamaged) parts.push(`damaged and left out: ${numDamaged}`);
  return parts.join("; ") + ".";
}
