// The settings. Each conversation has its own from its first question on; those saved last are the defaults of new ones.
// The defaults are in localStorage: theme.js needs the theme before the page is drawn.
import { local } from "./web_storage.js";

const kItem = "nibble.settings";

export const kDefaultSettings =
  { effort: "medium", temperature: "", instructions: "", tools: "", schema: "", theme: "system" };

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
  for (const name of Object.keys(settings))
    if (name !== "theme" && chat.settings && faultOf(name, chat.settings[name]) === "") settings[name] = chat.settings[name];
  return settings;
}

/** Returns whether the settings are stored. @param {typeof kDefaultSettings} settings */
export const saveSettings = (settings) => local.set(kItem, JSON.stringify(settings));

/**
 * Returns what is wrong with a field's text; empty if it is valid.
 * @param {string} name @param {unknown} text
 */
export function faultOf(name, text) {
  if (typeof text !== "string") return "This is not text.";
  if (text === "" || (name !== "tools" && name !== "schema")) return "";
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
