// A client of one MCP server (Model Context Protocol): agrees on a version, lists the tools and calls them.
//
// Versions until 2025-11-25 begin with a handshake, and may have sessions. Version 2026-07-28 has neither: each request has all
// that it needs. Servers know the one, the other or both; the handshake is tried first.
import { signals } from "../base/newer.js";
import { McpFault, McpTransport } from "./mcp_http.js";

export { McpFault };

const kHandshakeVersions = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const kStatelessVersion = "2026-07-28";
const kClient = { name: "nibble", version: "1" };
const kShortMs = 15_000, kCallMs = 300_000;  // time limits of requests
const kMostTools = 500, kMostPages = 100;  // of a list of tools
const kHeaderText = /^[\x21-\x7e]{1,128}$/;  // a name that can be sent in a header, and shows as it is

/**
 * @typedef {{name: string, description: string, inputSchema: object}} McpTool
 */

export class McpClient {
  #transport;
  #nextId = 1;
  #isStateless = false;
  #hasTools = true;

  /** @param {string} url @param {() => string | null} token */
  constructor(url, token) {
    this.#transport = new McpTransport(url, token);
  }

  /** Throws McpFault if the server can't be reached, or has no version in common.
   * @param {AbortSignal} signal */
  async connect(signal) {
    try {
      await this.#shakeHands(signal);
    } catch (error) {
      if (!mayBeStateless(error)) throw error;
      this.#transport.version = kStatelessVersion;
      this.#isStateless = true;
      const found = await this.#request("server/discover", {}, signal).catch(() => { throw error; });
      if (!found.supportedVersions?.includes(kStatelessVersion)) throw unknownVersion(found.supportedVersions);
      this.#hasTools = Boolean(found.capabilities?.tools);
    }
  }

  async #shakeHands(signal) {
    const params = { protocolVersion: kHandshakeVersions[0], capabilities: {}, clientInfo: kClient };
    const { result, reply } = await this.#exchange("initialize", params, signal);
    if (!kHandshakeVersions.includes(result.protocolVersion)) throw unknownVersion(result.protocolVersion);
    this.#hasTools = Boolean(result.capabilities?.tools);
    this.#transport.version = result.protocolVersion;
    this.#transport.session = reply.headers.get("Mcp-Session-Id");
    await this.#transport.notify({ method: "notifications/initialized" });
  }

  /** Leaves out tools without a usable name or schema.
   * @param {AbortSignal} signal @returns {Promise<{tools: McpTool[], numUnusable: number}>} */
  async listTools(signal) {
    const tools = [], names = new Set(), cursors = new Set();
    let numUnusable = 0, cursor = undefined;
    if (!this.#hasTools) return { tools, numUnusable };
    do {
      cursors.add(cursor);
      const page = await this.#request("tools/list", cursor === undefined ? {} : { cursor }, signal);
      if (!Array.isArray(page.tools)) throw new McpFault("The MCP server's list of tools is damaged.");
      for (const tool of page.tools) {
        if (!isTool(tool) || names.has(tool.name)) {
          ++numUnusable;
          continue;
        }
        names.add(tool.name);
        tools.push({ name: tool.name, description: typeof tool.description === "string" ? tool.description : "", inputSchema: tool.inputSchema });
      }
      if (tools.length > kMostTools || cursors.size > kMostPages) throw new McpFault("The MCP server's list of tools is too long.");
      cursor = page.nextCursor;
    } while (typeof cursor === "string" && !cursors.has(cursor));
    return { tools, numUnusable };
  }

  /**
   * Returns the result as text for the model. A failure of the tool is a text too. Throws McpFault if no result comes.
   * @param {string} name @param {object} args @param {AbortSignal} signal
   */
  async callTool(name, args, signal) {
    const result = await this.#request("tools/call", { name, arguments: args }, signal, kCallMs, this.#isStateless ? { "Mcp-Name": name } : {});
    if (result.resultType === "input_required") throw new McpFault("The tool wants more input from the user, which this page can't give.");
    const text = resultText(result);
    return result.isError ? `Error: ${text}` : text;
  }

  /** Ends the session. */
  close() {
    this.#transport.end();
  }

  // A page sees the header with the session only if the server exposes it.
  #explained(error, method) {
    const isWithoutSession = error.status === 400 && method !== "initialize" && !this.#isStateless && !this.#transport.session;
    if (isWithoutSession) error.message += " If it has sessions, it must expose Mcp-Session-Id (Access-Control-Expose-Headers).";
    return error;
  }

  async #request(method, params, signal, ms, headers) {
    return (await this.#exchange(method, params, signal, ms, headers)).result;
  }

  async #exchange(method, params, signal, ms = kShortMs, more = {}) {
    const id = this.#nextId++;
    const time = signals.timeout(ms), either = signals.any([signal, time]);
    const headers = this.#isStateless ? { "Mcp-Method": method, ...more } : {};
    const request = { id, method, params: this.#isStateless ? { ...params, _meta: kMeta } : params };
    try {
      const { response, reply } = await this.#transport.request(request, either, headers);
      if (response.error) throw rpcFault(response.error, reply.status);
      if (typeof response.result !== "object" || response.result === null) throw new McpFault("The MCP server's answer has no result.");
      return { result: response.result, reply };
    } catch (error) {
      if (!either.aborted) throw this.#explained(error, method);
      // Without a session, closing the connection cancels the request.
      if (!this.#isStateless && method !== "initialize") this.#transport.notify({ method: "notifications/cancelled", params: { requestId: id } });
      if (signal.aborted) throw signal.reason;
      throw new McpFault(`The MCP server did not answer within ${ms / 1000} seconds.`);
    }
  }
}

const kMeta = {
  "io.modelcontextprotocol/protocolVersion": kStatelessVersion,
  "io.modelcontextprotocol/clientInfo": kClient,
  "io.modelcontextprotocol/clientCapabilities": {},
};

/** Whether a refused handshake may come from a server that knows none.
 * @param {any} error */
const mayBeStateless = (error) => error instanceof McpFault && (error.code !== undefined || (error.status >= 400 && error.status < 500 && error.status !== 401 && error.status !== 403));

const unknownVersion = (version) => new McpFault(`The MCP server uses version ${String(version).slice(0, 100)} of MCP, which this page does not know.`);

function rpcFault({ code, message, data }, status) {
  return new McpFault(`The MCP server refused: ${String(message).slice(0, 1000)}`, { status, code: Number(code), data });
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isTool = (tool) => isObject(tool) && typeof tool.name === "string" && kHeaderText.test(tool.name) && isObject(tool.inputSchema);

/** The text of a result; of pictures and other data only what they are, because the model reads text.
 * @param {any} result */
function resultText({ content, structuredContent }) {
  const parts = (Array.isArray(content) ? content : []).map((part) => {
    if (part?.type === "text" && typeof part.text === "string") return part.text;
    if (part?.type === "resource" && typeof part.resource?.text === "string") return part.resource.text;
    if (part?.type === "resource_link") return `[link: ${part.name ?? ""} ${part.uri ?? ""}]`;
    return `[${part?.type ?? "part"} ${part?.mimeType ?? part?.resource?.mimeType ?? ""}: not text, left out]`;
  });
  if (parts.length) return parts.join("\n");
  return structuredContent === undefined ? "" : JSON.stringify(structuredContent);
}
