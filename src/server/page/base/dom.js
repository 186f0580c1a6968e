// Creates elements. Strings become text nodes and attributes; no file here parses a string as markup.

// h("p", {class: "note"}, "text", child). "on..." adds a listener; true adds an attribute without a value;
// false or undefined adds none.
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

/** The element of this id. The HTML decides its type.
 * @type {(id: string) => any} */
export const byId = (id) => document.getElementById(id);

// Also works without TLS, where navigator.clipboard is missing: users may open the server of another machine.
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = h("textarea", { class: "off-screen" });
  field.value = text;
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus();
  if (!isCopied) throw new Error("the browser did not allow it");
}

/** Saves text as a file.
 * @param {string} title @param {string} ending @param {string} type @param {string} text */
export function download(title, ending, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const name = title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 40) || "conversation";
  h("a", { href: address, download: `${name}.${ending}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);  // browsers may read it after the click
}

// Makes a button with text that copies what `read` returns, and shows the outcome for a while.
export function copyButton(read, label) {
  const button = h("button", { type: "button", class: "quiet", "aria-label": label }, "Copy");
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

// Makes idle screen readers say `text`. They only read changes of an element that exists from the start.
export function say(text) {
  byId("live").textContent = text;
}

/** Reports that all scripts of the page are loaded: loading.js. */
export function reportStart() {
  document.documentElement.dataset.started = "";
  dispatchEvent(new Event("nibble-started"));
}

const notices = new Map();

// Shows a notice of this kind above the composer; an empty text removes it.
export function notify(kind, text) {
  if (text === (notices.get(kind) ?? "")) return;
  if (text) notices.set(kind, text);
  else notices.delete(kind);
  byId("notice").textContent = [...notices.values()].join("\n");
}
