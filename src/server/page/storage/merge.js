// Adds conversations to the existing ones: imported files, and localStorage of earlier versions.
import { post } from "./channel.js";
import { messagesOf, openedDatabase, readAll, result, setAside } from "./database.js";
import { messageOf, newId } from "./message.js";
import { conversation, write } from "./store.js";
import { leafBelow, repairLinks } from "./tree.js";

/** @typedef {import("./message.js").Message} Message */

/**
 * Adds messages to a conversation. Skips those that it already has; a different message with a known id
 * becomes another version. Returns the number of added messages, and whether all are stored.
 * @param {string} id @param {Message[]} messages  parents before their children
 * @param {string | null} leaf
 */
export async function merge(id, messages, leaf = null) {
  const chat = conversation(id);
  const isNew = chat.messages.size === 0;
  const renamed = new Map(), added = [];
  for (const message of messages) {
    const parent = renamed.get(message.parent) ?? message.parent;
    let known = chat.messages.get(message.id);
    if (known && !isSame(known, message))
      known = [...chat.messages.values()].find((other) => other.parent === parent && isSame(other, message));
    if (known) {
      renamed.set(message.id, known.id);
      continue;
    }
    const copy = { ...message, chat: id, parent, id: chat.messages.has(message.id) ? newId() : message.id };
    renamed.set(message.id, copy.id);
    chat.messages.set(copy.id, copy);
    added.push(copy);
  }
  repairLinks(chat.messages, new Map());
  chat.changed = [...chat.messages.values()].reduce((newest, message) => Math.max(newest, message.created), 0);
  if (isNew) chat.leaf = chat.shown = leafBelow(chat.messages, renamed.get(leaf) ?? null);
  if (added.length) post({ kind: "messages", chat: id, messages: added, leaf: chat.leaf, shown: chat.shown, revives: true });
  const all = messages.map((message) => chat.messages.get(renamed.get(message.id)));
  return { numAdded: added.length, isStored: await write(chat, all, { revives: true }) };
}

const isSame = (one, other) => one.role === other.role && one.content === other.content &&
  (one.reasoning ?? "") === (other.reasoning ?? "") && JSON.stringify(one.calls ?? []) === JSON.stringify(other.calls ?? []);

/** Reads messages back: returns whether the storage has them all.
 * @param {string} id @param {Message[]} messages */
export async function isStored(id, messages) {
  try {
    const records = await result(openedDatabase().transaction("messages").objectStore("messages").getAll(messagesOf(id)));
    const stored = records.map(messageOf);
    return messages.every((message) => stored.some((record) => isSame(record, message)));
  } catch {
    return false;
  }
}

/** Keeps an unusable item of the old storage among the damaged records. Returns whether that is stored. */
export async function setAsideItem(key, text, reason) {
  try {
    await setAside(openedDatabase(), [{ store: "localStorage", key: undefined, record: { key, text }, reason }]);
    return true;
  } catch {
    return false;
  }
}

/** @returns {Promise<object[]>} */
export async function damagedRecords() {
  try {
    return (await readAll(openedDatabase(), "damaged")).records;
  } catch {
    return [];
  }
}
