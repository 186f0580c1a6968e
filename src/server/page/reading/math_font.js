// Without a font that has a table of mathematics, browsers put subscripts on the line and superscripts too high. Then
// chat.css moves them.
import { h } from "../base/dom.js";

const kNamespace = "http://www.w3.org/1998/Math/MathML";
const kLeastShift = 0.12;  // of the font's size: a subscript below the line

/** @param {string} type @param {...(Node | string)} children */
function element(type, ...children) {
  const made = document.createElementNS(kNamespace, type);
  made.append(...children);
  return made;
}

/** Measures where this system puts a subscript, and lets chat.css correct it if it is wrong. */
export function checkMathFont() {
  // Spaces without size: they stand on their lines.
  const line = element("mspace"), lowered = element("mspace");
  for (const space of [line, lowered]) for (const name of ["width", "height", "depth"]) space.setAttribute(name, "0px");
  const formula = element("math", element("msub", element("mrow", element("mi", "x"), line), element("mrow", element("mn", "1"), lowered)));
  const place = h("span", { class: "math off-screen", "aria-hidden": "true" }, formula);
  document.documentElement.classList.remove("no-math-font");
  document.body.append(place);
  const size = parseFloat(getComputedStyle(formula).fontSize);
  const shift = (lowered.getBoundingClientRect().bottom - line.getBoundingClientRect().bottom) / size;
  place.remove();
  document.documentElement.classList.toggle("no-math-font", shift < kLeastShift);
}
