// Footnotes: "[^1]" refers to the line "[^1]: text".
import { h } from "../base/dom.js";

const kNote = /^ {0,3}\[\^([^\]\s]{1,40})\]:[ \t]*/;
let known = new Set();  // names of the notes in the text that is being rendered

/** Begins a text. Returns the names of its notes, as one string.
 * @param {string} text */
export function setFootnotes(text) {
  known = new Set(text.includes("]:") ? text.split("\n").map((line) => line.match(kNote)?.[1]).filter(Boolean) : []);
  return [...known].join(" ");
}

/** The note that begins at this line, with its indented lines, or undefined.
 * @param {string[]} lines @param {number} begin */
export function footnoteAt(lines, begin) {
  const found = lines[begin].match(kNote);
  if (!found) return undefined;
  let end = begin + 1;
  while (end < lines.length && /^[ \t]+\S/.test(lines[end])) ++end;
  const text = [lines[begin].slice(found[0].length), ...lines.slice(begin + 1, end).map((line) => line.trim())].join("\n");
  const back = h("button", { type: "button", class: "reference", "aria-label": `Back to the reference of note ${found[1]}`, onclick: goTo("reference", found[1]) }, "↩");
  const fill = (withInline) => h("div", { class: "footnote", role: "note", tabindex: "-1", "data-note": found[1] },
    h("sup", {}, found[1]), " ", withInline(h("span"), text), " ", back);
  return { end, fill };
}

/** @param {string} text @param {number} at */
export function referenceAt(text, at) {
  if (!text.startsWith("[^", at)) return undefined;
  const name = text.slice(at, at + 50).match(/^\[\^([^\]\s]{1,40})\]/)?.[1];
  if (!name || !known.has(name)) return undefined;
  const link = h("button", { type: "button", class: "reference", "data-reference": name, "aria-label": `Note ${name}`, onclick: goTo("note", name) }, name);
  return { node: h("sup", {}, link), end: at + name.length + 3 };
}

const goTo = (kind, name) => (event) => {
  const parts = [...event.target.closest(".answer").querySelectorAll(`[data-${kind}]`)];
  const target = parts.find((part) => part.dataset[kind] === name);
  target?.scrollIntoView({ block: "nearest" });
  target?.focus();
};
