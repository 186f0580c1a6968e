// Deletes conversations, and brings them back.
import { post } from "./channel.js";
import { begin, committed, filesKey, messagesOf } from "./database.js";
import { saveDraft, saveFiles } from "./drafts.js";
import { conversations, deleted, reportFault, saveFields, write } from "./store.js";

/** @typedef {import("./message.js").Conversation} Conversation */

/** Deletes a conversation in the storage and in all tabs.
 * @param {Conversation} chat */
export async function remove(chat) {
  conversations.delete(chat.id);
  deleted.add(chat.id);
  post({ kind: "deleted", chat: chat.id });
  const transaction = await begin(["messages", "chats", "drafts"]).catch(() => null);
  if (!transaction) return;  // blocked, which the page has reported
  transaction.objectStore("messages").delete(messagesOf(chat.id));
  for (const key of [chat.id, filesKey(chat.id)]) transaction.objectStore("drafts").delete(key);
  transaction.objectStore("chats").put({ id: chat.id, deleted: true });  // so that no tab adds to it
  await committed(transaction).then(() => reportFault("storage", ""), (error) => reportFault("storage", `The conversation could not be deleted: ${error.message}`));
}

/** Undoes remove(), in all tabs.
 * @param {Conversation} chat  as it was removed */
export async function restore(chat) {
  const { draft, files } = chat;
  deleted.delete(chat.id);
  conversations.set(chat.id, chat);
  post({ kind: "messages", chat: chat.id, messages: [...chat.messages.values()], leaf: chat.leaf, shown: chat.shown, revives: true });
  await write(chat, [...chat.messages.values()], { revives: true, hasFields: true });
  await saveFields(chat);
  if (draft) await saveDraft(chat, draft);
  if (files.length) await saveFiles(chat, files);
}
