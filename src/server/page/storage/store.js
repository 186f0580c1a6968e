// All conversations: in memory, stored in IndexedDB, and synchronised with other tabs. If the storage is
// blocked or full, everything works from memory, and `onFault` reports it.
import { listen, post } from "./channel.js";
import { begin, committed, connect, filesKey, openedDatabase, readAll, result, setAside } from "./database.js";
import { isBehind, isEmpty, messageOf, newId } from "./message.js";
import { leafBelow, repairLinks } from "./tree.js";

/**
 * @typedef {import("./message.js").Message} Message
 * @typedef {import("./message.js").Conversation} Conversation
 * @typedef {import("./channel.js").Change} Change
 *
 * @typedef {object} Write  a change of the database that is not committed yet
 * @property {Conversation} chat
 * @property {Message[]} messages
 * @property {number} began         milliseconds since 1970
 * @property {boolean} [endsDraft]  deletes the draft, which the messages contain
 * @property {boolean} [revives]    brings a deleted conversation back
 * @property {boolean} [hasFields]  saves the title, the settings, and whether it is pinned
 * @property {boolean} [isDeleted]  deletes the conversation
 */

/** @type {Map<string, Conversation>} */
export const conversations = new Map();

export const deleted = new Set();  // ids of conversations
/** @type {Set<Write>} */
export const pending = new Set();
/** @type {Map<Message, boolean>} */
const saving = new Map();  // answers that saveProgress() is saving, and whether it has to save them again
/** @type {Set<Message>} */
const unsaved = new Set();  // messages that write() could not store; a write that succeeds retries the next conversation
export let isLoaded = false;
/** @type {(kind: string, text: string) => void} */
export let reportFault = (kind, text) => {};

const kFull =
  "This conversation is not saved: the browser's storage for this page is full. Export and delete conversations to make room.";
const kBlocked =
  "The browser does not let this page store conversations. They last until the page is closed; export them to keep them.";
const kNewer = "The conversations in this browser were stored by a newer version of nibble, which is needed to show them. " +
  "What you write now lasts until the page is closed; export it to keep it.";
const kNotLoaded = "The stored conversations could not be loaded and are not listed. Reload the page to see them.";
const kDeleted = "This conversation was deleted in another tab and is not saved any more. Export and import it to keep it.";

/** @param {string} id @returns {Conversation} */
const emptyConversation = (id) => ({ id, messages: new Map(), leaf: null, shown: null, changed: Date.now(), draft: "", files: [] });
export const newConversation = () => emptyConversation(newId());

/** The conversation with this id, created if it is missing.
 * @param {string} id */
export function conversation(id) {
  if (!conversations.has(id)) conversations.set(id, emptyConversation(id));
  return conversations.get(id);
}

/** Whether closing the page would lose messages. */
export const hasUnsaved = () => [...unsaved].some(isKept);

/** Messages that could not be stored. */
export const unsavedMessages = () => [...unsaved].filter(isKept);

/** Conversations with a message or a draft, the latest first. */
export const listed = () =>
  [...conversations.values()].filter((chat) => chat.messages.size || chat.draft.trim() || chat.files.length).sort((one, other) => other.changed - one.changed);

/**
 * Adds a message to the memory. Complete messages are final; an incomplete one is updated.
 * @param {Message} message
 */
export function keep(message) {
  const { messages } = conversation(message.chat);
  const known = messages.get(message.id);
  if (!known) messages.set(message.id, message);
  else if (known !== message && !known.complete && (message.complete || !(known.received > message.received))) Object.assign(known, message);
}

/**
 * Loads the database, and follows other tabs from then on.
 * @param {(change: Change, isNews: boolean) => void} onChange
 * @param {(kind: string, text: string) => void} onFault  an empty text: the fault has ended
 */
export async function load(onChange, onFault) {
  reportFault = onFault;
  follow(onChange);
  try {
    const database = await connect();
    const [messages, chats, drafts] = await Promise.all(["messages", "chats", "drafts"].map(
      (store) => readAll(database, store).catch(() => ({ records: [], numUnreadable: 1 }))));
    const faults = [];
    for (const record of chats.records) if (record.deleted) deleted.add(record.id);
    for (const record of messages.records) take(record, faults);
    for (const record of drafts.records) takeDraft(record, faults);
    await repair(faults);
    restoreBranches(chats.records, drafts.records);
    const numUnreadable = messages.numUnreadable + chats.numUnreadable + drafts.numUnreadable;
    reportDamage(faults.length, numUnreadable);
    isLoaded = true;
  } catch (error) {
    reportFault("storage", error.name === "VersionError" ? kNewer : `${kBlocked} (${error.message})`);
  }
}

/** @param {any} record @param {object[]} faults */
function take(record, faults) {
  if (deleted.has(record.chat)) return;
  try {
    keep(messageOf(record));
  } catch (error) {
    faults.push({ store: "messages", key: [record.chat, record.id], record, reason: error.message });
  }
}

/** @param {any} record @param {object[]} faults */
function takeDraft(record, faults) {
  if (areFiles(record.files) && record.id === filesKey(record.chat)) conversation(record.chat).files = record.files;
  else if (typeof record.text === "string") conversation(record.id).draft = record.text;
  else faults.push({ store: "drafts", key: record.id, record, reason: "its text is damaged" });
}

/** Whether a stored or imported value is a list of attached files.
 * @param {any} files */
export const areFiles = (files) => Array.isArray(files) && files.length > 0 &&
  files.every((file) => typeof file?.name === "string" && typeof file.text === "string");

/** Sets damaged records aside and closes the gaps that they and earlier ones leave.
 * @param {any[]} faults */
async function repair(faults) {
  const before = await readAll(openedDatabase(), "damaged").catch(() => ({ records: [] }));
  const lost = new Map();
  for (const { record } of [...before.records, ...faults])
    if (typeof record?.parent === "string" || record?.parent === null) lost.set(record.id, record.parent);
  for (const chat of conversations.values()) repairLinks(chat.messages, lost);
  if (faults.length) await setAside(openedDatabase(), faults).catch(() => {});
}

function restoreBranches(chats, drafts) {
  for (const chat of conversations.values()) {
    const ages = [...chat.messages.values()].map((message) => message.created);
    chat.changed = ages.reduce((newest, age) => Math.max(newest, age), 0);
  }
  for (const { id, chat: owner, leaf, changed, title, settings, pinned } of [...drafts, ...chats]) {
    const chat = conversations.get(owner ?? id);
    if (!chat) continue;
    Object.assign(chat, { title: typeof title === "string" ? title : chat.title, settings: settings ?? chat.settings, pinned: pinned === true || chat.pinned });
    if (chat.messages.has(leaf)) chat.leaf = leaf;
    if (Number.isFinite(changed)) chat.changed = Math.max(chat.changed, changed);
  }
  for (const chat of conversations.values()) chat.leaf = chat.shown = leafBelow(chat.messages, chat.leaf);
}

export function reportDamage(numDamaged, numUnreadable = 0) {
  const records = (count) => (count === 1 ? "1 damaged record" : `${count} damaged records`);
  const parts = [];
  if (numDamaged) parts.push(`${records(numDamaged)} of the storage could not be used. The export of all conversations contains what was found.`);
  if (numUnreadable) parts.push(`${records(numUnreadable)} of the storage could not be read.`);
  if (parts.length) reportFault("damaged", parts.join(" "));
}

/**
 * Adds messages to a conversation, makes the last of them the branch's end, and saves them.
 * @param {Conversation} chat @param {Message[]} messages @param {string | null} leaf  the branch that a reload shows
 * @param {{endsDraft?: boolean}} options
 */
export function append(chat, messages, leaf, { endsDraft = false } = {}) {
  conversations.set(chat.id, chat);
  messages.forEach(keep);
  chat.leaf = leaf;
  chat.changed = Date.now();
  if (endsDraft) Object.assign(chat, { draft: "", files: [] });
  post({ kind: "messages", chat: chat.id, messages, leaf, shown: chat.shown });
  if (endsDraft) post({ kind: "draft", chat: chat.id, text: "" });
  if (endsDraft) post({ kind: "files", chat: chat.id, files: [] });
  return write(chat, messages, { endsDraft });
}

/** Saves which branch the user sees.
 * @param {Conversation} chat */
export function saveShown(chat) {
  post({ kind: "shown", chat: chat.id, leaf: chat.leaf, shown: chat.shown });
  return write(chat, []);
}

/** Saves the title, the settings, and whether it is pinned.
 * @param {Conversation} chat */
export function saveFields(chat) {
  post({ kind: "fields", chat: chat.id, title: chat.title, settings: chat.settings, pinned: chat.pinned });
  return write(chat, [], { hasFields: true });
}

/** Saves an answer as received so far. Without text, only sends it to other tabs.
 * @param {Conversation} chat @param {Message} message */
export async function saveProgress(chat, message, hasText = true) {
  post({ kind: "messages", chat: chat.id, messages: [message], leaf: chat.leaf, shown: chat.shown });
  if (!hasText) return;
  const isSaving = saving.has(message);
  saving.set(message, isSaving);
  if (isSaving) return;  // on a slow disk, writes of each step would queue up
  do {
    saving.set(message, false);
    await write(chat, [message]);
  } while (saving.get(message));
  saving.delete(message);
}

/** Drops an answer without text. It was never stored.
 * @param {Conversation} chat @param {Message} message */
export function drop(chat, message) {
  chat.messages.delete(message.id);
  post({ kind: "dropped", chat: chat.id, id: message.id });
}

/** Whether its conversation still has this message.
 * @param {Message} message */
export const isKept = (message) => conversations.get(message.chat)?.messages.get(message.id) === message;

/**
 * Compares and appends in one transaction: stores what is missing, and changes no complete message. Adds the rest of
 * the conversation if the storage lost it, or was full before. Returns whether all is stored.
 * @param {Conversation} chat @param {Message[]} messages @param {{endsDraft?: boolean, revives?: boolean, hasFields?: boolean}} options
 */
export async function write(chat, messages, options = {}) {
  const { endsDraft = false, revives = false, hasFields = false } = options;
  const entry = { ...options, chat, messages, began: Date.now() };
  pending.add(entry);
  const wanted = new Set(messages);
  try {
    const transaction = await begin(["messages", "chats", "drafts"]);
    const done = committed(transaction);
    done.catch(() => {});  // it is awaited below
    const stored = transaction.objectStore("messages"), chats = transaction.objectStore("chats");
    const record = await result(chats.get(chat.id));
    if (revives) deleted.delete(chat.id);
    else if (record?.deleted) {
      for (const message of unsaved) if (message.chat === chat.id) unsaved.delete(message);
      if (!deleted.has(chat.id)) reportFault("deleted", kDeleted);
      return false;
    }
    const parent = messages.length ? messages[0].parent : chat.leaf;
    const hasGap = parent !== null && !(await result(stored.getKey([chat.id, parent])));
    for (const message of unsaved) if (message.chat === chat.id && isKept(message)) wanted.add(message);
    for (const message of hasGap ? [...chat.messages.values()] : wanted) {
      if (!message.complete && isEmpty(message)) continue;
      const old = await result(stored.get([chat.id, message.id]));
      if (!old || (old.complete === false && wanted.has(message) && !isBehind(message, old))) stored.put(message);
    }
    const { title, settings, pinned } = hasFields ? chat : /** @type {Conversation} */ ({ ...chat, ...record });
    chats.put({ id: chat.id, leaf: chat.leaf, changed: chat.changed, title, settings, pinned });
    if (endsDraft) for (const key of [chat.id, filesKey(chat.id)]) transaction.objectStore("drafts").delete(key);
    await done;
    for (const message of wanted) unsaved.delete(message);
    const next = [...unsaved].find(isKept);
    if (next) write(conversations.get(next.chat), []);
    else reportFault("storage", isLoaded ? "" : kNotLoaded);
    return true;
  } catch (error) {
    for (const message of wanted) unsaved.add(message);
    reportFault("storage", { QuotaExceededError: kFull, VersionError: kNewer }[error.name] ?? `${kBlocked} (${error.message})`);
    return false;
  } finally {
    pending.delete(entry);
  }
}

/** Applies a change made in another tab.
 * @type {(change: Change) => void} */
export let applyChange = () => {};

/** @param {(change: Change, isNews: boolean) => void} onChange */
function follow(onChange) {
  applyChange = (change) => {
    let isNews = true;  // not the progress of a known message
    if (change.kind === "deleted") {
      deleted.add(change.chat);
      conversations.delete(change.chat);
    } else {
      if (change.kind === "messages" && change.revives) deleted.delete(change.chat);
      if (deleted.has(change.chat)) return;
      const chat = conversation(change.chat);
      isNews = change.kind !== "messages" || change.messages.some((message) => !chat.messages.has(message.id));
      if (change.kind === "messages") change.messages.forEach(keep);
      if (change.kind === "dropped") chat.messages.delete(change.id);
      if (change.kind === "draft") chat.draft = change.text;
      if (change.kind === "files") chat.files = change.files;
      if (change.kind === "fields") Object.assign(chat, { title: change.title, settings: change.settings, pinned: change.pinned });
      // Progress of two answers in two tabs would keep swapping their places in the list.
      if (change.kind !== "dropped" && change.kind !== "fields" && isNews) chat.changed = Date.now();
    }
    onChange(change, isNews);
  };
  listen((change) => applyChange(change));
}
