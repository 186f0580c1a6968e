// The tools that the page can run for the model: those of MCP servers, and the JavaScript sandbox. Functions of the setting
// "tools" are not among them: the user enters their results.
import { serverUrls } from "../settings/settings.js";
import { callServer, serverTools } from "./mcp_servers.js";
import { kJavaScript, runJavaScript } from "./sandbox.js";

const kMostResult = 50_000;  // characters; more would fill the context

/**
 * @typedef {object} Tool
 * @property {string} name          as the model knows it
 * @property {string} title         as its server knows it
 * @property {string} description
 * @property {object} parameters    JSON Schema
 * @property {string} [url]         of its MCP server, which needs the user's permission; absent: the sandbox, which needs none
 * @property {(args: any, signal: AbortSignal) => Promise<string>} run
 */

/** Whether a conversation may have tools that the page runs.
 * @param {{javascript: string, mcp: string}} settings */
export const hasTools = ({ javascript, mcp }) => Boolean(javascript || mcp);

/** The name of a function in the settings; the list may be damaged.
 * @param {any} tool */
const nameOf = (tool) => tool?.function?.name ?? tool?.name;

/**
 * A name that the server accepts, and that no other tool has: two MCP servers may have tools of one name.
 * @param {string} name @param {Set<string>} taken
 */
export function freeName(name, taken) {
  const safe = name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 60);
  let free = safe;
  for (let number = 2; taken.has(free); ++number) free = `${safe}_${number}`;
  taken.add(free);
  return free;
}

/**
 * The tools of a conversation, with those of its MCP servers. `faults` names the servers that fail.
 * @param {{javascript: string, mcp: string, tools: string}} settings @param {AbortSignal} signal
 * @returns {Promise<{tools: Tool[], faults: string[], isComplete: boolean}>}  isComplete: no server failed
 */
export async function toolsOf(settings, signal) {
  const taken = new Set(settings.tools ? JSON.parse(settings.tools).map(nameOf) : []);
  /** @type {Tool[]} */
  const tools = [];
  if (settings.javascript) {
    const { name, ...rest } = kJavaScript;
    tools.push({ ...rest, name: freeName(name, taken), title: name, run: ({ code }, stop) => runJavaScript(String(code ?? ""), stop) });
  }
  const found = await serverTools(serverUrls(settings.mcp), signal);
  for (const { url, tool } of found.tools) {
    tools.push({ name: freeName(tool.name, taken), title: tool.name, description: tool.description, parameters: tool.inputSchema, url,
      run: (args, stop) => callServer(url, tool.name, args, stop) });
  }
  return { tools, faults: found.faults, isComplete: found.isComplete };
}

/** Adds tools to a request.
 * @param {{tools?: object[]}} body @param {Tool[]} tools */
export function offer(body, tools) {
  if (!tools.length) return;
  body.tools = [...(body.tools ?? []), ...tools.map(({ name, description, parameters }) =>
    ({ type: "function", function: { name, description, parameters } }))];
}

/**
 * Runs a call. Returns its result; a fault is a text for the model too. Throws only if `signal` is aborted.
 * @param {Tool} tool @param {string} text  the arguments @param {AbortSignal} signal
 */
export async function runTool(tool, text, signal) {
  try {
    const args = argumentsOf(text);
    if (!args) return "Error: the arguments are not a JSON object.";
    const result = await tool.run(args, signal);
    if (result.length <= kMostResult) return result;
    return `${result.slice(0, kMostResult)}\n[cut off: the result has ${result.length} characters]`;
  } catch (error) {
    if (signal.aborted) throw error;
    return `Error: ${error.message}`;
  }
}

/** @param {string} text @returns {object | null} */
function argumentsOf(text) {
  try {
    const args = JSON.parse(text || "{}");
    return typeof args === "object" && args !== null && !Array.isArray(args) ? args : null;
  } catch {
    return null;
  }
}
