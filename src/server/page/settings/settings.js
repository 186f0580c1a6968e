// The settings. Each conversation has its own from its first question on; those saved last are the defaults of new ones.
// The defaults are in localStorage: theme.js needs the theme before the page is drawn.
import { isUrl } from "../base/newer.js";
import { local } from "../base/web_storage.js";

const kItem = "nibble.settings";

/** @typedef {{name: string, label: string, range: string, min: number, max: number, isWhole?: boolean, fixed?: string}} Parameter */

/** The sampling parameters of the chat endpoint, and the numbers that it accepts; without `fixed`, the server reports the default. */
export const kSampling = [
  { name: "temperature", label: "Temperature", range: "0 to 2", min: 0, max: 2 },
  { name: "top_p", label: "Top p", range: "above 0 to 1", min: 1e-6, max: 1 },
  { name: "top_k", label: "Top k", range: "0: all", min: -1, max: 2 ** 31 - 1, isWhole: true },
  { name: "min_p", label: "Min p", range: "0 to 1", min: 0, max: 1 },
  { name: "presence_penalty", label: "Presence penalty", range: "-2 to 2", min: -2, max: 2 },
  { name: "frequency_penalty", label: "Frequency penalty", range: "-2 to 2", min: -2, max: 2 },
  { name: "repetition_penalty", label: "Repetition penalty", range: "0.01 to 100", min: 0.01, max: 100 },
  { name: "seed", label: "Seed", range: "a whole number", min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER, isWhole: true, fixed: "random" },
  { name: "max_tokens", label: "Max tokens", range: "1 or more", min: 1, max: 2 ** 31 - 1, isWhole: true, fixed: "until the context is full" },
];

export const kDefaultSettings = { effort: "medium", ...Object.fromEntries(kSampling.map(({ name }) => [name, ""])),
  instructions: "", tools: "", mcp: "", javascript: "", schema: "", theme: "system" };

const kMostServers = 10;

/** The addresses of MCP servers, one on a line.
 * @param {string} text */
export const serverUrls = (text) => text.split(/\s+/).filter(Boolean);

/**
 * Fields that are missing or damaged get their defaults.
 * @returns {typeof kDefaultSettings}
 */
export function loadSettings() {
  const settings = { ...kDefaultSettings };
  try {
    const saved = JSON.parse(local.get(kItem) ?? "{}");
    for (const name of Object.keys(settings)) if (faultOf(name, saved[name]) === "") settings[name] = saved[name];
  } catch {
    // The stored text is not JSON: use the defaults.
  }
  return settings;
}

/**
 * The settings of a conversation.
 * @param {{settings?: object}} chat @returns {typeof kDefaultSettings}
 */
export function settingsOf(chat) {
  const settings = loadSettings();
  for (const name of Object.keys(settings)) {
    if (name === "theme" || !chat.settings) continue;
    const text = chat.settings[name] ?? kDefaultSettings[name];  // missing: saved before the page had this setting
    if (faultOf(name, text) === "") settings[name] = text;
  }
  return settings;
}

/** Returns whether the settings are stored.
 * @param {typeof kDefaultSettings} settings */
export const saveSettings = (settings) => local.set(kItem, JSON.stringify(settings));

/**
 * Returns what is wrong with a field's text; empty if it is valid.
 * @param {string} name @param {unknown} text
 */
export function faultOf(name, text) {
  if (typeof text !== "string") return "This is not text.";
  if (text === "") return "";
  const number = kSampling.find((parameter) => parameter.name === name);
  if (number) return isNumberOf(number, Number(text)) ? "" : `This must be a number: ${number.range}.`;
  if (name === "mcp") return serversFault(serverUrls(text));
  if (name !== "tools" && name !== "schema") return "";
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `This is not valid JSON: ${error.message}.`;
  }
  if (name === "schema" && (typeof value !== "object" || value === null)) return "A schema must be an object: {\"type\": \"object\", ...}";
  if (name === "tools" && !Array.isArray(value)) return "This must be a list: [{\"type\": \"function\", \"function\": {...}}]";
  return "";
}

/** @param {string[]} urls */
function serversFault(urls) {
  for (const text of urls) {
    const url = isUrl(text) ? new URL(text) : null;
    if (!url || !/^https?:$/.test(url.protocol)) return `"${text}" is no address of a server: https://tools.example/mcp`;
    if (url.username || url.password || url.hash) return `"${text}" must have no password and no "#".`;
  }
  return urls.length > kMostServers ? `At most ${kMostServers} servers are possible.` : "";
}

/** Values that the API does not accept would make every question fail. */
const isNumberOf = (/** @type {Parameter} */ { min, max, isWhole }, value) => value >= min && value <= max && (!isWhole || Number.isInteger(value));
