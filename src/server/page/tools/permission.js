// Permission to call tools of MCP servers: the user allows each call, or all calls of a tool in a conversation.
import { h } from "../base/dom.js";
import { indented } from "../base/indented.js";
import { session } from "../base/web_storage.js";
import { codeBlock } from "../reading/code.js";

/**
 * @typedef {import("./tools.js").Tool} Tool
 * @typedef {import("../storage/message.js").Call} Call
 * @typedef {"once" | "always" | "refuse"} Decision
 * @typedef {{tool: Tool, call: Call, decide: (decision: Decision) => void}} Question
 */

// Kept until the tab is closed, and never exported: a file must not bring permissions.
const itemOf = (chat) => `nibble.allowed.${chat}`;

// A server may change a tool after the user has allowed it. So the permission is for all of its definition.
const definitionOf = (/** @type {Tool} */ { url, title, description, parameters }) => JSON.stringify([url, title, description, parameters]);

/** @param {string} chat @returns {string[]} */
function allowed(chat) {
  try {
    const list = JSON.parse(session.get(itemOf(chat)) ?? "[]");
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}

/** @param {string} chat @param {Tool} tool */
export const isAllowed = (chat, tool) => tool.url === undefined || allowed(chat).includes(definitionOf(tool));

/** Allows all calls of a tool in a conversation.
 * @param {string} chat @param {Tool} tool */
export const allow = (chat, tool) => session.set(itemOf(chat), JSON.stringify([...allowed(chat), definitionOf(tool)]));

let numCards = 0;

/** The question in the conversation. What the server says is shown as text.
 * @param {Question} question */
export function permissionCard({ tool, call, decide }) {
  const id = `permission-${++numCards}`;
  const button = (text, decision, kind) => h("button", { type: "button", class: kind, onclick: () => decide(decision) }, text);
  return h("div", { class: "permission", role: "group", "aria-labelledby": id },
    h("h3", { id }, "Allow the model to call ", h("code", {}, tool.title), "?"),
    h("p", {}, "This page sends the arguments to the MCP server ", h("code", {}, tool.url), ", and its result to the model."),
    codeBlock(indented(call.function.arguments), "json", true),
    ...(tool.description ? [h("details", {}, h("summary", {}, "What the server says about the tool"), h("p", { class: "said", dir: "auto" }, tool.description))] : []),
    h("div", { class: "tools" },
      button("Allow once", "once", "allow main"),
      button("Always in this conversation", "always", "always"),
      button("Refuse", "refuse", "refuse")));
}
