// Sends changes of conversations to the other tabs, and receives theirs.

/**
 * @typedef {import("./message.js").Message} Message
 *
 * @typedef {{kind: "messages", chat: string, messages: Message[], leaf: string | null, shown: string | null, revives?: boolean} |
 *   {kind: "shown", chat: string, leaf: string | null, shown: string | null} |
 *   {kind: "dropped", chat: string, id: string} |
 *   {kind: "draft", chat: string, text: string} |
 *   {kind: "files", chat: string, files: {name: string, text: string}[]} |
 *   {kind: "fields", chat: string, title?: string, settings?: object, pinned?: boolean} |
 *   {kind: "deleted", chat: string}} Change  a change made in another tab
 */

let channel = /** @type {BroadcastChannel | null} */ (null);

/** @param {Change} change */
export function post(change) {
  channel?.postMessage(change);
}

/** @param {(change: Change) => void} take */
export function listen(take) {
  try {
    channel = new BroadcastChannel("nibble");
  } catch {
    return;  // blocked like the storage
  }
  channel.onmessage = ({ data }) => take(data);
}
