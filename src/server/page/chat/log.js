// The log: shows the end of a branch at once, and the messages before it while the browser is idle. So a long
// conversation opens quickly, and soon all of it can be scrolled to, searched by the browser, selected and copied.
import { byId } from "../base/dom.js";
import { showTurn } from "./turn.js";

/** @typedef {import("../storage/message.js").Message} Message */

const kAtFirst = 30;     // messages that are shown at once
const kPerStep = 5;      // at least, in idle time
const kStepMs = 200;     // a step begins after this time even if the browser is busy
const kReserveMs = 5;    // of the idle time, for the layout
const kBusyMs = 20;      // of work in a step without idle time

/** @type {Map<string, ReturnType<typeof showTurn>>} */
let turns = new Map();  // by message id; kept, so that a redraw does not end an edit
let begin = Infinity;   // index in the branch of the first message that is shown
let branch = /** @type {Message[]} */ ([]);
let stateOf = (message, at) => /** @type {import("./turn.js").TurnState} */ ({});
let isWaiting = false;  // for idle time
let awaited = /** @type {{id: string, act: (element: HTMLElement) => void} | null} */ (null);

/** The element and the update of a message, if it is shown already.
 * @param {string} id */
export const turnOf = (id) => turns.get(id);

/** Calls `act` with a message's element as soon as it is shown, if the conversation is still open.
 * @param {string} id @param {(element: HTMLElement) => void} act */
export function whenShown(id, act) {
  awaited = { id, act };
  tellAwaited();
}

function tellAwaited() {
  const turn = turns.get(awaited?.id ?? "");
  if (!turn) return;
  const { act } = awaited;
  awaited = null;
  act(turn.element);
}

/** Forgets a conversation, before another one is shown. */
export function clearLog() {
  turns = new Map();
  begin = Infinity;
  awaited = null;
  byId("turns").replaceChildren();
}

/**
 * Shows a branch, or a change of it.
 * @param {Message[]} messages
 * @param {(message: Message, at: number) => import("./turn.js").TurnState} state  also called later, for earlier messages
 */
export function drawLog(messages, state) {
  [branch, stateOf] = [messages, state];
  begin = Math.min(begin, Math.max(0, branch.length - kAtFirst));
  const visible = branch.slice(begin);
  const shown = new Map(visible.map((message) => [message.id, turns.get(message.id) ?? showTurn(message)]));
  for (const [id, { element }] of turns) if (!shown.has(id)) element.remove();
  turns = shown;
  visible.forEach((message, at) => {
    const { element, update } = turns.get(message.id);
    // Do not move elements that are in place: a move takes the focus from them.
    if (byId("turns").children[at] !== element) byId("turns").insertBefore(element, byId("turns").children[at] ?? null);
    update(stateOf(message, begin + at));
  });
  byId("earlier").hidden = begin === 0;
  if (begin > 0) waitForIdleTime();
}

function waitForIdleTime() {
  if (isWaiting) return;
  isWaiting = true;
  const ask = globalThis.requestIdleCallback ?? ((show) => setTimeout(() => show({ timeRemaining: () => 0, didTimeout: true }), kStepMs));  // Safari
  ask(showEarlier, { timeout: kStepMs });
}

/** Shows messages before those shown until the idle time ends. What the user reads does not move.
 * @param {IdleDeadline} deadline */
function showEarlier(deadline) {
  isWaiting = false;
  const log = byId("log"), { scrollHeight, scrollTop } = log;
  const added = document.createDocumentFragment();
  const end = performance.now() + kBusyMs;
  const hasTime = () => (deadline.didTimeout ? performance.now() < end : deadline.timeRemaining() > kReserveMs);
  for (let count = 0; begin > 0 && (count < kPerStep || hasTime()); ++count) {
    const message = branch[--begin];
    const turn = showTurn(message);
    turns.set(message.id, turn);
    added.prepend(turn.element);
    turn.update(stateOf(message, begin));
  }
  byId("turns").prepend(added);
  byId("earlier").hidden = begin === 0;
  log.scrollTop = scrollTop + log.scrollHeight - scrollHeight;
  tellAwaited();
  if (begin > 0) waitForIdleTime();
}

/** Shows a button that leads to the end while the user reads something else. */
export function setUpLog() {
  const button = byId("to-end"), log = byId("log");
  const show = () => { button.hidden = isScrolledToEnd(); };
  button.addEventListener("click", () => {
    scrollLog(Infinity);
    byId("input").focus();
  });
  log.addEventListener("scroll", show, { passive: true });
  new ResizeObserver(show).observe(byId("turns"));
}

export function isScrolledToEnd() {
  const log = byId("log");
  return log.scrollHeight - log.scrollTop - log.clientHeight < 40;
}

/** @param {number} top */
export function scrollLog(top) {
  byId("log").scrollTop = Math.min(top, byId("log").scrollHeight);
}
