// The server's state in the header: offline, loading, ready. It is read again until the page is closed.
import { byId } from "../base/dom.js";
import { kServer } from "../base/server_address.js";
import { signals } from "../base/newer.js";
import { getJson } from "./api.js";

const kReadyMs = 5000, kOtherMs = 1000;  // time to the next look
const kRequestMs = 10_000;  // without a reply, the server counts as not responding
const kHealth = `${kServer}health`;  // public: needs no key
const kTexts = { offline: "Offline", loading: "Loading the model", draining: "Shutting down", stalled: "Not responding", lost: "Not responding", ready: "Ready" };

/** The longest context of the loaded model.
 * @type {number | undefined} */
export let maxContext;
/** The server's defaults of sampling parameters, by name.
 * @type {Record<string, number>} */
export let serverDefaults = {};
let shown = "";
let isLocked = false;  // the server needs a key, and the user has closed the dialog that asks for it

/** @returns {Promise<{state: string, percent?: number}>} */
async function stateNow() {
  try {
    const reply = await fetch(kHealth, { signal: signals.timeout(kRequestMs) });
    if (reply.ok) return { state: "ready" };
    const { status, percent } = await reply.json().catch(() => ({}));
    return { state: status in kTexts ? status : "loading", percent };
  } catch (error) {
    return { state: error.name === "TimeoutError" ? "lost" : "offline" };
  }
}

/** Shows the state from now on. A hidden page does not ask; when it is shown again, the server may run another model.
 * @param {() => void} onReady  the model is known @param {boolean} [mayAsk]  the user for a key */
export async function followServer(onReady, mayAsk = true) {
  if (document.hidden && shown) {
    document.addEventListener("visibilitychange", () => {
      shown = "";
      followServer(onReady, !isLocked);
    }, { once: true });
    return;
  }
  const { state, percent } = await stateNow();
  if (percent !== undefined) byId("state").textContent = `${kTexts[state]}, ${percent} %`;
  if (state !== shown) {
    shown = state;
    if (percent === undefined && byId("state").textContent !== kTexts[state]) byId("state").textContent = kTexts[state];
    byId("state").dataset.state = state;
    if (state === "ready") showModel(onReady, mayAsk);
  }
  setTimeout(() => followServer(onReady), state === "ready" ? kReadyMs : kOtherMs);
}

async function showModel(onReady, mayAsk) {
  try {
    const { model, state, setup, max_context, defaults } = await getJson("status.json", mayAsk);
    isLocked = false;
    byId("model").textContent = setup ? `${model} on ${setup.backend}` : `${model} (${state})`;
    maxContext = max_context;
    serverDefaults = defaults ?? {};
    onReady();
  } catch (error) {
    isLocked = error.status === 401;
    byId("model").textContent = error.message;
  }
}
