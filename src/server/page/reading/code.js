// Blocks of code: copy, download, wrapped lines, and colours by highlight.js.
//
// highlight.js returns text with <span class="hljs-..."> and escaped characters. It is read here and made of elements;
// if the result is not exactly the code, the code is shown without colours.
import { copyButton, download, h } from "../base/dom.js";
import { library } from "./library.js";

const kMostColoured = 50_000;  // characters; longer code would block the page
const kEndings = { bash: "sh", shell: "sh", python: "py", javascript: "js", typescript: "ts", markdown: "md", csharp: "cs",
  haskell: "hs", kotlin: "kt", powershell: "ps1", ruby: "rb", rust: "rs", latex: "tex", "c++": "cpp" };

/**
 * @param {string} code @param {string} language  as the model wrote it @param {boolean} isComplete  it gets colours
 */
export function codeBlock(code, language, isComplete) {
  const shown = h("code", {}, code);
  const element = h("div", { class: "code", dir: "ltr" });
  const wrap = h("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "Wrap");
  wrap.addEventListener("click", () => wrap.setAttribute("aria-pressed", String(element.classList.toggle("wrapped"))));
  const name = language.toLowerCase();
  const ending = kEndings[name] ?? (/^[a-z0-9]{1,4}$/.test(name) ? name : "txt");
  const save = h("button", { type: "button", class: "quiet", "aria-label": `Download this ${language || "text"}` }, "Download");
  save.addEventListener("click", () => download("code", ending, "text/plain", code));
  element.append(
    h("div", { class: "code-head" }, h("span", {}, language), wrap, save, copyButton(() => code, `Copy this ${language || "text"}`)),
    h("pre", { tabindex: "0" }, shown));
  if (isComplete && language && code.length <= kMostColoured) withHighlight(shown, (plain) => colour(plain, code, name));
  return element;
}

const withHighlight = library("highlight.js");

function colour(element, code, language) {
  try {
    const { hljs } = globalThis;
    if (!hljs.getLanguage(language)) return;
    const coloured = elementsOf(hljs.highlight(language, code, true).value);
    if (coloured.textContent === code) element.replaceChildren(...coloured.childNodes);
  } catch {
    // highlight.js fails for this code, which stays plain.
  }
}

const kLetters = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": "\"", "&#x27;": "'" };

/** @param {string} marked  text with <span class="..."> as its only markup */
export function elementsOf(marked) {
  const stack = [h("span")];
  for (const [part, name] of marked.matchAll(/<span class="([^"]*)">|<\/span>|[^<]+|</g)) {
    if (name !== undefined) {
      const kind = name.split(" ").find((word) => /^hljs-[a-z_-]+$/.test(word));
      stack.push(h("span", { class: kind }));
      stack.at(-2).append(stack.at(-1));
    } else if (part === "</span>") {
      if (stack.length > 1) stack.pop();
    } else {
      stack.at(-1).append(part.replace(/&(?:amp|lt|gt|quot|#x27);/g, (letter) => kLetters[letter]));
    }
  }
  return stack[0];
}
