// The frame of the JavaScript tool: runs one program in a worker, and sends what it prints to the page.
//
// The server sends sandbox.html with a policy of its own: an opaque origin, no network, nothing to load, and text may be
// evaluated. A worker made of text has the policy and the origin of this frame. So the program has no storage, no cookies and
// no connection, whatever it calls. The page removes the frame to end it.
//
// Messages to the page: {text} to show, in order; {isDone: true} at the end.

/** The worker. Its text is sent to the worker, so it uses nothing from outside of itself. */
function work() {
  const kMostDepth = 6, kMostItems = 200;

  // A value as text, for a reader who knows JavaScript. Strings inside of values have quotes.
  function show(value, depth = 0, above = []) {
    if (typeof value === "string") return depth ? JSON.stringify(value) : value;
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "function") return `[function ${value.name}]`;
    if (typeof value !== "object" || value === null) return String(value);
    if (value instanceof Error) return depth ? String(value) : fault(value);
    if (above.includes(value)) return "[circular]";
    if (depth >= kMostDepth) return "…";
    const inside = (item) => show(item, depth + 1, [...above, value]);
    const list = (items, write) => {
      const shown = [];
      for (const item of items) {
        if (shown.length === kMostItems) {
          shown.push("…");
          break;
        }
        shown.push(write(item));
      }
      return shown.join(", ");
    };
    if (Array.isArray(value) || ArrayBuffer.isView(value) && !(value instanceof DataView))
      return `[${list(value, inside)}]`;
    if (value instanceof Map) return `Map {${list(value, ([key, item]) => `${inside(key)} => ${inside(item)}`)}}`;
    if (value instanceof Set) return `Set {${list(value, inside)}}`;
    if (value instanceof Date || value instanceof RegExp) return String(value);
    return `{${list(Object.keys(value), (key) => `${/^[\w$]+$/.test(key) ? key : JSON.stringify(key)}: ${inside(value[key])}`)}}`;
  }

  // Lines of the stack that belong to this file would tell the model nothing.
  const fault = (error) => (error instanceof Error ? `${error.name}: ${error.message}` : show(error));

  const send = self.postMessage.bind(self);
  const print = (...values) => send({ text: values.map((value) => show(value)).join(" ") });
  for (const name of ["log", "info", "debug", "warn", "error", "dir", "table", "trace"]) console[name] = print;

  // Text with `await` or `return` at its top level is no script: it runs as the body of a function, whose result is its value.
  function run(code) {
    const evaluate = eval;  // indirect: in the global scope
    try {
      return evaluate(code);
    } catch (error) {
      if (!(error instanceof SyntaxError) || !/\b(await|return)\b/.test(code)) throw error;
      const AsyncFunction = (async () => {}).constructor;
      return AsyncFunction(code)();
    }
  }

  self.onmessage = async ({ data: code }) => {
    self.onmessage = null;
    try {
      const value = await run(code);
      if (value !== undefined) print(value);
    } catch (error) {
      send({ text: `Uncaught ${fault(error)}` });
    }
    send({ isDone: true });
  };
}

addEventListener("message", ({ source, data: code }) => {
  if (source !== parent || typeof code !== "string") return;
  const worker = new Worker(URL.createObjectURL(new Blob([`(${work})()`], { type: "text/javascript" })));
  const send = (message) => parent.postMessage(message, "*");  // the page's origin is unknown here
  worker.onmessage = ({ data }) => send({ text: typeof data?.text === "string" ? data.text : undefined, isDone: data?.isDone === true });
  worker.onerror = (event) => {  // in a callback, after the worker's own try
    event.preventDefault();
    send({ text: event.message });
  };
  worker.postMessage(code);
}, { once: true });

parent.postMessage({ isReady: true }, "*");
