// The API key. sessionStorage of each tab keeps it, so it is gone when the last tab closes. Tabs of this server give it to
// each other: a new tab takes it from an open one, and the dialogs of all tabs end when one gets it.
import { kServer } from "../base/server_address.js";
import { session } from "../base/web_storage.js";

const kItem = "nibble.key";
const kWaitMs = 150;  // for the answer of another tab

let channel = /** @type {BroadcastChannel | null} */ (null);
try {
  channel = new BroadcastChannel(`nibble.key ${new URL(kServer).pathname}`);
} catch {
  // Session storage is blocked too, so each tab asks for the key.
}
/** @type {Set<(key: string) => void>} */
const waiting = new Set();

channel?.addEventListener("message", ({ data }) => {
  const key = session.get(kItem);
  if (data.kind === "wanted" && key !== null && !data.refused.has(key)) channel.postMessage({ kind: "key", key });
  if (data.kind === "key") for (const take of waiting) take(data.key);
});

/** @returns {string | null} */
export const currentKey = () => session.get(kItem);

/** @param {string} key @param {boolean} isAccepted  the server took it: other tabs may use it */
export function keepKey(key, isAccepted) {
  session.set(kItem, key);
  if (isAccepted) channel?.postMessage({ kind: "key", key });
}

/**
 * Resolves to a key that another tab has; to null after `ms`, or if `end` is called first.
 * @param {Set<string | null>} refused  keys that the server rejected @param {number} [ms]
 */
export function keyOfOtherTab(refused, ms = kWaitMs) {
  let end = () => {};
  const key = new Promise((resolve) => {
    const finish = (found) => {
      waiting.delete(take);
      resolve(found);
    };
    const take = (found) => { if (!refused.has(found)) finish(found); };
    end = () => finish(null);
    waiting.add(take);
    channel?.postMessage({ kind: "wanted", refused });
    if (Number.isFinite(ms)) setTimeout(end, channel ? ms : 0);
  });
  return { key, end };
}
