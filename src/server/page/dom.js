// Makes elements. Strings become text nodes and attributes: nothing in these files reads a string as markup.

// h("p", {class: "note"}, "text", child). A property "onclick" is a listener; true is an attribute without a value, and one that is
// false or undefined is left out.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);

// Copies in pages without TLS too, where there is no navigator.clipboard: people open the server by the address of another machine.
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = h("textarea", { class: "off-screen" });
  field.value = text;
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus();
  if (!isCopied) throw new Error("the browser did not allow it");
}

// A button that copies what `read` returns, and says for a while that it has.
export function copyButton(read, label) {
  const button = h("button", { type: "button", "aria-label": label }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await copyText(read());
      button.textContent = "Copied";
    } catch (error) {
      button.textContent = `Not copied: ${error.message}`;
    }
    say(button.textContent);
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}

// Has screen readers say it when they have said what they are at. The element is there from the start, else it is not read out.
export function say(text) {
  byId("live").textContent = text;
}
