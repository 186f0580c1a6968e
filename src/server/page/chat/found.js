// Where the words of a search are: a line of text for the list, and marks in the open conversation.
import { branchOf, leafBelow } from "../storage/tree.js";

/**
 * @typedef {import("../storage/message.js").Conversation} Conversation
 * @typedef {import("../storage/message.js").Message} Message
 */

const kBefore = 24, kLength = 90;  // characters of a line: before the word, and in all
const kMarks = "found";  // chat.css has its colours

/** The text of a message that is searched.
 * @param {Message} message */
export const textOf = (message) => `${message.content}\n${message.reasoning ?? ""}`;

/** @param {string} text @param {string[]} words  in small letters */
const firstAt = (text, words) => words.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0).sort((one, other) => one - other)[0];

/** The text around the first word that a message of the conversation has; "" if only the title or the draft has them.
 * @param {Conversation} chat @param {string[]} words */
export function lineWith(chat, words) {
  const message = messageWith(chat, words);
  if (!message) return "";
  const text = textOf(message).replace(/\*\*|`+|^#+ |^[|\s:-]+$/gm, " ").replace(/\s+/g, " "), at = firstAt(text, words) ?? 0;
  const begin = at <= kBefore ? 0 : text.lastIndexOf(" ", at - kBefore / 2) + 1;
  return `${begin > 0 ? "… " : ""}${text.slice(begin, begin + kLength)}`;
}

/** The message with most of the words; of several the first, in the branch that is shown if possible.
 * @param {Conversation} chat @param {string[]} words @returns {Message | null} */
function messageWith(chat, words) {
  const shown = branchOf(chat.messages, chat.shown);
  let best = null, most = 0;
  for (const message of new Set([...shown, ...chat.messages.values()])) {
    const text = textOf(message).toLowerCase();
    const count = words.filter((word) => text.includes(word)).length;
    if (count > most) [best, most] = [message, count];
  }
  return best;
}

/** Makes the conversation show the branch with the words. Returns the id of the message that has them, or null.
 * @param {Conversation} chat @param {string[]} words */
export function turnToFound(chat, words) {
  const message = words.length ? messageWith(chat, words) : null;
  if (!message) return null;
  if (!branchOf(chat.messages, chat.shown).includes(message)) chat.shown = leafBelow(chat.messages, message.id);
  return message.id;
}

/** Marks the words in an element, and unfolds the reasoning if only that has them. Without an element, ends all marks.
 * @param {HTMLElement | null} element @param {string[]} words */
export function markFound(element, words) {
  const { highlights } = /** @type {any} */ (CSS);
  const { Highlight } = /** @type {any} */ (globalThis);
  highlights?.delete(kMarks);
  if (!element || !highlights) return;
  const ranges = [];
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const text = node.textContent.toLowerCase();
    for (const word of words) {
      for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + word.length);
        ranges.push(range);
      }
    }
  }
  highlights.set(kMarks, new Highlight(...ranges));
  const inSight = ranges.find((range) => !range.startContainer.parentElement.closest("details:not([open]), .off-screen"));
  const folded = ranges[0]?.startContainer.parentElement.closest("details");
  if (!inSight && folded) folded.open = true;
  (inSight ?? ranges[0])?.startContainer.parentElement.scrollIntoView({ block: "center" });
}
