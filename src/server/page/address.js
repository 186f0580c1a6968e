// The address of a conversation, /c/ID. The server's files may be under any path of a proxy.
const kBase = new URL("../", import.meta.url).href;

/** The conversation in the browser's address, or null. */
export function addressed() {
  const { href } = location;
  if (!href.startsWith(`${kBase}c/`)) return null;
  try {
    return decodeURIComponent(href.slice(kBase.length + 2).split(/[?#]/)[0]) || null;
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
  const address = id === null ? kBase : `${kBase}c/${encodeURIComponent(id)}`;
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}
