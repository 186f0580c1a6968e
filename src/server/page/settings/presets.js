// Presets: settings that the user has saved under a name, to switch between them.
import { local } from "../base/web_storage.js";
import { faultOf, kDefaultSettings } from "./settings.js";

/** @typedef {typeof kDefaultSettings} Settings
 * @typedef {{name: string, settings: Settings}} Preset */

const kItem = "nibble.presets";
const kMostLetters = 60;  // of a name

/** The saved presets by name; damaged ones are left out.
 * @returns {Preset[]} */
export function presets() {
  try {
    return sorted(JSON.parse(local.get(kItem) ?? "[]").map(presetOf).filter(Boolean));
  } catch {
    return [];  // not JSON, or no list
  }
}

const sorted = (list) => list.sort((one, other) => one.name.localeCompare(other.name));

/** @param {any} value @returns {Preset | null} */
function presetOf(value) {
  const name = typeof value?.name === "string" ? value.name.trim().slice(0, kMostLetters) : "";
  if (!name || typeof value.settings !== "object" || value.settings === null) return null;
  const settings = { ...kDefaultSettings };
  for (const field of Object.keys(settings)) if (faultOf(field, value.settings[field]) === "") settings[field] = value.settings[field];
  return { name, settings };
}

/** Saves settings under a name; they replace those of this name. Returns whether they are stored.
 * @param {string} name @param {Settings} settings */
export const savePreset = (name, settings) => store([...presets().filter((known) => known.name !== name), { name, settings }]);

/** @param {string} name */
export const removePreset = (name) => store(presets().filter((known) => known.name !== name));

/** Adds those of an imported file whose names are new.
 * @param {any} values */
export function addPresets(values) {
  const known = presets(), names = new Set(known.map(({ name }) => name));
  const added = (Array.isArray(values) ? values : []).map(presetOf).filter((preset) => preset && !names.has(preset.name));
  if (added.length) store([...known, ...added]);
}

const store = (list) => local.set(kItem, JSON.stringify(list));

/** The name of the preset that has these settings; "" if there is none.
 * @param {Settings} settings */
export const presetWith = (settings) =>
  presets().find((preset) => Object.keys(kDefaultSettings).every((field) => field === "theme" || preset.settings[field] === settings[field]))?.name ?? "";
