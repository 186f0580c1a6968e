// The JavaScript tool: runs a program of the model in a frame that can reach nothing (sandbox_frame.js), with limits on time
// and output.
import { h } from "../base/dom.js";

export const kRunMs = 10_000;      // time limit of a program
const kLoadMs = 10_000;            // time limit for the frame
const kAgainMs = 1000;             // a frame that has ended to load, but not begun to run, is loaded again after this time
const kMostText = 20_000;          // characters of output

export const kJavaScript = {
  name: "run_javascript",
  description: "Runs a JavaScript program and returns what it printed with console.log, then the value of its last expression. " +
    "Use it to calculate, to check and to process text. The program may use await. It has no network, no files, no page, and " +
    `ends after ${kRunMs / 1000} seconds. Each call starts anew.`,
  parameters: { type: "object", properties: { code: { type: "string", description: "The program" } }, required: ["code"] },
};

/**
 * Runs a program. Returns its output, with a last line that says so if a limit ended it. Throws if `signal` is aborted or
 * the frame does not load.
 * @param {string} code @param {AbortSignal} signal @param {number} [ms]  time limit
 * @returns {Promise<string>}
 */
export function runJavaScript(code, signal, ms = kRunMs) {
  return new Promise((resolve, reject) => {
    const frame = h("iframe", { sandbox: "allow-scripts", src: new URL("sandbox.html", import.meta.url).href, hidden: true,
      title: "JavaScript tool", "aria-hidden": "true" });
    frame.addEventListener("load", () => setTimeout(() => { if (!isReady) frame.src = frame.src; }, kAgainMs));
    const lines = [];
    let isReady = false;
    let rest = kMostText;
    let timer = setTimeout(() => end(() => reject(new Error("The sandbox did not load."))), kLoadMs);
    const finish = (note) => end(() => resolve([...lines, ...note].join("\n") || "The program printed nothing and has no value."));
    const stop = () => end(() => reject(signal.reason));
    /** Ends the worker too.
     * @param {() => void} settle */
    function end(settle) {
      clearTimeout(timer);
      removeEventListener("message", take);
      signal.removeEventListener("abort", stop);
      frame.remove();
      settle();
    }
    /** @param {MessageEvent} event */
    function take({ source, data }) {
      if (source !== frame.contentWindow) return;
      if (data?.isReady) {
        isReady = true;
        clearTimeout(timer);
        timer = setTimeout(() => finish([`Ended: the program took longer than ${ms / 1000} seconds.`]), ms);
        frame.contentWindow.postMessage(code, "*");  // an opaque origin has no name
        return;
      }
      if (typeof data?.text === "string") {
        lines.push(data.text.slice(0, rest));
        rest -= data.text.length + 1;
        if (rest < 0) return finish([`Ended: the program printed more than ${kMostText} characters.`]);
      }
      if (data?.isDone) finish([]);
    }
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener("abort", stop);
    addEventListener("message", take);
    document.body.append(frame);
  });
}
