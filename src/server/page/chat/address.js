// The address of a conversation, /c/ID.
import { kServer } from "../base/server_address.js";

/** The conversation in the browser's address, or null. */
export function addressed() {
  const { href } = location;
  if (!href.startsWith(`${kServer}c/`)) return null;
  try {
    return decodeURIComponent(href.slice(kServer.length + 2).split(/[?#]/)[0]) || null;
  } catch {
    return null;
  }
}

/**
 * Shows the address of a conversation; without an id, that of a new one.
 * @param {string | null} id @param {boolean} isStep  the browser's back button returns to the address before
 */
export function showAddress(id, isStep) {
  if (id === addressed()) return;
  const address = id === null ? kServer : `${kServer}c/${encodeURIComponent(id)}`;
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}
