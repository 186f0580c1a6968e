// Runs first: loads the page again if one of its scripts or styles fails to load, as when the server is restarted meanwhile. Without
// its scripts the page would be drawn and do nothing.
//
// It tries that once, when the server answers. Until then, and if it fails too, the line #not-loaded of the HTML is shown, with
// a link that loads the page. This file may be missing itself: page.css shows the line after a time if no script has started,
// and without page.css the line is shown at once.
(() => {
  const kAgain = "nibble.loaded-again", kTyped = "nibble.typed";  // in sessionStorage
  const kFirstWaitMs = 500, kMostWaitMs = 4000;  // between two attempts to reach the server
  const kRequestMs = 10_000;  // without an answer, the server counts as not reachable
  const field = () => /** @type {HTMLTextAreaElement | null} */ (document.getElementById("input"));
  let hasFailed = false, hasStarted = false;

  const stored = (key) => {
    try {
      return sessionStorage.getItem(key);
    } catch {
      return null;  // blocked
    }
  };
  const store = (key, value) => {
    try {
      if (value === null) sessionStorage.removeItem(key);
      else sessionStorage.setItem(key, value);
      return true;
    } catch {
      return false;
    }
  };

  /** Whether the server sends a file now.
   * @param {string} url */
  async function isReachable(url) {
    const end = new AbortController();
    const timer = setTimeout(() => end.abort(), kRequestMs);
    try {
      return (await fetch(url, { method: "HEAD", cache: "no-store", signal: end.signal })).ok;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {string} url  of the file that did not load */
  async function fail(url) {
    if (hasFailed || hasStarted) return;
    hasFailed = true;
    // Without storage nothing tells that this was tried, and what the user has typed would be lost.
    const mayTry = stored(kAgain) === null && store(kAgain, "yes");
    for (let waitMs = kFirstWaitMs; mayTry && !hasStarted; waitMs = Math.min(2 * waitMs, kMostWaitMs)) {
      if ((await isReachable(url)) && !hasStarted) return location.reload();
      document.documentElement.dataset.failed = "";
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
    document.documentElement.dataset.failed = "";
  }

  addEventListener("error", ({ target, error }) => {
    if (target instanceof HTMLScriptElement) fail(target.src);
    if (target instanceof HTMLLinkElement && target.rel === "stylesheet") fail(target.href);
    if (error instanceof SyntaxError) fail(location.href);  // modules of two versions: the server was upgraded meanwhile
  }, true);

  addEventListener("nibble-started", () => {  // reportStart() of dom.js
    hasStarted = true;
    if (!hasFailed) store(kAgain, null);
  });

  // Text that is typed before the conversations are loaded. From then on it is a draft.
  addEventListener("pagehide", () => { if (document.querySelector("#log[aria-busy]") && field().value) store(kTyped, field().value); });
  document.addEventListener("readystatechange", () => {  // before the modules run
    const typed = stored(kTyped);
    if (document.readyState !== "interactive" || typed === null || !field()) return;
    field().value = [typed, field().value].filter(Boolean).join("\n");
    store(kTyped, null);
  });
})();
