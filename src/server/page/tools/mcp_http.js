// The transport of MCP: JSON-RPC messages in HTTP requests ("streamable HTTP"), from the browser to the MCP server.
//
// The browser decides which servers can be reached: the content policy of this page must name the server's origin (--mcp-origin),
// and the server must allow this page's origin (CORS). Both faults look the same to a script, so the texts here explain them.
import { isUrl, signals } from "../base/newer.js";
import { eventsOf } from "./sse.js";

const kMostResumes = 3;         // of a stream without a new event in between
const kMostRetryMs = 10_000;    // before a stream is resumed
const kNotifyMs = 15_000;       // time limit of a message that has no answer
const kMostBody = 8_000_000;    // bytes of an answer
const kCutOff = "The connection ended before the MCP server answered.";

/** A fault whose message is written for the user, and for the model as the result of a call. */
export class McpFault extends Error {
  /** @param {string} message @param {{status?: number, code?: number, data?: any}} details  HTTP status; JSON-RPC error */
  constructor(message, details = {}) {
    super(message);
    this.status = details.status;
    this.code = details.code;
    this.data = details.data;
  }
}

const blocked = new Set();  // origins that the content policy does not allow
globalThis.document?.addEventListener("securitypolicyviolation", ({ effectiveDirective, blockedURI }) => {
  if (effectiveDirective === "connect-src" && isUrl(blockedURI)) blocked.add(new URL(blockedURI).origin);
});

/** Why no answer came from this address.
 * @param {string} url */
async function reachFault(url) {
  await new Promise((resolve) => setTimeout(resolve, 50));  // the event of the policy comes after the error
  const { origin } = new URL(url);
  if (blocked.has(origin))
    return `This page may not connect to ${origin}. Its operator can allow that: nibble serve --mcp-origin ${origin}`;
  return `The MCP server at ${url} can't be reached, or does not let this page call it. It must allow the origin ${location.origin} ` +
    "(CORS) with the headers Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, MCP-Protocol-Version and " +
    "Mcp-Session-Id, and expose Mcp-Session-Id.";
}

/** @param {string} url @param {RequestInit} options @returns {Promise<Response>} */
async function send(url, options) {
  try {
    return await fetch(url, { ...options, credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (options.signal?.aborted) throw options.signal.reason;
    throw new McpFault(await reachFault(url));
  }
}

/** The text of a body, up to a limit.
 * @param {Response} reply */
async function textOf(reply) {
  const reader = reply.body?.getReader(), decoder = new TextDecoder();
  let text = "", size = 0;
  while (reader) {
    const { value, done } = await reader.read().catch((error) => {
      throw error.name === "AbortError" || error.name === "TimeoutError" ? error : new McpFault(kCutOff);
    });
    if (done) break;
    size += value.length;
    if (size > kMostBody) {
      reader.cancel().catch(() => {});
      throw new McpFault("The answer of the MCP server is too large.");
    }
    text += decoder.decode(value, { stream: true });
  }
  return text + decoder.decode();
}

/** The JSON-RPC messages of a text: one, or a list as in older versions of MCP.
 * @param {string} text @returns {any[]} */
function messagesOf(text) {
  try {
    return [JSON.parse(text)].flat().filter((message) => typeof message === "object" && message !== null);
  } catch {
    throw new McpFault(`The MCP server sent no JSON: ${text.slice(0, 200)}`);
  }
}

/** The JSON-RPC error in the body of a refusal, or null.
 * @param {string} text */
function errorIn(text) {
  try {
    const { error } = JSON.parse(text);
    return typeof error?.message === "string" ? error : null;
  } catch {
    return null;
  }
}

const sleep = (ms, signal) => new Promise((resolve, reject) => {
  setTimeout(resolve, ms);
  signal.addEventListener("abort", () => reject(signal.reason));
});

export class McpTransport {
  #url;
  #token;
  /** Set by the client once it is agreed.
   * @type {string | null} */
  version = null;
  /** The server's session, if it has one.
   * @type {string | null} */
  session = null;

  /** @param {string} url @param {() => string | null} token  for Authorization */
  constructor(url, token) {
    [this.#url, this.#token] = [url, token];
  }

  #headers(more) {
    const token = this.#token();
    return {
      ...(token ? { Authorization: `Bearer ${token}` } : {}), ...(this.version ? { "MCP-Protocol-Version": this.version } : {}),
      ...(this.session ? { "Mcp-Session-Id": this.session } : {}), ...more,
    };
  }

  #post(message, signal, more = {}) {
    const headers = this.#headers({ "Content-Type": "application/json", Accept: "application/json, text/event-stream", ...more });
    return send(this.#url, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...message }), signal });
  }

  /** Sends a message that has no answer; a fault is ignored.
   * @param {object} message */
  async notify(message) {
    const reply = await this.#post(message, signals.timeout(kNotifyMs)).catch(() => null);
    reply?.body?.cancel().catch(() => {});
  }

  /**
   * Sends a request, and returns the JSON-RPC response and the HTTP response. Throws McpFault.
   * @param {{id: number, method: string, params: object}} request @param {AbortSignal} signal @param {object} headers
   * @returns {Promise<{response: any, reply: Response}>}
   */
  async request(request, signal, headers = {}) {
    const reply = await this.#post(request, signal, headers);
    const type = reply.headers.get("Content-Type") ?? "";
    if (reply.ok && type.startsWith("text/event-stream")) return { response: await this.#follow(reply, request.id, signal), reply };
    const text = await textOf(reply);
    if (reply.ok && type.startsWith("application/json")) {
      const response = messagesOf(text).find(({ id }) => id === request.id);
      if (response) return { response, reply };
    }
    const error = reply.ok ? null : errorIn(text);
    if (error) return { response: { error }, reply };
    const told = text.trim().slice(0, 300);
    throw new McpFault(`The MCP server answered with status ${reply.status}${told ? `: ${told}` : ""}.`, { status: reply.status });
  }

  // Returns the response in a stream. Resumes the stream if it ends before the response and its events had ids.
  async #follow(reply, id, signal) {
    let last = "", delay = 1000;
    for (let attempt = 0; ; ++attempt) {
      try {
        for await (const event of eventsOf(reply.body)) {
          if (event.id !== undefined) [last, attempt] = [event.id, 0];
          delay = Math.min(event.retry ?? delay, kMostRetryMs);
          if (event.type !== "message" || !event.data) continue;
          for (const message of messagesOf(event.data)) {
            if (message.id === id && !message.method) return message;
            this.#answer(message);
          }
        }
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        if (error instanceof McpFault) throw error;
      }
      if (!last || attempt === kMostResumes) throw new McpFault(kCutOff);
      await sleep(delay, signal);
      const headers = this.#headers({ Accept: "text/event-stream", "Last-Event-ID": last });
      reply = await send(this.#url, { method: "GET", headers, signal });
      if (!reply.ok) throw new McpFault(`The MCP server ended its answer, and did not resume it: status ${reply.status}.`);
    }
  }

  // The page offers a server nothing but an answer to its ping.
  #answer({ id, method }) {
    if (id === undefined || !method) return;
    const outcome = method === "ping" ? { result: {} } : { error: { code: -32601, message: `This client has no ${method}.` } };
    this.notify({ id, ...outcome });
  }

  /** Ends the session; also while the page is closed. */
  end() {
    if (!this.session) return;
    send(this.#url, { method: "DELETE", headers: this.#headers({}), keepalive: true }).catch(() => {});
    this.session = null;
  }
}
