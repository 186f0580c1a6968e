// The composer: files that become text of the message, the settings that are active, and how full the context is.
import { openSettings } from "./dialogs.js";
import { byId, h, notify, say } from "./dom.js";
import { settingsOf } from "./settings.js";

const kMostBytes = 1_000_000;    // of a file
const kLongPaste = 10_000;       // characters; a longer paste becomes a file

/** Text as a fenced block with a name. The fence is longer than any in the text. @param {string} name @param {string} text */
export function fenced(name, text) {
  const longest = [...text.matchAll(/`+/g)].reduce((most, [run]) => Math.max(most, run.length), 2);
  const fence = "`".repeat(longest + 1);
  const safeName = name.replace(/[\s`]+/g, "_");
  return `${fence}${safeName}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}\n`;
}

/** Inserts text where the cursor is, as if it was typed: it is part of the draft, and can be undone. @param {string} text */
function insert(text) {
  const field = byId("input");
  const { selectionStart: begin, selectionEnd: end, value } = field;
  const separator = begin > 0 && value[begin - 1] !== "\n" ? "\n" : "";
  field.focus();
  if (!document.execCommand("insertText", false, separator + text)) {
    field.setRangeText(separator + text, begin, end, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

/** @param {Iterable<File>} files */
async function attach(files) {
  const faults = [];
  for (const file of files) {
    try {
      if (file.size > kMostBytes) throw new Error("it is larger than 1 MB");
      const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      if (text.includes("\0")) throw new Error("it is not a text file");
      insert(fenced(file.name, text));
      say(`Attached: ${file.name}`);
    } catch (error) {
      faults.push(`"${file.name}" was not attached: ${error instanceof TypeError ? "it is not a text file" : error.message}.`);
    }
  }
  notify("attach", faults.join("\n"));
}

export function setUpComposer() {
  byId("attach").addEventListener("click", () => byId("attach-file").click());
  byId("attach-file").addEventListener("change", async () => {
    const files = [...byId("attach-file").files];
    byId("attach-file").value = "";
    await attach(files);
  });
  byId("input").addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    const text = event.clipboardData.getData("text/plain");
    if (!text && files.length) {
      event.preventDefault();
      attach(files);
    } else if (text.length > kLongPaste) {
      event.preventDefault();
      insert(fenced("pasted.txt", text));
    }
  });
  const main = document.querySelector("main");
  main.addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) event.preventDefault(); });
  main.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    attach([...event.dataTransfer.files]);
  });
}

/** Shows the settings that change answers; each opens its field. @param {import("./message.js").Conversation} chat */
export function showChips(chat) {
  const { effort, temperature, instructions, schema, tools } = settingsOf(chat);
  const numTools = tools ? JSON.parse(tools).length : 0;
  const chips = [["effort", `Effort: ${effort}`]];
  if (temperature !== "") chips.push(["temperature", `Temperature: ${temperature}`]);
  if (instructions) chips.push(["instructions", "Instructions"]);
  if (schema) chips.push(["schema", "JSON schema"]);
  if (numTools) chips.push(["tools", `Functions: ${numTools}`]);
  byId("chips").replaceChildren(...chips.map(([name, text]) =>
    h("button", { type: "button", "data-setting": name, onclick: () => openSettings(name) }, text)));
}

/** Shows how much of the context the branch takes. @param {import("./message.js").Message[]} branch @param {number | undefined} maxContext */
export function showGauge(branch, maxContext) {
  const usage = branch.filter((message) => message.usage).at(-1)?.usage;
  byId("gauge").hidden = !usage || !maxContext;
  if (!usage || !maxContext) return;
  const count = usage.prompt_tokens + usage.completion_tokens;
  const percent = Math.round((100 * count) / maxContext);
  byId("gauge").textContent = `Context: ${count.toLocaleString("en")} of ${maxContext.toLocaleString("en")} tokens, ${percent} %`;
  byId("gauge").classList.toggle("error", percent >= 90);
}
