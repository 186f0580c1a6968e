// The MCP servers of the settings: one connection per address, shared by the conversations of this tab.
import { session } from "../base/web_storage.js";
import { McpClient, McpFault } from "./mcp.js";

const kListMs = 60_000;  // age of a list of tools at which the server is asked again
const kNever = new AbortController().signal;

/** @typedef {import("./mcp.js").McpTool} McpTool */

let askForToken = async (url, isWrong) => /** @type {string | null} */ (null);
/** Set by the page: asks the user for the token of a server; null: the user has none.
 * @param {typeof askForToken} ask */
export const onTokenNeeded = (ask) => { askForToken = ask; };

// Kept until the tab is closed. Not in the settings, because those are exported.
const tokenItem = (url) => `nibble.mcp-token.${url}`;

class Server {
  #url;
  #client = /** @type {Promise<McpClient> | null} */ (null);
  #list = /** @type {Promise<{tools: McpTool[], numUnusable: number}> | null} */ (null);
  #listed = 0;

  constructor(url) {
    this.#url = url;
  }

  /** @returns {Promise<{tools: McpTool[], numUnusable: number}>} */
  list() {
    if (this.#list && performance.now() - this.#listed < kListMs) return this.#list;
    this.#listed = performance.now();
    this.#list = this.#withClient((client) => client.listTools(kNever));
    this.#list.catch(() => { this.#list = null; });  // the next question tries again
    return this.#list;
  }

  /** @param {string} name @param {object} args @param {AbortSignal} signal */
  call(name, args, signal) {
    return this.#withClient((client) => client.callTool(name, args, signal));
  }

  // Connects again if the server has forgotten the session (404), or when the user has entered another token (401).
  async #withClient(use) {
    for (let numLost = 0; ;) {
      const connecting = (this.#client ??= connect(this.#url));
      const token = session.get(tokenItem(this.#url));
      let isConnected = false;
      try {
        const client = await connecting;
        isConnected = true;
        return await use(client);
      } catch (error) {
        const isRefused = error.status === 401;
        const isLost = isConnected && error.status === 404 && ++numLost === 1;
        if ((isRefused || isLost || !isConnected) && this.#client === connecting) this.#client = null;
        if (isRefused) await this.#renewToken(token);
        else if (!isLost) throw error;
      }
    }
  }

  /** Throws if the user has no token.
   * @param {string | null} refused */
  async #renewToken(refused) {
    if (session.get(tokenItem(this.#url)) !== refused) return;  // meanwhile entered for another conversation
    const token = await askForToken(this.#url, refused !== null);
    if (token === null) throw new McpFault("The MCP server needs a token.");
    session.set(tokenItem(this.#url), token);
  }

  close() {
    this.#client?.then((client) => client.close(), () => {});
  }
}

/** @param {string} url */
async function connect(url) {
  const client = new McpClient(url, () => session.get(tokenItem(url)));
  await client.connect(kNever);
  return client;
}

/** @type {Map<string, Server>} */
const servers = new Map();

// The connections end with the page. One that comes back from the browser's cache is loaded again.
globalThis.addEventListener?.("pagehide", () => {
  for (const server of servers.values()) server.close();
  servers.clear();
});

/** @param {string} url */
function serverOf(url) {
  if (!servers.has(url)) servers.set(url, new Server(url));
  return servers.get(url);
}

/** Rejects as soon as the signal is aborted; the work goes on for others.
 * @template T @param {Promise<T>} work @param {AbortSignal} signal */
const unlessAborted = (work, signal) => new Promise((resolve, reject) => {
  signal.addEventListener("abort", () => reject(signal.reason));
  if (signal.aborted) reject(signal.reason);
  work.then(resolve, reject);
});

/**
 * The tools of several servers. A server that fails adds a fault and no tools; then `isComplete` is false.
 * @param {string[]} urls @param {AbortSignal} signal
 */
export async function serverTools(urls, signal) {
  const faults = [];
  let isComplete = true;
  const lists = await Promise.all(urls.map(async (url) => {
    try {
      const { tools, numUnusable } = await unlessAborted(serverOf(url).list(), signal);
      if (numUnusable) faults.push(`${numUnusable} of the tools of ${url} have no usable name or schema, and are left out.`);
      return tools.map((tool) => ({ url, tool }));
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      isComplete = false;
      faults.push(`Its tools are missing: ${url}. ${error.message}`);
      return [];
    }
  }));
  return { tools: lists.flat(), faults, isComplete };
}

/** @param {string} url @param {string} name @param {object} args @param {AbortSignal} signal */
export const callServer = (url, name, args, signal) => serverOf(url).call(name, args, signal);
