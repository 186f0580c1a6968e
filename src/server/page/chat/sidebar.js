// The list of conversations: by date, searched, renamed.
import { byId, h, say } from "../base/dom.js";
import { iconButton } from "../base/icons.js";
import * as store from "../storage/store.js";
import { titleOf } from "../storage/tree.js";
import { lineWith, textOf } from "./found.js";

/** @typedef {import("../storage/message.js").Conversation} Conversation */

const kDay = 86_400_000;
const kPinned = "Pinned";
let openId = () => "";
let actions = { open: (chat, words) => {}, remove: (chat) => {} };

/** @param {{openId: () => string, open: (chat: Conversation, words: string[]) => void, remove: (chat: Conversation) => void}} given */
export function setUpSidebar(given) {
  openId = given.openId;
  actions = given;
  const search = byId("search");
  search.addEventListener("input", () => {
    showList();
    if (words().length) say(`Conversations found: ${found().length}`);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !search.value) return;
    event.stopPropagation();
    search.value = "";
    showList();
  });
  byId("list").addEventListener("keydown", moveByArrows);
}

function moveByArrows(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || event.target.matches("li input")) return;
  const items = [byId("search"), ...byId("conversations").querySelectorAll(".open")];
  const next = items[items.indexOf(event.target.closest("li")?.querySelector(".open") ?? event.target) + step];
  if (!next || !items.includes(event.target.closest("li")?.querySelector(".open") ?? event.target)) return;
  event.preventDefault();
  next.focus();
}

const words = () => byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);

/** Conversations whose title or messages have all words of the search. */
function found() {
  const wanted = words();
  if (!wanted.length) return store.listed();
  const allOf = (chat) => [titleOf(chat), chat.draft, ...chat.files.map((file) => file.text), ...[...chat.messages.values()].map(textOf)].join("\n");
  return store.listed().filter((chat) => {
    const text = allOf(chat).toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

/** @param {number} time */
function groupOf(time) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (time >= today) return "Today";
  if (time >= today - kDay) return "Yesterday";
  if (time >= today - 7 * kDay) return "Last 7 days";
  if (time >= today - 30 * kDay) return "Last 30 days";
  return new Date(time).toLocaleDateString("en", { month: "long", year: "numeric" });
}

/** What a found conversation shows besides its title.
 * @param {Conversation} chat */
function lineOf(chat) {
  const title = titleOf(chat).toLowerCase();
  return words().every((word) => title.includes(word)) ? "" : lineWith(chat, words());
}

let shownList = [];
export function showList() {
  if (byId("conversations").querySelector("li input")) return;  // a title is being written
  const all = found().map((chat) => [chat, titleOf(chat), chat.id === openId(), chat.pinned ? kPinned : groupOf(chat.changed), lineOf(chat)]);
  const entries = [...all.filter(([chat]) => chat.pinned), ...all.filter(([chat]) => !chat.pinned)];
  byId("none-found").hidden = entries.length > 0 || !words().length;
  // Redraw only on a change: a redraw loses the focus and a click in progress.
  if (entries.length === shownList.length && entries.every((entry, at) => entry.every((part, of) => part === shownList[at][of]))) return;
  shownList = entries;
  const groups = new Map();
  for (const entry of entries) groups.set(entry[3], [...(groups.get(entry[3]) ?? []), itemOf(entry)]);
  byId("conversations").replaceChildren(...[...groups].flatMap(([name, items]) => [h("h2", {}, name), h("ul", { "aria-label": name }, ...items)]));
}

/** @param {any[]} entry  of the list: conversation, title, whether it is open, group, text with the words of the search */
function itemOf([chat, title, isOpen, , line]) {
  const lines = line ? [h("span", { class: "line", dir: "auto" }, line)] : [];
  const item = h("li", {},
    h("button", { type: "button", class: "open", dir: "auto", "aria-current": isOpen ? "true" : undefined, onclick: () => actions.open(chat, words()) }, title, ...lines),
    iconButton(chat.pinned ? "unpin" : "pin", `${chat.pinned ? "Unpin" : "Pin"}: ${title}`, { class: "pin", onclick: () => togglePin(chat) }),
    iconButton("edit", `Rename: ${title}`, { class: "rename", onclick: () => beginRename(item, chat) }),
    iconButton("delete", `Delete: ${title}`, { class: "delete", onclick: () => actions.remove(chat) }));
  return item;
}

/** @param {Conversation} chat */
function togglePin(chat) {
  chat.pinned = !chat.pinned;
  store.saveFields(chat);
  showList();
  itemsOf(chat)?.querySelector("button.pin")?.focus();
}

/** @param {Conversation} chat */
const itemsOf = (chat) => [...byId("conversations").querySelectorAll("li")][shownList.findIndex(([known]) => known === chat)];

/** Sets the user's title. If it is empty, the first line of the oldest message is shown instead.
 * @param {Conversation} chat @param {string} title */
export function rename(chat, title) {
  chat.title = title.trim().slice(0, 200);
  return store.saveFields(chat);
}

/** @param {HTMLElement} item @param {Conversation} chat */
function beginRename(item, chat) {
  const field = h("input", { "aria-label": "Title of this conversation", dir: "auto", maxlength: "200" });
  field.value = titleOf(chat);
  let isOver = false;
  const end = (isKept, takesFocus) => {
    if (isOver) return;
    isOver = true;
    if (isKept && field.value.trim() !== titleOf(chat)) rename(chat, field.value);
    field.remove();
    shownList = [];
    showList();
    if (takesFocus) byId("conversations").querySelector("[aria-current]")?.focus();
  };
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    end(event.key === "Enter", true);
  });
  field.addEventListener("blur", () => end(true, false));
  item.replaceChildren(field);
  field.select();
}
