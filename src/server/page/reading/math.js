// Formulas: $...$, $$...$$, \(...\) and \[...\], shown as MathML by KaTeX.
//
// They are found before Markdown is parsed, and encoded so that no character of them has a meaning there. KaTeX turns a
// formula into a tree of objects. Only the elements and attributes below are made from it, so that no formula can
// become a link, a picture, a style or a script.
import { h } from "../base/dom.js";
import { library } from "./library.js";
import { checkMathFont } from "./math_font.js";

const kMaxDisplay = 5000, kMaxInline = 1000;  // characters
const kPairs = [["$$", "$$"], ["\\[", "\\]"], ["\\(", "\\)"]];

// Text in which a delimiter does not begin a formula: fenced code, inline code, escapes, addresses.
const kToken =
  /^(?:[ \t>]|(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})(?=[^`\n]*$)|(`+)|\\[^]?|\$\$?|https?:\/\/[^\s<>"`|]*|\]\([^\s)]*/gm;

// An encoded formula: each UTF-16 unit of it becomes a character of the private plane 15.
const kBegin = "\ue000", kPlane = 0xf0000;
const kEncoded = /\ue000((?:[\udb80-\udbbf][\udc00-\udfff])+)/g;
const encoded = (text) => kBegin + Array.from({ length: text.length }, (_, at) => String.fromCodePoint(kPlane + text.charCodeAt(at))).join("");
const decoded = (text) => Array.from(text, (letter) => String.fromCharCode(letter.codePointAt(0) - kPlane)).join("");

/** Puts formulas back into text that shows its source: code, addresses.
 * @param {string} text */
export const restored = (text) => text.replace(kEncoded, (_, formula) => decoded(formula));

/** Returns Markdown with its formulas encoded.
 * @param {string} text */
export function protectFormulas(text) {
  if (!/[$\\]/.test(text)) return text;
  const token = new RegExp(kToken);
  const parts = [];
  let copied = 0;
  const paragraph = { end: -1, missing: new Set() };  // markers of inline code that the rest of the paragraph lacks
  for (let found = token.exec(text); found; found = token.exec(text)) {
    const at = found.index;
    if (found[1]) {
      token.lastIndex = endOfFence(text, token.lastIndex, found[1]);
    } else if (found[2]) {
      token.lastIndex = endOfCode(text, token.lastIndex, found[2], paragraph);
    } else {
      const end = endOfFormula(text, at);
      if (end === undefined) continue;
      const quote = text.slice(text.lastIndexOf("\n", at) + 1, at).match(/^(?:[ \t]*>)+/);
      const source = text.slice(at, end);
      parts.push(text.slice(copied, at), encoded(quote ? source.replace(/^(?:[ \t]*>)+/gm, "") : source));
      copied = token.lastIndex = end;
    }
  }
  parts.push(text.slice(copied));
  return parts.join("");
}

function endOfFence(text, begin, fence) {
  for (let line = text.indexOf("\n", begin); line >= 0; line = text.indexOf("\n", line + 1)) {
    const next = text.indexOf("\n", line + 1);
    const end = next < 0 ? text.length : next;
    const marker = text.slice(line + 1, end).replace(/^[ \t>]+/, "").trimEnd();
    if (marker.startsWith(fence) && marker.replaceAll(fence[0], "") === "") return end;
  }
  return text.length;
}

function endOfCode(text, begin, marker, paragraph) {
  if (begin > paragraph.end) {
    const blank = text.slice(begin).search(/\n[ \t]*\n/);
    paragraph.end = blank < 0 ? text.length : begin + blank;
    paragraph.missing.clear();
  }
  if (paragraph.missing.has(marker)) return begin;
  for (let at = text.indexOf(marker, begin); at >= 0 && at < paragraph.end; at = text.indexOf(marker, at)) {
    let end = at;
    while (text[end] === "`") ++end;
    if (end - at === marker.length) return end;
    at = end;
  }
  paragraph.missing.add(marker);
  return begin;
}

const isWord = (letter) => /\w/.test(letter ?? " ");

/** The end of the formula that begins there, or undefined.
 * @param {string} text @param {number} at */
function endOfFormula(text, at) {
  for (const [open, close] of kPairs) {
    if (!text.startsWith(open, at)) continue;
    const begin = at + open.length;
    const length = text.slice(begin, begin + kMaxDisplay).indexOf(close);
    const inner = text.slice(begin, begin + Math.max(length, 0));
    return inner.trim() === "" || /\n[ \t>]*\n/.test(inner) ? undefined : begin + length + close.length;
  }
  if (text[at] !== "$" || isWord(text[at - 1])) return undefined;
  // As in Pandoc, so that prices are not formulas: no space inside the signs, and no digit or letter after them.
  const found = text.slice(at, at + kMaxInline).match(/^\$((?:\\[^\n]|[^\\$\n])+)\$/);
  if (!found || found[1].trim() !== found[1] || isWord(text[at + found[0].length])) return undefined;
  return at + found[0].length;
}

/** The element of an encoded formula at this place of a text, and where it ends.
 * @param {string} text @param {number} at */
export function formulaAt(text, at) {
  if (text[at] !== kBegin) return undefined;
  const pattern = new RegExp(kEncoded.source, "y");
  pattern.lastIndex = at;
  const found = pattern.exec(text);
  if (!found) return undefined;
  const source = decoded(found[1]);
  const element = h("span", { class: "math", "data-source": source, dir: "ltr" }, source);
  withKatex(element, show);
  return { node: element, end: at + found[0].length };
}

// KaTeX is loaded for the first formula. Until then, and if it is missing, the source is shown.
const withKatex = library("katex.js", checkMathFont);

function show(element) {
  const source = element.dataset.source;
  try {
    const { katex } = globalThis;
    const isDisplay = source.startsWith("$$") || source.startsWith("\\[");
    const width = source.startsWith("$") && !isDisplay ? 1 : 2;
    const tree = katex.__renderToDomTree(source.slice(width, -width),
      { displayMode: isDisplay, output: "mathml", throwOnError: true, strict: "ignore", trust: false, maxSize: 20, maxExpand: 500 });
    const shown = h("span");
    append(shown, tree);
    element.replaceChildren(...shown.childNodes);
  } catch {
    // The formula is wrong: its source stays.
  }
}

const kNamespace = "http://www.w3.org/1998/Math/MathML";
const kElements = new Set(("math mrow mi mn mo mtext mspace mstyle mfrac msqrt mroot msub msup msubsup munder mover munderover " +
  "mmultiscripts mtable mtr mtd mlabeledtr mpadded mphantom menclose").split(" "));
const kAttributes = new Set(("accent accentunder columnalign columnlines columnspacing depth display displaystyle fence height " +
  "largeop linebreak linethickness lspace mathbackground mathcolor mathsize mathvariant maxsize minsize movablelimits " +
  "notation rowlines rowspacing rspace scriptlevel separator stretchy voffset width").split(" "));

/** Adds what KaTeX made, a tree of its own objects, as elements.
 * @param {Element} parent @param {any} node */
function append(parent, node) {
  if (typeof node.text === "string") return parent.append(node.text);
  if (node.character) return parent.append(node.character);
  const type = node.type ?? (node.width === undefined ? undefined : "mspace");
  if (type === "annotation") return;
  if (!kElements.has(type)) return node.children.forEach((child) => append(parent, child));
  const element = document.createElementNS(kNamespace, type);
  if (node.type === undefined) element.setAttribute("width", `${Number(node.width)}em`);
  for (const [name, value] of Object.entries(node.attributes ?? {}))
    if (kAttributes.has(name)) element.setAttribute(name, value);
  for (const child of node.children ?? []) append(element, child);
  if (type === "mtable") alignColumns(element);
  parent.append(element);
}

// Browsers ignore "columnalign"; chat.css has the classes.
function alignColumns(table) {
  const sides = (table.getAttribute("columnalign") ?? "").split(" ");
  for (const row of table.children)
    [...row.children].forEach((cell, at) => { if (["left", "right"].includes(sides[at])) cell.setAttribute("class", sides[at]); });
}

/** Copies selected formulas as their source.
 * @param {ClipboardEvent} event */
export function copyFormulas(event) {
  const selection = getSelection();
  if (!selection?.rangeCount || selection.isCollapsed) return;
  const range = selection.getRangeAt(0).cloneRange();
  const around = (node) => (node instanceof Element ? node : node.parentElement)?.closest(".math");
  const first = around(range.startContainer), last = around(range.endContainer);
  if (first) range.setStartBefore(first);
  if (last) range.setEndAfter(last);
  const copy = h("div", { class: "off-screen said" });
  copy.append(range.cloneContents());
  const formulas = copy.querySelectorAll(".math");
  if (!formulas.length) return;
  for (const formula of formulas) formula.replaceWith(formula.getAttribute("data-source"));
  for (const button of copy.querySelectorAll("button")) button.remove();
  document.body.append(copy);  // innerText depends on the layout
  event.clipboardData.setData("text/plain", copy.innerText.trim());
  copy.remove();
  event.preventDefault();
}
