// A script that is loaded for the first text that needs it. If it can't be loaded, it is tried again later: a browser that has no
// network for a moment must not leave formulas and code plain until the page is loaded again.
const kFirstWaitMs = 1000, kMostWaitMs = 300_000;  // between two attempts

/**
 * Returns a function that shows elements with the script: at once, or when it is loaded. `show` must not refer to the element
 * itself, which the page may have replaced by then.
 * @param {string} file  in this folder @param {() => void} [setUp]  called once, when it is loaded
 * @returns {(element: HTMLElement, show: (element: HTMLElement) => void) => void}
 */
export function library(file, setUp = () => {}) {
  let waiting = /** @type {{element: WeakRef<HTMLElement>, show: (element: HTMLElement) => void}[]} */ ([]);
  let mostWaiting = 1000;  // then elements that are gone are forgotten
  let isLoading = false, isLoaded = false;

  async function load() {
    isLoading = true;
    for (let attempt = 0, waitMs = kFirstWaitMs; !isLoaded; ++attempt, waitMs = Math.min(2 * waitMs, kMostWaitMs)) {
      try {
        await import(attempt === 0 ? `./${file}` : `./${file}?attempt=${attempt}`);  // browsers remember addresses that failed
        isLoaded = true;
      } catch {
        await pause(waitMs);
      }
    }
    setUp();
    for (const { element, show } of waiting) if (element.deref()) show(element.deref());
    waiting = [];
  }

  return (element, show) => {
    if (isLoaded) return show(element);
    waiting.push({ element: new WeakRef(element), show });
    if (waiting.length > mostWaiting) {
      waiting = waiting.filter((item) => item.element.deref());
      mostWaiting = 2 * waiting.length + 1000;
    }
    if (!isLoading) load();
  };
}

/** Waits for `ms`, or until the browser has a network again.
 * @param {number} ms @returns {Promise<void>} */
function pause(ms) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    addEventListener("online", end);
  });
}
