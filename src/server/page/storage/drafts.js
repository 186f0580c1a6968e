// Saves drafts: the text of the composer and the files attached to it.
import { post } from "./channel.js";
import { begin, committed, filesKey } from "./database.js";
import { conversations, reportFault } from "./store.js";

/** @typedef {import("./message.js").Conversation} Conversation */

const kLost = "This draft is not saved. Is the browser's storage for this page full?";

/** @type {Map<string, Conversation>} */
const lost = new Map();  // whose draft is only in memory, by the key of its record

/** Whether closing the page would lose a draft. */
export const hasUnsavedDraft = () => [...lost.values()].some(({ id, draft, files }) => conversations.has(id) && (draft.trim() || files.length));

/** Saves the composer's text at each key press, so that closing the page loses none.
 * @param {Conversation} chat @param {string} text */
export async function saveDraft(chat, text) {
  chat.draft = text;
  keep(chat);
  post({ kind: "draft", chat: chat.id, text });
  await put(chat, chat.id, text ? { id: chat.id, text, changed: chat.changed } : null);
}

/** Saves the attached files.
 * @param {Conversation} chat @param {{name: string, text: string}[]} files */
export async function saveFiles(chat, files) {
  chat.files = files;
  keep(chat);
  post({ kind: "files", chat: chat.id, files });
  const key = filesKey(chat.id);
  await put(chat, key, files.length ? { id: key, chat: chat.id, files, changed: chat.changed } : null);
}

function keep(chat) {
  chat.changed = Date.now();
  conversations.set(chat.id, chat);
}

/** @param {Conversation} chat @param {string} key @param {object | null} record  null deletes it */
async function put(chat, key, record) {
  try {
    const transaction = await begin("drafts");
    const drafts = transaction.objectStore("drafts");
    lost.delete(key);
    committed(transaction).then(() => reportFault("draft", ""), () => {
      lost.set(key, chat);
      reportFault("draft", kLost);
    });
    if (record) drafts.put(record);
    else drafts.delete(key);
    transaction.commit();
  } catch {
    lost.set(key, chat);  // the storage is blocked, which is reported already
  }
}
