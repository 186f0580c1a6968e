// The service worker: opens the page while the server can't be reached. install/install.js registers it when the user
// wants that.
//
// It answers only requests for the page and its files. The server is asked first each time; the stored copy is used
// only if no server answers, so a new version of the server is never hidden by an old page. All files of a
// copy are of one version: a page from the server takes no file from the copy, and a page from the copy none from the
// server. Everything else, all of the API, goes to the server and is not stored.

const kVersion = "", kHashes = {};  // of the files, by name; set by cmake/Page.cmake
const kBase = new URL("../", self.location.href).href;
const kCaches = `nibble.page ${kBase} `;  // prefix of their names; has the path, because all programs of an origin share its caches
const kCache = kCaches + kVersion;

const copies = new Set();  // ids of the clients whose page came from the copy

const addressOf = (name) => `${kBase}page/${name}`;

async function fill() {
  const cache = await caches.open(kCache);
  await Promise.all(Object.entries(kHashes).map(async ([name, hash]) => {
    const reply = await fetch(addressOf(name), { cache: "no-cache" });
    if (!reply.ok || !reply.headers.get("ETag")?.startsWith(`W/"${hash}`)) throw new Error(`${name} is not of this version`);
    await cache.put(addressOf(name), reply);
  }));
}

/** The name of the file that answers a request; null if it is no file of the page.
 * @param {Request} request */
function fileOf({ method, mode, url }) {
  if (method !== "GET" || !url.startsWith(kBase)) return null;
  const path = url.slice(kBase.length).split(/[?#]/)[0];
  if (mode === "navigate" && path === "") return "chat/chat.html";
  if (mode === "navigate" && path === "status") return "status/status.html";
  if (mode === "navigate" && /^c\/[^/]+$/.test(path)) return "chat/conversation.html";
  const name = path.startsWith("page/") ? path.slice("page/".length) : "";
  return Object.hasOwn(kHashes, name) ? name : null;
}

const stored = async (name) => (await caches.open(kCache)).match(addressOf(name));

async function answer({ request, clientId, resultingClientId }, name) {
  if (request.mode !== "navigate") return (copies.has(clientId) && (await stored(name))) || fetch(request);
  try {
    return await fetch(request);
  } catch (error) {
    const copy = await stored(name);
    if (!copy) throw error;
    copies.add(resultingClientId);
    return copy;
  }
}

self.addEventListener("install", (event) => {
  self.skipWaiting();
  event.waitUntil(fill().catch(async (error) => {
    await caches.delete(kCache);
    throw error;  // the browser tries again later
  }));
});

self.addEventListener("activate", (event) => {
  const isOld = (name) => name.startsWith(kCaches) && name !== kCache;
  event.waitUntil(caches.keys().then((names) => Promise.all(names.filter(isOld).map((name) => caches.delete(name)))));
});

self.addEventListener("fetch", (event) => {
  const name = fileOf(event.request);
  if (name !== null) event.respondWith(answer(event, name));
});
