// Renders Markdown as models write it: the common part of CommonMark, tables, tasks, footnotes and
// formulas. Unknown syntax stays text.
//
// A model's output is untrusted: its prompt may contain a stranger's document. It becomes only the elements
// below, text nodes, and links to http, https and mailto. HTML stays text. Images become links, because
// loading them would reveal their URL to another server. Work per character is bounded, nesting by kMaxDepth.
import { h } from "../base/dom.js";
import { codeBlock } from "./code.js";
import { footnoteAt, setFootnotes } from "./footnotes.js";
import { withInline } from "./inline.js";
import { protectFormulas, restored } from "./math.js";

const kMaxDepth = 8;
const kItem = /^( {0,12})([-*+]|\d{1,9}[.)])(?: +|$)/;
const kFence = /^ {0,3}(`{3,}|~{3,})/;
const kHeading = /^ {0,3}(#{1,6})(?: +|$)/;
const kRule = /^ {0,3}(?:\*(?: *\*){2,}|-(?: *-){2,}|_(?: *_){2,}) *$/;
const kTableRule = /^ {0,3}\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$/;

// Renders `text` into `element`. Unchanged leading blocks are kept: a growing answer costs only its last
// block each time, and selections in other blocks survive.
const shown = new WeakMap();
export function renderMarkdown(element, text) {
  const before = shown.get(element) ?? [];
  const notes = setFootnotes(text);
  const blocks = blocksOf(protectFormulas(text).split("\n"), 0);
  // References become links only if the text has the note, which comes later.
  for (const block of blocks) if (block.source.includes("[^")) block.source += notes;
  let same = 0;
  while (same < Math.min(before.length, blocks.length) && before[same] === blocks[same].source) ++same;
  while (element.childNodes.length > same) element.lastChild.remove();
  for (const block of blocks.slice(same)) {
    const shownBlock = block.render();
    if (!shownBlock.classList.contains("code")) shownBlock.dir = "auto";
    element.append(shownBlock);
  }
  shown.set(element, blocks.map((block) => block.source));
}

// Returns each block's source and the function that makes its element.
function blocksOf(lines, depth) {
  const blocks = [];
  for (let begin = 0; begin < lines.length; ) {
    if (lines[begin].trim() === "") {
      ++begin;
      continue;
    }
    const { end, render } = blockAt(lines, begin, depth);
    blocks.push({ source: lines.slice(begin, end).join("\n"), render });
    begin = end;
  }
  return blocks;
}

function blockAt(lines, begin, depth) {
  const line = lines[begin];
  if (isFence(line)) return codeAt(lines, begin);
  const heading = line.match(kHeading);
  if (heading) {
    const text = line.slice(heading[0].length).trimEnd().replace(/ #+$/, "");
    return { end: begin + 1, render: () => withInline(h("h3", { class: `level${heading[1].length}` }), text) };
  }
  const note = footnoteAt(lines, begin);
  if (note) return { end: note.end, render: () => note.fill(withInline) };
  if (kRule.test(line)) return { end: begin + 1, render: () => h("hr") };
  if (depth < kMaxDepth && /^ {0,3}>/.test(line)) return quoteAt(lines, begin, depth);
  if (depth < kMaxDepth && kItem.test(line)) return listAt(lines, begin, depth);
  if (isTable(lines, begin)) return tableAt(lines, begin);
  let end = begin + 1;
  while (end < lines.length && !endsParagraph(lines, end)) ++end;
  const text = lines.slice(begin, end).join("\n");
  return { end, render: () => withInline(h("p"), text) };
}

// A line with more backticks after the opening ones is inline code, not a fence.
function isFence(line) {
  const found = line.match(kFence);
  return found !== null && !line.slice(found[0].length).includes("`");
}

const isTable = (lines, at) => lines[at].includes("|") && kTableRule.test(lines[at + 1] ?? "");

function endsParagraph(lines, at) {
  const line = lines[at];
  return line.trim() === "" || isFence(line) || kHeading.test(line) || kRule.test(line) || kItem.test(line) ||
    /^ {0,3}>/.test(line) || isTable(lines, at) || footnoteAt(lines, at) !== undefined;
}

function codeAt(lines, begin) {
  const [opening, fence] = lines[begin].match(kFence);
  const language = lines[begin].slice(opening.length).trim().split(" ")[0];
  let last = begin + 1;  // an unclosed fence extends to the end
  const isEnd = (line) => line.trim().startsWith(fence) && line.trim().replaceAll(fence[0], "") === "";
  while (last < lines.length && !isEnd(lines[last])) ++last;
  const code = restored(lines.slice(begin + 1, last).join("\n"));
  return { end: Math.min(last + 1, lines.length), render: () => codeBlock(code, language, last < lines.length) };
}

function quoteAt(lines, begin, depth) {
  let end = begin;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) ++end;
  const inner = lines.slice(begin, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return { end, render: () => withBlocks(h("blockquote"), inner, depth) };
}

const indentOf = (line) => line.length - line.trimStart().length;

function listAt(lines, begin, depth) {
  const [, indent, marker] = lines[begin].match(kItem);
  const isOrdered = /\d/.test(marker);
  const isSibling = (found) => found && found[1].length <= indent.length + 1 && /\d/.test(found[2]) === isOrdered;
  const items = [];
  let end = begin;
  for (; end < lines.length; ++end) {
    const line = lines[end];
    const found = line.match(kItem);
    if (isSibling(found) && !kRule.test(line)) {
      items.push({ width: found[0].length, lines: [line.slice(found[0].length)] });
    } else if (line.trim() === "") {
      // After blank lines the list continues with its next item, or with lines indented below the last one.
      let next = end;
      while (next < lines.length && lines[next].trim() === "") ++next;
      if (next === lines.length || !(indentOf(lines[next]) > indent.length + 1 || isSibling(lines[next].match(kItem)))) break;
      items.at(-1).lines.push("");
      end = next - 1;
    } else if (indentOf(line) > indent.length + 1 || !endsParagraph(lines, end)) {
      items.at(-1).lines.push(line.slice(Math.min(indentOf(line), items.at(-1).width)));
    } else {
      break;
    }
  }
  const start = isOrdered && parseInt(marker) !== 1 ? String(parseInt(marker)) : undefined;
  const render = () => h(isOrdered ? "ol" : "ul", { start }, ...items.map((item) => itemOf(item.lines, depth)));
  return { end, render };
}

// "[x] text" is a task that is done.
function itemOf(lines, depth) {
  const box = lines[0].match(/^\[([ xX])\](?: +|$)/);
  if (!box) return withBlocks(h("li"), lines, depth);
  const isDone = box[1] !== " ";
  const mark = h("span", { class: "box", role: "img", "aria-label": isDone ? "Done:" : "To do:" }, isDone ? "☑" : "☐");
  return withBlocks(h("li", { class: "task" }, mark), [lines[0].slice(box[0].length), ...lines.slice(1)], depth);
}

function withBlocks(element, lines, depth) {
  element.append(...blocksOf(lines, depth + 1).map((block) => block.render()));
  return element;
}

function cellsOf(line) {
  const cells = line.trim().replace(/^\|/, "").replaceAll("\\|", "\u0000").split("|");
  if (cells.at(-1).trim() === "") cells.pop();
  return cells.map((cell) => cell.trim().replaceAll("\u0000", "|"));
}

function tableAt(lines, begin) {
  const sides = cellsOf(lines[begin + 1]).map((rule) =>
    rule.endsWith(":") ? (rule.startsWith(":") ? "center" : "right") : undefined);
  let end = begin + 2;
  while (end < lines.length && lines[end].includes("|")) ++end;
  const row = (line, tag) => h("tr", {},
    ...cellsOf(line).map((cell, at) => withInline(h(tag, { class: sides[at] }), cell)));
  const render = () => h("div", { class: "wide", tabindex: "0" }, h("table", {},
    h("thead", {}, row(lines[begin], "th")),
    h("tbody", {}, ...lines.slice(begin + 2, end).map((line) => row(line, "td")))));
  return { end, render };
}
