// Small values in localStorage and sessionStorage; if blocked or full, in memory until the page closes.

/** @param {() => Storage} open */
function safeStorage(open) {
  const unsaved = new Map();
  return {
    /** @param {string} key @returns {string | null} */
    get(key) {
      if (unsaved.has(key)) return unsaved.get(key);
      try {
        return open().getItem(key);
      } catch {
        return null;
      }
    },

    /** Returns whether the value is stored.
     * @param {string} key @param {string} value */
    set(key, value) {
      try {
        open().setItem(key, value);
        unsaved.delete(key);
        return true;
      } catch {
        unsaved.set(key, value);
        return false;
      }
    },

    /** @param {string} key */
    remove(key) {
      unsaved.delete(key);
      try {
        open().removeItem(key);
      } catch {
        // Nothing can be stored under the key either.
      }
    },

    /** @returns {string[]} */
    keys() {
      try {
        return Object.keys(open());
      } catch {
        return [];
      }
    },
  };
}

export const local = safeStorage(() => localStorage);
export const session = safeStorage(() => sessionStorage);  // kept until the tab closes
