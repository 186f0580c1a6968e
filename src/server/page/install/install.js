// The page /page/install/install.html: registers and removes the service worker. It shows no text of a model. Its content policy is
// the only one that allows a Trusted Types policy, which a registration needs; this one returns a constant.
import { byId, reportStart } from "../base/dom.js";
import { kServer } from "../base/server_address.js";

const kWorker = new URL("../worker.js", import.meta.url).href;
const script = globalThis.trustedTypes?.createPolicy("nibble-install", { createScriptURL: () => kWorker }).createScriptURL("") ?? kWorker;
const workers = navigator.serviceWorker;

async function show() {
  const registration = await workers.getRegistration(kServer);
  const isKept = Boolean(registration?.active);
  byId("add").hidden = isKept;
  byId("remove").hidden = !isKept;
  byId("state").textContent = isKept ? "This browser has a copy." : "This browser has no copy.";
}

/** Resolves when the worker has stored the copy.
 * @param {ServiceWorkerRegistration} registration */
function installed(registration) {
  const worker = registration.installing ?? registration.waiting ?? registration.active;
  return new Promise((resolve, reject) => {
    const look = () => {
      if (worker.state === "activated") resolve(undefined);
      if (worker.state === "redundant") reject(new Error("the server did not send all files"));
    };
    worker.addEventListener("statechange", look);
    look();
  });
}

async function add() {
  byId("add").disabled = true;
  try {
    await installed(await workers.register(script, { scope: kServer, updateViaCache: "none" }));
    await show();
  } catch (error) {
    byId("state").textContent = `The copy was not stored: ${error.message}.`;
  }
  byId("add").disabled = false;
}

async function remove() {
  await (await workers.getRegistration(kServer))?.unregister();
  for (const name of await caches.keys()) if (name.startsWith(`nibble.page ${kServer} `)) await caches.delete(name);
  await show();
}

reportStart();
if (workers) {
  byId("add").addEventListener("click", add);
  byId("remove").addEventListener("click", remove);
  await show();
} else {
  byId("state").textContent = "Browsers keep a copy only of pages with HTTPS, or of this machine.";
}
