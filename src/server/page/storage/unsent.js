// Text that the user is writing outside of the composer: edits of messages, results of calls. It is in localStorage, so it
// outlives the tab, until it is sent or its conversation is deleted.
import { local } from "../base/web_storage.js";
import { conversations } from "./store.js";

const kPrefix = "nibble.unsent ";  // before the id of the field
/** @type {Map<string, {chat: string, text: string}>} */
const unsaved = new Map();  // by field: texts that did not fit into localStorage

/** @param {string} field  the id of its message, and of its call if it is a result @returns {string | null} */
export function unsentText(field) {
  return (unsaved.get(field) ?? parsed(kPrefix + field))?.text ?? null;
}

/** @param {string} field @param {string} chat  the conversation's id @param {string} text */
export function keepUnsent(field, chat, text) {
  if (local.set(kPrefix + field, JSON.stringify({ chat, text }))) unsaved.delete(field);
  else unsaved.set(field, { chat, text });
}

/** Whether closing the page would lose a text. Those of deleted conversations are not wanted any more. */
export const hasUnsavedText = () => [...unsaved.values()].some(({ chat }) => conversations.has(chat));

/** @param {string} field */
export function forgetUnsent(field) {
  unsaved.delete(field);
  local.remove(kPrefix + field);
}

/** Removes the texts of conversations that are gone.
 * @param {(chat: string) => boolean} isKnown */
export function sweepUnsent(isKnown) {
  for (const key of local.keys())
    if (key.startsWith(kPrefix) && !isKnown(parsed(key)?.chat)) local.remove(key);
}

function parsed(key) {
  try {
    const { chat, text } = JSON.parse(local.get(key) ?? "{}");
    return typeof text === "string" && typeof chat === "string" ? { chat, text } : null;
  } catch {
    return null;  // damaged
  }
}
