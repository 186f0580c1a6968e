// The row of presets in the dialog of the settings: choose one, save the fields as one, delete one.
import { byId, h } from "../base/dom.js";
import { presets, presetWith, removePreset, savePreset } from "./presets.js";

/** @typedef {import("./presets.js").Settings} Settings */

/**
 * @param {() => Settings | null} read  the fields; null, with a report, if one of them has a fault
 * @param {(settings: Settings) => void} fill  sets the fields
 */
export function setUpPresets(read, fill) {
  byId("preset").addEventListener("change", () => {
    const chosen = presets().find(({ name }) => name === byId("preset").value);
    if (chosen) fill(chosen.settings);
    byId("delete-preset").disabled = !chosen;
  });
  byId("save-preset").addEventListener("click", () => {
    const settings = read();
    if (!settings) return;
    const name = prompt("Name of the preset", byId("preset").value)?.trim().slice(0, 60);
    if (!name) return;
    const isStored = savePreset(name, settings);
    showPresets(name);
    byId("preset-outcome").textContent = isStored ? `Saved as “${name}”.` : "The preset lasts only until the page is closed: the browser's storage is full or blocked.";
  });
  byId("delete-preset").addEventListener("click", () => {
    const name = byId("preset").value;
    if (!name || !confirm(`Delete the preset “${name}”?`)) return;
    removePreset(name);
    showPresets("");
    byId("preset-outcome").textContent = `Deleted “${name}”.`;
    byId("preset").focus();
  });
}

/** Lists the presets.
 * @param {Settings | string} current  the settings, or the name, of the one that is chosen */
export function showPresets(current) {
  const name = typeof current === "string" ? current : presetWith(current);
  byId("preset").replaceChildren(h("option", { value: "" }, "none"), ...presets().map((preset) => h("option", { value: preset.name }, preset.name)));
  byId("preset").value = name;
  byId("delete-preset").disabled = !name;
  byId("preset-outcome").textContent = "";
}
