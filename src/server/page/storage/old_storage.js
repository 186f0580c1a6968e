// Moves the conversations of earlier versions, which were items of localStorage, to the database. An item is removed
// only after the database has been read back and has all of its messages.
import { local } from "../base/web_storage.js";
import { linear } from "./exchange.js";
import { isStored, merge, setAsideItem } from "./merge.js";

const kPrefix = "nibble.chat.";

/** Returns the number of damaged items. Items that can't be moved now are shown, and moved later. */
export async function moveOldConversations() {
  let numDamaged = 0;
  for (const key of local.keys().filter((key) => key.startsWith(kPrefix))) {
    const text = local.get(key);
    if (text === null) continue;  // another tab has moved it
    let old;
    try {
      old = linear(JSON.parse(text));
    } catch (error) {
      ++numDamaged;
      if (await setAsideItem(key, text, error.message)) local.remove(key);
      continue;
    }
    numDamaged += old.numDamaged;
    if (old.numDamaged && !(await setAsideItem(key, text, "some of its messages are damaged"))) continue;
    const { isStored: isWritten } = await merge(old.id, old.messages);
    if (isWritten && (await isStored(old.id, old.messages)) && local.get(key) === text) local.remove(key);
  }
  return numDamaged;
}
