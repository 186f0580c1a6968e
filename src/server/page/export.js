// Saves a conversation as a file.
import { h } from "./dom.js";
import { titleOf } from "./store.js";

export function exportJson(conversation) {
  download(conversation, "json", "application/json", JSON.stringify(conversation, null, 2) + "\n");
}

export function exportMarkdown(conversation) {
  const turns = conversation.messages.map((message) => {
    const names = { user: "You", assistant: "Answer", tool: "Tool result" };
    const calls = (message.calls ?? []).map((call) => fenced(`${call.function.name}(${call.function.arguments})`));
    return [`## ${names[message.role]}`, message.content, ...calls].filter(Boolean).join("\n\n");
  });
  download(conversation, "md", "text/markdown", [`# ${titleOf(conversation)}`, ...turns].join("\n\n") + "\n");
}

const fenced = (text) => "```\n" + text + "\n```";

function download(conversation, ending, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const name = titleOf(conversation).replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 40) || "conversation";
  h("a", { href: address, download: `${name}.${ending}` }).click();
  URL.revokeObjectURL(address);
}
