// Asks the user for the token of an MCP server.
import { byId } from "../base/dom.js";

let last = Promise.resolve(/** @type {string | null} */ (null));

/**
 * Resolves to the token, or to null if the user has none. The dialogs of several servers are shown one after another.
 * @param {string} url @param {boolean} isWrong  the server refused the token that it had @returns {Promise<string | null>}
 */
export function askForToken(url, isWrong) {
  last = last.then(() => showDialog(url, isWrong));
  return last;
}

/** @returns {Promise<string | null>} */
function showDialog(url, isWrong) {
  return new Promise((resolve) => {
    const dialog = byId("token-dialog");
    byId("token-url").textContent = url;
    byId("token-fault").textContent = isWrong ? "The server rejected the last token." : "";
    byId("token").value = "";
    // A header takes no other characters.
    byId("token-form").onsubmit = (event) => {
      event.preventDefault();
      if (/^[\x21-\x7e]+$/.test(byId("token").value.trim())) dialog.close(byId("token").value.trim());
      else byId("token-fault").textContent = "A token has letters, digits and signs of ASCII only.";
    };
    byId("cancel-token").onclick = () => dialog.close("");
    dialog.returnValue = "";
    dialog.onclose = () => resolve(dialog.returnValue || null);
    dialog.showModal();
  });
}
