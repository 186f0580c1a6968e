// Saves drafts: the text of the composer and the files attached to it.
import { post } from "./channel.js";
import { begin, committed, filesKey, result } from "./database.js";
import { conversations, reportFault } from "./store.js";

/** @typedef {import("./message.js").Conversation} Conversation */

const kLost = "This draft is not saved. Is the browser's storage for this page full?";

/** @typedef {{id: string, text: string, changed: number} | {id: string, chat: string, files: {name: string, text: string}[], changed: number}} DraftRecord
 *   without text or files: none is stored */

/** @type {Map<string, {chat: Conversation, record: DraftRecord, isLost: boolean}>} */
const pending = new Map();  // records that are not stored, by their keys; isLost: they could not be

/** Whether closing the page would lose a draft. */
export const hasUnsavedDraft = () =>
  [...pending.values()].some(({ chat: { id, draft, files }, isLost }) => isLost && conversations.has(id) && (draft.trim() || files.length));

/** Records that are not stored yet. */
export const pendingDrafts = () => [...pending.values()].filter(({ chat }) => conversations.has(chat.id)).map(({ record }) => record);

/** Saves the composer's text at each key press, so that closing the page loses none.
 * @param {Conversation} chat @param {string} text */
export async function saveDraft(chat, text) {
  chat.draft = text;
  keep(chat);
  post({ kind: "draft", chat: chat.id, text });
  await put(chat, { id: chat.id, text, changed: chat.changed });
}

/** Saves the attached files.
 * @param {Conversation} chat @param {{name: string, text: string}[]} files */
export async function saveFiles(chat, files) {
  chat.files = files;
  keep(chat);
  post({ kind: "files", chat: chat.id, files });
  await put(chat, { id: filesKey(chat.id), chat: chat.id, files, changed: chat.changed });
}

function keep(chat) {
  chat.changed = Date.now();
  conversations.set(chat.id, chat);
}

/** @param {Conversation} chat @param {DraftRecord} record */
async function put(chat, record) {
  const entry = { chat, record, isLost: false };
  pending.set(record.id, entry);
  try {
    const transaction = await begin("drafts");
    const done = committed(transaction);
    const drafts = transaction.objectStore("drafts");
    if (isDraft(record)) drafts.put(record);
    else drafts.delete(record.id);
    transaction.commit();
    done.then(() => {
      if (pending.get(record.id) === entry) pending.delete(record.id);
      reportFault("draft", "");
    }, () => {
      entry.isLost = true;
      reportFault("draft", kLost);
    });
  } catch {
    entry.isLost = true;  // the storage is blocked, which is reported already
  }
}

/** Whether there is something in a record.
 * @param {any} record */
const isDraft = ({ text, files }) => Boolean(text || files?.length);

/** Stores a record of a closed page unless the stored one is younger. Returns whether it was stored.
 * @param {DraftRecord} record */
export async function recoverDraft(record) {
  const transaction = await begin("drafts");
  const done = committed(transaction);
  done.catch(() => {});  // it is awaited below
  const drafts = transaction.objectStore("drafts");
  const old = await result(drafts.get(record.id));
  const isWanted = !(old?.changed > record.changed);
  if (isWanted && isDraft(record)) drafts.put(record);
  else if (isWanted) drafts.delete(record.id);
  await done;
  return isWanted;
}
