// Sends requests to the server.
import { kServer } from "../base/server_address.js";
import { currentKey, keepKey, keyOfOtherTab } from "./key.js";

/** The server can't be reached, or the connection to it ended. */
export class ConnectionError extends Error {}

// Set by the page: prompts the user for the key. Resolves to the key, or to null.
let askForKey = async (wasRefused, refused) => /** @type {string | null} */ (null);
export const onKeyNeeded = (ask) => { askForKey = ask; };

async function ask(path, options, mayAsk = true) {
  const refused = new Set();
  for (let isNew = false;;) {
    const key = currentKey();
    // fetch() throws for a key that is not ASCII. Without a key the server answers 401, and the user can enter another.
    const headers = { ...options.headers, ...(/^[\x20-\x7e]+$/.test(key ?? "") ? { Authorization: `Bearer ${key}` } : {}) };
    let reply;
    try {
      reply = await fetch(new URL(path, kServer).href, { ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ConnectionError("The server can't be reached. Is it running?");
    }
    if (reply.status !== 401 && isNew) keepKey(key, true);
    if (reply.ok) return reply;
    if (reply.status === 401) {
      refused.add(key);
      const known = await keyOfOtherTab(refused).key;
      const given = known ?? (mayAsk ? await askForKey(key !== null, refused) : null);
      isNew = known === null && given !== null;
      if (given !== null) {
        keepKey(given, false);
        continue;
      }
    }
    throw Object.assign(new Error(await messageOf(reply)), { status: reply.status });
  }
}

async function messageOf(reply) {
  const text = await reply.text();
  try {
    return `${JSON.parse(text).error.message} (status ${reply.status})`;
  } catch {
    return `${text.slice(0, 1000)} (status ${reply.status})`;  // not nibble's JSON: from a proxy
  }
}

/** @param {string} path @param {boolean} [mayAsk]  the user for a key */
export async function getJson(path, mayAsk = true) {
  return (await ask(path, {}, mayAsk)).json();
}

/**
 * Yields the chunks of a chat's answer, with the numbers of their events. Throws if the server or the connection fails.
 * @param {object} body @param {AbortSignal} signal @param {(id: string | null) => void} onId  null: the answer is not kept
 */
export async function* streamChat(body, signal, onId) {
  const reply = await ask("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  onId(reply.headers.get("X-Nibble-Answer"));
  yield* chunksOf(reply);
}

/** Yields the rest of a kept answer.
 * @param {string} id @param {number | undefined} last  event @param {AbortSignal} signal */
export async function* resumeChat(id, last, signal) {
  const after = !(last >= 0) ? "" : `?starting_after=${last}`;
  yield* chunksOf(await ask(`v1/answers/${encodeURIComponent(id)}${after}`, { signal }));
}

/** Stops a kept answer and frees its memory at the server.
 * @param {string} id */
export function endAnswer(id) {
  const key = currentKey();
  const headers = key === null ? {} : { Authorization: `Bearer ${key}` };
  // If the server can't be reached, it drops the answer after a time.
  fetch(new URL(`v1/answers/${encodeURIComponent(id)}`, kServer).href, { method: "DELETE", headers, keepalive: true }).catch(() => {});
}

async function* chunksOf(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", number;
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      return { value: "", done: true };  // the server has ended, or the network failed
    });
    if (done) throw new ConnectionError("The connection ended before the answer was complete.");
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("id: ")) number = Number(line.slice("id: ".length));
      if (!line.startsWith("data: ")) continue;
      const data = line.slice("data: ".length);
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      yield { number, chunk };
    }
  }
}
