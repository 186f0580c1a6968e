// Branches of a conversation.
import { newMessage } from "./message.js";

/**
 * @typedef {import("./message.js").Message} Message
 * @typedef {Map<string, Message>} Messages
 */

const byAge = (one, other) => one.created - other.created || (one.id < other.id ? -1 : 1);

/**
 * Returns the messages by parent, each list with the oldest first.
 * @param {Messages} messages @returns {Map<string | null, Message[]>}
 */
export function versionsOf(messages) {
  const versions = new Map();
  for (const message of messages.values()) {
    if (!versions.has(message.parent)) versions.set(message.parent, []);
    versions.get(message.parent).push(message);
  }
  for (const list of versions.values()) list.sort(byAge);
  return versions;
}

/** A new message, younger than the other versions of it: the clock may have been set back since.
 * @param {import("./message.js").Conversation} chat @param {string | null} parent @param {Partial<Message>} fields */
export function newVersion(chat, parent, fields) {
  const message = newMessage(chat.id, parent, fields);
  for (const other of chat.messages.values())
    if (other.parent === parent) message.created = Math.max(message.created, other.created + 1);
  return message;
}

/**
 * Returns the branch that ends with the message `leaf`, the first message first.
 * @param {Messages} messages @param {string | null} leaf @returns {Message[]}
 */
export function branchOf(messages, leaf) {
  const branch = [];
  for (let at = messages.get(leaf); at; at = messages.get(at.parent)) branch.push(at);
  return branch.reverse();
}

/**
 * Returns the last message of the branch through `id` that takes the newest version of each later message. Without
 * `id`: of the newest branch.
 * @param {Messages} messages @param {string | null} id @returns {string | null}
 */
export function leafBelow(messages, id) {
  const versions = versionsOf(messages);
  let leaf = messages.has(id) ? id : null;
  while (versions.has(leaf)) leaf = versions.get(leaf).at(-1).id;
  return leaf;
}

/**
 * Links each message whose parent is missing to its nearest existing ancestor, found through `lost` (the
 * parents of damaged messages), or makes it a first message. Cuts cycles. Afterwards each branch begins with a
 * first message.
 * @param {Messages} messages @param {Map<string, string | null>} lost
 */
export function repairLinks(messages, lost) {
  const reaches = new Set([null]);  // messages known to descend from a first message
  for (const message of messages.values()) {
    const way = new Set();
    for (let at = message; !reaches.has(at.id); at = messages.get(at.parent)) {
      way.add(at.id);
      const skipped = new Set();
      while (at.parent !== null && !messages.has(at.parent) && !skipped.has(at.parent)) {
        skipped.add(at.parent);
        at.parent = lost.get(at.parent) ?? null;
      }
      if (!messages.has(at.parent) || way.has(at.parent)) at.parent = null;
      if (at.parent === null) break;
    }
    for (const id of way) reaches.add(id);
  }
}

/** The user's title, or the first line of the oldest message.
 * @param {import("./message.js").Conversation} conversation */
export function titleOf(conversation) {
  if (conversation.title) return conversation.title;
  const oldest = [...conversation.messages.values()].filter((message) => message.parent === null).sort(byAge)[0];
  const firstLine = (text) => text.trim().split("\n")[0].slice(0, 80);
  if (oldest) return firstLine(oldest.content) || "New conversation";
  const begun = firstLine(conversation.draft) || conversation.files[0]?.name;
  return begun ? `Draft: ${begun}` : "New conversation";
}
