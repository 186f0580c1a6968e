// The dialog of the settings.
import { byId, h } from "../base/dom.js";
import { serverDefaults } from "../client/server_state.js";
import { setUpPresets, showPresets } from "./preset_row.js";
import { faultOf, kDefaultSettings, kSampling, saveSettings } from "./settings.js";

const kFields = Object.keys(kDefaultSettings);

/** Opens the settings at a field.
 * @param {string} name */
export function openSettings(name) {
  byId("open-settings").click();
  byId(name).focus();
}

/** @param {() => any} current  the settings to show @param {(settings: any, isSaved: boolean) => void} onChange */
export function setUpSettings(current, onChange) {
  const dialog = byId("settings");
  byId("sampling").append(...kSampling.map(({ name, label, min, max, isWhole }) =>
    h("label", {}, label, h("input", { id: name, type: "number", min, max, step: isWhole ? "1" : "any", "aria-describedby": `${name}-hint` }),
      h("span", { id: `${name}-hint`, class: "note" }))));
  const showFault = (name, fault) => {
    const line = byId(`${name}-fault`);
    if (!line) return;
    line.textContent = fault;
    byId(name).setAttribute("aria-invalid", String(fault !== ""));
  };
  const fill = (settings) => {
    for (const name of kFields) {
      byId(name).value = settings[name];
      showFault(name, "");
    }
  };
  const read = () => {
    const settings = fieldValues();
    for (const name of kFields) showFault(name, faultOf(name, settings[name]));
    const wrong = kFields.find((name) => faultOf(name, settings[name]));
    if (wrong) byId(wrong).focus();
    return wrong ? null : settings;
  };
  setUpPresets(read, (settings) => fill({ ...settings, theme: byId("theme").value }));
  byId("open-settings").addEventListener("click", () => {
    const settings = current();
    fill(settings);
    showPresets(settings);
    opened = JSON.stringify(fieldValues());
    for (const parameter of kSampling) byId(`${parameter.name}-hint`).textContent = hintOf(parameter);
    dialog.showModal();
  });
  byId("settings-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const settings = read();
    if (!settings) return;
    dialog.close();
    onChange(settings, saveSettings(settings));
  });
  byId("cancel-settings").addEventListener("click", () => dialog.close());
  dialog.addEventListener("cancel", (event) => { if (hasUnsavedSettings() && !confirm("Discard the changes of the settings?")) event.preventDefault(); });
}

let opened = "";  // the fields as the dialog opened

const fieldValues = () => /** @type {typeof kDefaultSettings} */ (Object.fromEntries(kFields.map((name) => [name, byId(name).value.trim()])));

/** Whether the open dialog has changes. */
export const hasUnsavedSettings = () => byId("settings").open && JSON.stringify(fieldValues()) !== opened;

/** "0 to 2; default: 1". While the server is offline, its default is unknown.
 * @param {import("./settings.js").Parameter} parameter */
function hintOf({ name, range, fixed }) {
  const known = serverDefaults[name];
  const text = fixed ?? (typeof known === "number" ? String(Number(known.toPrecision(6))) : "the server's");
  return `${range}; default: ${text}`;
}

export function applyTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
