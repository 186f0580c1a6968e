// Asks the user for the API key.
import { byId } from "../base/dom.js";
import { keyOfOtherTab } from "./key.js";

let asked = /** @type {Promise<string | null> | null} */ (null);

/**
 * Resolves to the key, or to null if the user enters none. Concurrent requests share one dialog, which also ends when another
 * tab gets a key.
 * @param {boolean} wasRefused @param {Set<string | null>} refused  keys that the server rejected
 */
export function askForKey(wasRefused, refused) {
  asked ??= new Promise((resolve) => {
    const dialog = byId("key-dialog");
    byId("key-fault").textContent = wasRefused ? "The server rejected this key." : "";
    byId("key").value = "";
    byId("key-form").onsubmit = (event) => {
      event.preventDefault();
      byId("key-fault").textContent = "";
      dialog.close(byId("key").value);
    };
    byId("cancel-key").onclick = () => dialog.close("");
    dialog.returnValue = "";
    const other = keyOfOtherTab(refused, Infinity);
    other.key.then((key) => { if (key !== null) dialog.close(key); });
    dialog.onclose = () => {
      asked = null;
      other.end();
      resolve(dialog.returnValue || null);
    };
    dialog.showModal();
  });
  return asked;
}
