// Saves data that is not stored yet when the page closes. A closing page cannot wait, and the browser drops its IndexedDB
// transactions that still wait for others. So the page also writes the data to localStorage, synchronously, under a key of its own.
// The next start, or another open tab, moves the data to the database.
//
//   nibble.unsaved.<random>  {saved, writes: [{chat: {id, leaf, changed, title, settings, pinned}, messages, drafts,
//                            revives, hasFields, isDeleted}]}, in the order of the writes
import { local } from "../base/web_storage.js";
import { filesKey, openedDatabase } from "./database.js";
import { pendingDrafts, recoverDraft } from "./drafts.js";
import { setAsideItem } from "./merge.js";
import { isBehind, isEmpty, messageOf, newId } from "./message.js";
import { remove } from "./removal.js";
import * as store from "./store.js";
import { leafBelow, repairLinks } from "./tree.js";

/**
 * @typedef {import("./message.js").Message} Message
 * @typedef {import("./message.js").Conversation} Conversation
 * @typedef {import("./drafts.js").DraftRecord} DraftRecord
 *
 * @typedef {object} Unsaved  one write, or the drafts of a conversation
 * @property {{id: string, leaf: string | null, changed: number, title?: string, settings?: object, pinned?: boolean}} chat
 * @property {Message[]} [messages]
 * @property {DraftRecord[]} [drafts]
 * @property {boolean} [revives]
 * @property {boolean} [hasFields]
 * @property {boolean} [isDeleted]
 */

const kPrefix = "nibble.unsaved.";
const kItem = kPrefix + newId();

/** @type {Map<string, string>} */
const held = new Map();  // messages of items that could not be stored and stay, by id, as JSON

/**
 * Saves what is not stored, while the page closes.
 * @param {Message[]} received  answers that are still received
 */
export function saveAtOnce(received) {
  const writes = unsavedWrites(received);
  if (writes.length) putFitting(writes);
  // If this transaction is not dropped, the text is in the database even if localStorage is full, or the browser ends too.
  const messages = writes.flatMap((write) => write.messages ?? []);
  if (!messages.length) return;
  try {
    const transaction = openedDatabase().transaction("messages", "readwrite");
    for (const message of messages) transaction.objectStore("messages").put(message);
    transaction.commit();
  } catch {
    // The storage is blocked, which the page has reported.
  }
}

/** @param {Message[]} received @returns {Unsaved[]} */
function unsavedWrites(received) {
  const seen = new Set();
  const isNew = (message) => {
    if (seen.has(message) || !store.isKept(message) || (!message.complete && isEmpty(message))) return false;
    seen.add(message);
    return held.get(message.id) !== JSON.stringify(message);
  };
  const writes = /** @type {Unsaved[]} */ ([]);
  for (const { chat, messages, began, endsDraft, revives, hasFields, isDeleted } of store.pending) {
    const drafts = endsDraft ? draftsOf({ ...chat, draft: "", files: [] }, began) : revives ? draftsOf(chat, began) : [];
    writes.push({ chat: fieldsOf(chat), messages: messages.filter(isNew), drafts, revives, hasFields, isDeleted });
  }
  for (const message of [...store.unsavedMessages(), ...received].filter(isNew))
    writes.push({ chat: fieldsOf(store.conversation(message.chat)), messages: [message] });
  for (const record of pendingDrafts())
    writes.push({ chat: fieldsOf(store.conversation("chat" in record ? record.chat : record.id)), drafts: [record] });
  return writes;
}

/** @param {Conversation} chat */
const fieldsOf = ({ id, leaf, changed, title, settings, pinned }) => ({ id, leaf, changed, title, settings, pinned });

/** @param {Conversation} chat @param {number} changed @returns {DraftRecord[]} */
const draftsOf = ({ id, draft, files }, changed) => [{ id, text: draft, changed }, { id: filesKey(id), chat: id, files, changed }];

/** Puts the writes into localStorage; if they do not fit, the shortest that do.
 * @param {Unsaved[]} writes */
function putFitting(writes) {
  const texts = writes.map((write) => JSON.stringify(write));
  const byLength = [...texts].sort((one, other) => one.length - other.length);
  for (let most = texts.join().length; most >= 1; most /= 2) {
    let left = most;
    const fitting = new Set(byLength.filter((text) => (left -= text.length) >= 0));
    if (local.set(kItem, `{"saved":${Date.now()},"writes":[${texts.filter((text) => fitting.has(text)).join()}]}`)) return;
  }
}

/** Stores what closed pages left. Call it when the database is loaded. Returns the number of damaged items and records. */
export const recoverUnsaved = () => recover(true);

/** Stores what other tabs leave when they close: now, because this page may have begun before the last one ended, and from now on. */
export function followClosedPages() {
  let last = recover(false).then(store.reportDamage);
  addEventListener("storage", ({ key, newValue }) => {
    if (key?.startsWith(kPrefix) && newValue !== null) last = last.then(() => recover(false)).then(store.reportDamage);
  });
}

/** @param {boolean} isStart  the page shows nothing yet; else what it has in memory is younger than titles and drafts of the items */
async function recover(isStart) {
  const items = local.keys().filter((key) => key.startsWith(kPrefix) && key !== kItem).map((key) => ({ key, text: local.get(key) }));
  const parsed = items.filter(({ text }) => text !== null).map((item) => ({ ...item, ...parse(item.text) }));
  let numDamaged = 0;
  for (const { key, text, writes, fault, numFaults } of parsed.sort((one, other) => one.saved - other.saved)) {
    numDamaged += numFaults;
    let isDone = !numFaults || (await setAsideItem(key, text, fault));
    for (const write of writes) {
      const isStored = await apply(write, isStart).catch(() => false);
      if (!isStored) for (const message of write.messages) held.set(message.id, JSON.stringify(message));
      isDone &&= isStored;
    }
    if (isDone && local.get(key) === text) local.remove(key);
  }
  return numDamaged;
}

/** The writes of an item, without damaged ones.
 * @param {string} text */
function parse(text) {
  const found = { saved: 0, writes: /** @type {Unsaved[]} */ ([]), fault: "", numFaults: 0 };
  try {
    const { saved, writes } = JSON.parse(text);
    if (!Array.isArray(writes)) throw new Error("it has no writes");
    if (Number.isFinite(saved)) found.saved = saved;
    for (const write of writes) {
      try {
        found.writes.push(writeOf(write));
      } catch (error) {
        found.fault = error.message;
        ++found.numFaults;
      }
    }
  } catch (error) {
    found.fault = error.message;
    ++found.numFaults;
  }
  return found;
}

/** @param {any} record @returns {Unsaved} */
function writeOf({ chat, messages = [], drafts = [], revives, hasFields, isDeleted }) {
  if (typeof chat?.id !== "string" || !chat.id) throw new Error("its conversation is damaged");
  const { id, leaf, changed, title, settings, pinned } = chat;
  const isDraft = (draft) => draft?.id === id ? typeof draft.text === "string"
    : draft?.id === filesKey(id) && Array.isArray(draft.files) && (!draft.files.length || store.areFiles(draft.files));
  if (!Array.isArray(drafts) || !drafts.every(isDraft)) throw new Error("its draft is damaged");
  return {
    chat: { id, leaf, changed: Number.isFinite(changed) ? changed : 0, title: typeof title === "string" ? title : undefined,
      settings: typeof settings === "object" && settings !== null ? settings : undefined, pinned: pinned === true || undefined },
    messages: messages.map((message) => messageOf({ ...message, chat: id })),
    drafts, revives: revives === true, hasFields: hasFields === true, isDeleted: isDeleted === true,
  };
}

/** Adds a write to the memory and to the database, in the way of all writes. Returns whether it is stored.
 * @param {Unsaved} write @param {boolean} isStart */
async function apply({ chat: fields, messages, drafts, revives, hasFields, isDeleted }, isStart) {
  const isGone = store.deleted.has(fields.id);
  if (isDeleted) return isStart || isGone ? remove(store.conversation(fields.id)) : true;
  if (isGone && !(revives && isStart)) return true;
  if (isStart) store.deleted.delete(fields.id);
  const chat = store.conversation(fields.id);
  const news = messages.filter((message) => isNews(chat.messages.get(message.id), message));
  if (isStart) addToMemory(chat, news, fields, hasFields);
  else if (news.length) store.applyChange({ kind: "messages", chat: chat.id, messages: news, leaf: chat.leaf, shown: chat.shown });
  const known = messages.map((message) => chat.messages.get(message.id));
  let isStored = true;
  if (messages.length || hasFields || !drafts.length) isStored = await store.write(chat, known, { revives, hasFields });
  for (const draft of drafts) {
    const isYoungest = await recoverDraft(draft).catch(() => null);
    isStored &&= isYoungest !== null;
    if (!isStart || isYoungest === false) continue;
    if ("files" in draft) chat.files = draft.files;
    else chat.draft = draft.text;
  }
  return isStored || store.deleted.has(chat.id);
}

/** @param {Message | undefined} known @param {Message} message */
const isNews = (known, message) => !known || (!known.complete && !isBehind(message, known));

/** @param {Conversation} chat @param {Message[]} news @param {Unsaved["chat"]} fields @param {boolean} hasFields */
function addToMemory(chat, news, { leaf, changed, title, settings, pinned }, hasFields) {
  const isNew = chat.messages.size === 0;
  news.forEach(store.keep);
  repairLinks(chat.messages, new Map());
  Object.assign(chat, hasFields ? { title, settings, pinned }
    : { title: chat.title ?? title, settings: chat.settings ?? settings, pinned: chat.pinned ?? pinned });
  if (chat.messages.has(leaf) && (isNew || changed >= chat.changed)) chat.leaf = leaf;
  chat.leaf = chat.shown = leafBelow(chat.messages, chat.leaf);
  chat.changed = isNew ? changed : Math.max(chat.changed, changed);
}
