// Offers to bring back the conversation that was deleted last.
import { byId } from "../base/dom.js";
import { remove, restore } from "../storage/removal.js";
import { titleOf } from "../storage/tree.js";

/** @typedef {import("../storage/message.js").Conversation} Conversation */

let last = /** @type {Conversation | null} */ (null);

/** @param {(chat: Conversation) => void} onRestored */
export function setUpUndo(onRestored) {
  byId("undo-delete").addEventListener("click", () => {
    const chat = last;
    hideUndo();
    restore(chat);
    onRestored(chat);
  });
  byId("close-undo").addEventListener("click", () => {
    hideUndo();
    byId("input").focus();
  });
}

/** Deletes a conversation. Until the next one is deleted, or the page is closed, it can be brought back.
 * @param {Conversation} chat */
export function removeWithUndo(chat) {
  remove(chat);
  last = chat;
  byId("undo-text").textContent = `Deleted: ${titleOf(chat)}`;
  byId("undo").hidden = false;
}

export function hideUndo() {
  last = null;
  byId("undo-text").textContent = "";
  byId("undo").hidden = true;
}

export const undoDelete = () => byId("undo-delete").click();
