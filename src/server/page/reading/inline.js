// Renders the inline part of Markdown: emphasis, code, links and formulas of a paragraph. markdown.js says what is safe.
import { h } from "../base/dom.js";
import { referenceAt } from "./footnotes.js";
import { formulaAt, restored } from "./math.js";

const kMaxDepth = 8, kMaxAddress = 1000;

/** Parses `text` into `element`, and returns that.
 * @param {HTMLElement} element @param {string} text */
export function withInline(element, text) {
  new Inline(text).appendTo(element);
  return element;
}

const kEmphasis = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];
const isWord = (letter) => letter !== undefined && /[\p{L}\p{N}]/u.test(letter);
const isSpace = (letter) => letter === undefined || /\s/.test(letter);

// Parses the inline content of a paragraph, from left to right.
class Inline {
  constructor(text, depth = 0, isInLink = false) {
    this.text = text;
    this.depth = depth;
    this.isInLink = isInLink;
    this.missing = new Set();  // markers without a match in the rest of the text; not searched for again
  }

  appendTo(element) {
    let plain = "";
    for (let at = 0; at < this.text.length; ) {
      const found = this.escapeAt(at) ?? formulaAt(this.text, at) ?? this.codeAt(at) ?? this.breakAt(at) ??
        referenceAt(this.text, at) ?? this.linkAt(at) ?? this.emphasisAt(at);
      if (typeof found?.node === "string") plain += found.node;
      else if (found) {
        element.append(plain, found.node);
        plain = "";
      } else {
        plain += this.text[at];
      }
      at = found ? found.end : at + 1;
    }
    element.append(plain);
  }

  // A backslash before a bracket is no escape: what is left of \( and \[ belongs to a formula that is not complete.
  escapeAt(at) {
    if (this.text[at] !== "\\" || !"\\`*_#+-.!|~<>$".includes(this.text[at + 1] ?? "x")) return undefined;
    return { node: this.text[at + 1], end: at + 2 };
  }

  codeAt(at) {
    if (this.text[at] !== "`") return undefined;
    let begin = at;
    while (this.text[begin] === "`") ++begin;
    const marker = this.text.slice(at, begin);
    let end = this.missing.has(marker) ? -1 : this.text.indexOf(marker, begin);
    while (end >= 0 && (this.text[end + marker.length] === "`" || this.text[end - 1] === "`"))
      end = this.text.indexOf(marker, end + 1);
    if (end < 0) {
      this.missing.add(marker);
      return { node: marker, end: begin };
    }
    let code = this.text.slice(begin, end);
    if (code.startsWith(" ") && code.endsWith(" ") && code.trim() !== "") code = code.slice(1, -1);
    return { node: h("code", {}, restored(code)), end: end + marker.length };
  }

  breakAt(at) {
    const tag = this.text[at] === "<" && this.text.slice(at, at + 6).match(/^<br ?\/?>/i);
    if (tag) return { node: h("br"), end: at + tag[0].length };
    for (const hard of ["  \n", "\\\n"])
      if (this.text.startsWith(hard, at)) return { node: h("br"), end: at + hard.length };
    return undefined;
  }

  linkAt(at) {
    const letter = this.text[at];
    if (this.isInLink) return undefined;
    if (letter === "h" && !isWord(this.text[at - 1])) return this.bareLinkAt(at);
    const isPicture = letter === "!" && this.text[at + 1] === "[";
    if (letter !== "[" && !isPicture) return undefined;
    const begin = at + (isPicture ? 2 : 1);
    let middle = begin;
    while (middle < this.text.length && !"[]".includes(this.text[middle])) ++middle;
    if (!this.text.startsWith("](", middle)) return undefined;
    let end = middle + 2;
    for (let open = 1; !isSpace(this.text[end]) && end - middle < kMaxAddress; ++end) {
      open += this.text[end] === "(" ? 1 : this.text[end] === ")" ? -1 : 0;
      if (open === 0) break;
    }
    if (this.text[end] !== ")") return undefined;
    const label = this.text.slice(begin, middle);
    const link = linkTo(this.text.slice(middle + 2, end));
    if (!link) return undefined;
    if (isPicture) link.append(`picture: ${label}`);
    else new Inline(label, this.depth + 1, true).appendTo(link);
    return { node: link, end: end + 1 };
  }

  bareLinkAt(at) {
    const found = this.text.slice(at, at + kMaxAddress).match(/^https?:\/\/[^\s<>"`|]+/);
    if (!found || found[0].length === kMaxAddress) return undefined;  // its first part would lead elsewhere
    const address = withoutPunctuation(found[0]);
    const link = linkTo(address);
    link?.append(restored(address));
    return link && { node: link, end: at + address.length };
  }

  emphasisAt(at) {
    if (this.depth >= kMaxDepth) return undefined;
    for (const [marker, tag] of kEmphasis) {
      if (!this.text.startsWith(marker, at)) continue;
      const begin = at + marker.length;
      const isInWord = marker[0] === "_" && isWord(this.text[at - 1]);
      if (isSpace(this.text[begin]) || isInWord || this.missing.has(marker)) return { node: marker, end: begin };
      const end = this.endOf(marker, begin);
      if (end < 0) {
        this.missing.add(marker);
        return { node: marker, end: begin };
      }
      const element = h(tag);
      new Inline(this.text.slice(begin, end), this.depth + 1, this.isInLink).appendTo(element);
      return { node: element, end: end + marker.length };
    }
    return undefined;
  }

  endOf(marker, begin) {
    const letter = marker[0];
    for (let end = this.text.indexOf(marker, begin + 1); end >= 0; end = this.text.indexOf(marker, end + 1)) {
      const after = this.text[end + marker.length];
      if (marker.length === 1 && after === letter) ++end;  // part of a longer marker
      else if (!isSpace(this.text[end - 1]) && !(letter === "_" && isWord(after)))
        return end + (marker.length === 2 && after === letter ? 1 : 0);  // of three, the first is inner
    }
    return -1;
  }
}

// Removes what follows an address in a sentence: "(see https://a.example/b_(c))." A bracket that closes one of the address stays.
function withoutPunctuation(text) {
  let end = text.length;
  let numUnopened = text.split(")").length - text.split("(").length;
  while (".,;:!?*_)]}'~".includes(text[end - 1])) {
    if (text[end - 1] === ")" && numUnopened-- <= 0) break;
    --end;
  }
  return text.slice(0, end);
}

// Returns undefined for an address that is not safe to follow.
function linkTo(address) {
  let url;
  try {
    url = new URL(restored(address));
  } catch {
    return undefined;
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return undefined;
  return h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" });
}
