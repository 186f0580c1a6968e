// Buttons with an icon. Their name is read by screen readers and shown as a tooltip.
import { h } from "./dom.js";

const kSvg = "http://www.w3.org/2000/svg";

// Lines of the icons, in a square of 16.
const kPaths = {
  attach: "M8 3v10M3 8h10",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  delete: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9",
  done: "M3 8.5l3.5 3.5L13 4.5",
  down: "M8 3v10M3.5 8.5L8 13l4.5-4.5",
  edit: "M3 13l.6-3 7-7 2.4 2.4-7 7zM9 4.6L11.4 7",
  info: "M8 1.8a6.2 6.2 0 1 0 .01 0zM8 7.3v4M8 4.6v.5",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13.2 2v3h-3",
};

/** @param {keyof kPaths} name */
export function icon(name) {
  const image = document.createElementNS(kSvg, "svg"), path = document.createElementNS(kSvg, "path");
  image.setAttribute("viewBox", "0 0 16 16");
  path.setAttribute("d", kPaths[name]);
  image.append(path);
  return image;
}

/** @param {keyof kPaths} name @param {string} label @param {object} [properties] */
export function iconButton(name, label, properties = {}) {
  const button = h("button", { type: "button", ...properties });
  setIcon(button, name, label);
  return button;
}

/** @param {HTMLElement} button @param {keyof kPaths} name @param {string} label */
export function setIcon(button, name, label) {
  button.classList.add("icon");
  button.setAttribute("aria-label", label);
  button.title = label;
  button.replaceChildren(icon(name));
}
