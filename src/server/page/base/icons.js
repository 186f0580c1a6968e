// Buttons with an icon. Their name is read by screen readers and shown as a tooltip.
import { h } from "./dom.js";

const kSvg = "http://www.w3.org/2000/svg";

// Lines of the icons, in a square of 16.
const kPaths = {
  attach: "M8 3v10M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  compose: "M8 2.5H4a1.5 1.5 0 0 0-1.5 1.5v8A1.5 1.5 0 0 0 4 13.5h8a1.5 1.5 0 0 0 1.5-1.5V8M6.5 9.5l.4-2 5.6-5.6 1.6 1.6-5.6 5.6z",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  delete: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9",
  done: "M3 8.5l3.5 3.5L13 4.5",
  down: "M8 3v10M3.5 8.5L8 13l4.5-4.5",
  edit: "M3 13l.6-3 7-7 2.4 2.4-7 7zM9 4.6L11.4 7",
  info: "M8 1.8a6.2 6.2 0 1 0 .01 0zM8 7.3v4M8 4.6v.5",
  keyboard: "M2 4h12v8H2zM4.5 6.6h.01M7 6.6h.01M9.5 6.6h.01M11.8 6.6h.01M5 9.6h6",
  list: "M2.5 4h11M2.5 8h11M2.5 12h11",
  pin: "M5.5 2.5h5M6.5 2.5v4l-2 2.5h7l-2-2.5v-4M8 9v4.5",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13.2 2v3h-3",
  search: "M7 2.5a4.5 4.5 0 1 0 .01 0zM10.4 10.4l3.1 3.1",
  send: "M8 13V3.5M3.8 7.5L8 3.3l4.2 4.2",
  settings: "M2 4.5h6M12 4.5h2M10 2.8a1.7 1.7 0 1 0 .01 0zM2 11.5h2M8 11.5h6M6 9.8a1.7 1.7 0 1 0 .01 0z",
  status: "M2 8.5h2.6l1.7-5 3 9 1.9-4H14",
  stop: "M4.5 4.5h7v7h-7z",
  unpin: "M5.5 2.5h5M6.5 2.5v4l-2 2.5h7l-2-2.5v-4M8 9v4.5M2.5 13.5l11-11",
};

/** @param {keyof kPaths} name */
export function icon(name) {
  const image = document.createElementNS(kSvg, "svg"), path = document.createElementNS(kSvg, "path");
  image.setAttribute("viewBox", "0 0 16 16");
  path.setAttribute("d", kPaths[name]);
  image.append(path);
  return image;
}

/** Adds the icons that the document names by "data-icon". */
export function addIcons() {
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-icon]")))
    element.prepend(icon(/** @type {keyof kPaths} */ (element.dataset.icon)));
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
