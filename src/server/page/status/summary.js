// Summarises the state of the server in sentences, for operators.

const whole = (number) => Math.round(number).toLocaleString("en");
const percent = (part, all) => `${Math.round(all > 0 ? (100 * part) / all : 0)} %`;
const count = (number, one, many) => (number === 1 ? `1 ${one}` : `${number === 0 ? "no" : whole(number)} ${many}`);
const upper = (text) => text[0].toUpperCase() + text.slice(1);

const kStates = {
  loading: "The server is loading the model, and refuses requests until it is ready.",
  ready: "The server is ready.",
  draining: "The server is stopping: it finishes its answers and accepts no new requests.",
};
const kDevices = { cpu: "the CPU", cuda: "the GPU" };

/** @param {any} status  of /status.json @returns {string[]} */
export function sentences({ model, state, max_context, engine, setup }) {
  if (!engine) return [kStates[state] ?? `The server is ${state}.`];
  const { running, waiting, pages, prompt_tokens, cached_tokens, generated_tokens, preemptions, faults } = engine;
  const full = Math.max(pages.held.full, pages.held.sliding) / pages.all;
  const told = [
    `${kStates[state] ?? `The server is ${state}.`} It runs ${model} on ${kDevices[setup.backend] ?? setup.backend} (${setup.device}); ` +
      `a conversation can have up to ${whole(max_context)} tokens.`,
    `${upper(count(running, "answer is", "answers are"))} being written, and ${count(waiting, "request waits", "requests wait")}.`,
    `${percent(full, 1)} of the memory for conversations is in use.${full > 0.9 ? " New requests may have to wait." : ""}`,
    `Since its start the server has read ${count(prompt_tokens, "token", "tokens")} of prompts, ` +
      `${percent(cached_tokens, prompt_tokens)} of them from its cache, and written ${count(generated_tokens, "token", "tokens")}.`,
  ];
  if (preemptions > 0) told.push(`${upper(count(preemptions, "answer", "answers"))} had to pause until memory was free.`);
  told.push(faults > 0 ? `${upper(count(faults, "step has", "steps have"))} failed: the server's log has the reasons.` : "No step has failed.");
  return told;
}

// Reasons that name a file of measurements mean this.
const kMeasured = "the fastest in nibble's measurements";

/** Why a kernel was chosen.
 * @param {string} reason */
export const plainReason = (reason) => (/^(docs|records)\//.test(reason) ? kMeasured : reason);
