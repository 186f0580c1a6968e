// Deletes conversations, and brings them back.
import { post } from "./channel.js";
import { begin, committed, filesKey, messagesOf } from "./database.js";
import { isEmpty } from "./message.js";
import { conversations, deleted, pending, reportFault, write } from "./store.js";

/** @typedef {import("./message.js").Conversation} Conversation */

/** Deletes a conversation in the storage and in all tabs. Returns whether the storage has done it.
 * @param {Conversation} chat */
export async function remove(chat) {
  conversations.delete(chat.id);
  deleted.add(chat.id);
  post({ kind: "deleted", chat: chat.id });
  const entry = { chat, messages: [], began: Date.now(), isDeleted: true };
  pending.add(entry);
  try {
    return await removeRecords(chat);
  } finally {
    pending.delete(entry);
  }
}

/** @param {Conversation} chat */
async function removeRecords(chat) {
  const transaction = await begin(["messages", "chats", "drafts"]).catch(() => null);
  if (!transaction) return false;  // blocked, which the page has reported
  transaction.objectStore("messages").delete(messagesOf(chat.id));
  for (const key of [chat.id, filesKey(chat.id)]) transaction.objectStore("drafts").delete(key);
  transaction.objectStore("chats").put({ id: chat.id, deleted: true });  // so that no tab adds to it
  return committed(transaction).then(() => {
    reportFault("storage", "");
    return true;
  }, (error) => {
    reportFault("storage", `The conversation could not be deleted: ${error.message}`);
    return false;
  });
}

/** Undoes remove(), in all tabs. Writes all of it in one transaction: the page may be closed at once.
 * @param {Conversation} chat  as it was removed */
export async function restore(chat) {
  const returned = conversations.get(chat.id);  // an import may have brought it back
  for (const message of returned?.messages.values() ?? []) if (!chat.messages.has(message.id)) chat.messages.set(message.id, message);
  const { id, leaf, changed, title, settings, pinned, draft, files } = chat;
  const messages = [...chat.messages.values()];
  deleted.delete(id);
  conversations.set(id, chat);
  post({ kind: "messages", chat: id, messages, leaf, shown: chat.shown, revives: true });
  post({ kind: "fields", chat: id, title, settings, pinned });
  post({ kind: "draft", chat: id, text: draft });
  post({ kind: "files", chat: id, files });
  const entry = { chat, messages, began: Date.now(), revives: true, hasFields: true };
  pending.add(entry);
  try {
    const transaction = await begin(["messages", "chats", "drafts"]);
    const done = committed(transaction);
    for (const message of messages) if (message.complete || !isEmpty(message)) transaction.objectStore("messages").put(message);
    transaction.objectStore("chats").put({ id, leaf, changed, title, settings, pinned });
    if (draft) transaction.objectStore("drafts").put({ id, text: draft, changed });
    if (files.length) transaction.objectStore("drafts").put({ id: filesKey(id), chat: id, files, changed });
    transaction.commit();
    await done;
  } catch {
    await write(chat, messages, { revives: true, hasFields: true });  // reports the fault, and saves the messages later
  } finally {
    pending.delete(entry);
  }
}
