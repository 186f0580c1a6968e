// Conversations and settings, stored only in this browser, which has about 5 MB per server.

const kChatItem = "nibble.chat.", kSettingsItem = "nibble.settings", kOpenItem = "nibble.open";

export const kDefaultSettings =
  { effort: "medium", temperature: "", instructions: "", tools: "", schema: "", theme: "system" };

export const loadSettings = () => ({ ...kDefaultSettings, ...JSON.parse(localStorage.getItem(kSettingsItem) ?? "{}") });
export const saveSettings = (settings) => setItem(kSettingsItem, settings);

// `id` is random, because several tabs may create conversations at once.
export function newConversation() {
  const id = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, changed: Date.now(), messages: [] };
}

export const titleOf = (conversation) => conversation.messages[0]?.content.trim().split("\n")[0].slice(0, 80) || "New conversation";

// Latest first.
export function allConversations() {
  return Object.keys(localStorage)
    .filter((key) => key.startsWith(kChatItem))
    .map((key) => JSON.parse(localStorage.getItem(key)))
    .sort((one, other) => other.changed - one.changed);
}

// Returns false if the storage is full.
export function saveConversation(conversation) {
  conversation.changed = Date.now();
  return setItem(kChatItem + conversation.id, conversation);
}

function setItem(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch (error) {
    if (error.name === "QuotaExceededError") return false;
    throw error;
  }
}

export const deleteConversation = (conversation) => localStorage.removeItem(kChatItem + conversation.id);

// Remembers which conversation this tab shows, for a reload.
export const rememberOpen = (conversation) => sessionStorage.setItem(kOpenItem, conversation.id);
export const isOpen = (conversation) => conversation.id === sessionStorage.getItem(kOpenItem);
