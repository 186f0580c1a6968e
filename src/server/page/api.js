// Sends requests to the server. URLs are relative to this file: a proxy may serve the page under any path.

import { currentKey, keepKey, keyOfOtherTab } from "./key.js";

const kBase = new URL("../", import.meta.url);

// Set by the page: prompts the user for the key. Resolves to the key, or to null.
let askForKey = () => null;
export const onKeyNeeded = (ask) => { askForKey = ask; };

async function ask(path, options) {
  const refused = new Set();
  for (let isNew = false;;) {
    const key = currentKey();
    // fetch() throws for a key that is not ASCII. Without a key the server answers 401, and the user can enter another.
    const headers = { ...options.headers, ...(/^[\x20-\x7e]+$/.test(key ?? "") ? { Authorization: `Bearer ${key}` } : {}) };
    let reply;
    try {
      reply = await fetch(new URL(path, kBase).href, { ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The server can't be reached. Is it running?");
    }
    if (reply.status !== 401 && isNew) keepKey(key, true);
    if (reply.ok) return reply;
    if (reply.status === 401) {
      refused.add(key);
      const known = await keyOfOtherTab(refused).key;
      const given = known ?? (await askForKey(key !== null, refused));
      isNew = known === null && given !== null;
      if (given !== null) {
        keepKey(given, false);
        continue;
      }
    }
    throw new Error(await messageOf(reply));
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

export async function getJson(path) {
  return (await ask(path, {})).json();
}

// Yields the chunks of a chat's answer. Throws if the server or the connection fails.
export async function* streamChat(body, signal) {
  const reply = await ask("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      return { value: "", done: true };  // the server has ended, or the network failed
    });
    if (done) throw new Error("The connection ended before the answer was complete.");
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ")) continue;
      const data = line.slice("data: ".length);
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      yield chunk;
    }
  }
}
