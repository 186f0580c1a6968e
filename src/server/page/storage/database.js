// The page's IndexedDB database, with promises.
//
//   messages  [chat, id]  one record per message: message.js. Complete records never change
//   chats     id          {id, leaf, changed, title, settings, pinned}: which branch is shown, the user's title; or {id, deleted: true}
//   drafts    id          {id, text, changed}: the composer's text, by conversation; and its attached files, apart
//                         because the text is saved at each key press: {id: filesKey(chat), chat, files: [{name, text}]}
//   damaged   number      {store, key, record, reason, found}: records that the page could not use

import { local } from "../base/web_storage.js";

const kName = "nibble", kVersion = 1;
const kAskedItem = "nibble.persistence";  // in localStorage: the browser was asked
const kOpenMs = 5000;  // after this time without an answer, the storage counts as blocked

let database = /** @type {IDBDatabase | null} */ (null);
let opening = /** @type {Promise<IDBDatabase> | null} */ (null);
let numHanging = 0;  // late requests to open the database; above 0, new requests fail at once

/** The open database, or null. */
export const openedDatabase = () => database;

/** Opens the database, if it is not open.
 * @returns {Promise<IDBDatabase>} */
export async function connect() {
  if (database) return database;
  opening ??= openDatabase().finally(() => { opening = null; });
  const opened = await opening;
  const forget = () => { if (database === opened) database = null; };  // the next write opens it again
  opened.onclose = forget;
  opened.onversionchange = () => {
    opened.close();
    forget();
  };
  return database = opened;
}

/** Begins a transaction. Safari ends connections without an event: then it opens another one.
 * @param {string | string[]} stores */
export async function begin(stores) {
  // Not with durability "strict": while the disk works, saveAtOnce() of a page that closes would wait, and be dropped.
  try {
    return (database ?? await connect()).transaction(stores, "readwrite");
  } catch (error) {
    if (error.name !== "InvalidStateError" && error.name !== "UnknownError") throw error;
    database = null;
    return (await connect()).transaction(stores, "readwrite");
  }
}

/** @returns {Promise<IDBDatabase>} */
function openDatabase() {
  return new Promise((resolve, reject) => {
    const fail = () => reject(new DOMException("The database does not open.", "TimeoutError"));
    if (numHanging) return fail();
    const request = indexedDB.open(kName, kVersion);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      ++numHanging;
      fail();
    }, kOpenMs);
    const end = () => {
      clearTimeout(timer);
      if (isLate) --numHanging;
    };
    request.onupgradeneeded = () => {
      request.result.createObjectStore("messages", { keyPath: ["chat", "id"] });
      request.result.createObjectStore("chats", { keyPath: "id" });
      request.result.createObjectStore("drafts", { keyPath: "id" });
      request.result.createObjectStore("damaged", { autoIncrement: true });
    };
    request.onsuccess = () => {
      end();
      if (isLate) request.result.close();  // the next write opens it again
      else resolve(request.result);
    };
    request.onerror = () => {
      end();
      reject(request.error);
    };
  });
}

/**
 * Resolves to the result of a request.
 * @template T @param {IDBRequest<T>} request @returns {Promise<T>}
 */
export function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/**
 * Resolves when the transaction is committed.
 * @param {IDBTransaction} transaction @returns {Promise<void>}
 */
export function committed(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new DOMException("The transaction was aborted.", "AbortError"));
  });
}

/** Asks the browser once not to delete the conversations when the disk is nearly full. Browsers decide alone or ask the user. */
export async function requestPersistence() {
  if (!navigator.storage?.persist || local.get(kAskedItem) !== null) return;
  if (!(await navigator.storage.persisted())) await navigator.storage.persist();
  local.set(kAskedItem, "yes");
}

/** The key in `drafts` of the files attached to a conversation's draft.
 * @param {string} chat */
export const filesKey = (chat) => `files of ${chat}`;

/** The keys of all messages of a conversation.
 * @param {string} chat */
export const messagesOf = (chat) => IDBKeyRange.bound([chat], [chat, []]);

/**
 * Reads all records of a store, one by one if one of them cannot be read.
 * @param {IDBDatabase} database @param {string} store
 * @returns {Promise<{records: any[], numUnreadable: number}>}
 */
export async function readAll(database, store) {
  const open = () => database.transaction(store).objectStore(store);
  try {
    return { records: await result(open().getAll()), numUnreadable: 0 };
  } catch {
    const records = [];
    let numUnreadable = 0;
    for (const key of await result(open().getAllKeys())) {
      try {
        records.push(await result(open().get(key)));
      } catch {
        ++numUnreadable;
      }
    }
    return { records, numUnreadable };
  }
}

/**
 * Moves records that the page cannot use to the store `damaged`.
 * @param {IDBDatabase} database @param {{store: string, key: any, record: unknown, reason: string}[]} faults
 */
export async function setAside(database, faults) {
  const transaction = database.transaction(["messages", "drafts", "damaged"], "readwrite");
  const done = committed(transaction);
  for (const fault of faults) {
    transaction.objectStore("damaged").add({ ...fault, found: Date.now() });
    if (fault.key !== undefined) transaction.objectStore(fault.store).delete(fault.key);
  }
  await done;
}
