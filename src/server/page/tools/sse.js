// Reads a stream of server-sent events.

const kMostText = 8_000_000;  // characters of one event: more is a fault of the server

/**
 * @typedef {{type: string, data: string, id?: string, retry?: number}} ServerEvent
 */

/**
 * Yields the events of a response. An event at the end without an empty line after it is incomplete and left out.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<ServerEvent>}
 */
export async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const emptyEvent = () => /** @type {{type: string, data: string[], id?: string, retry?: number}} */ ({ type: "message", data: [] });
  let event = emptyEvent();
  let rest = "", size = 0;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      // A chunk may end between the two characters of "\r\n": a last "\r" waits for what follows.
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      size += value.length;
      if (size > kMostText) throw new Error("An event of the server is too large.");
      for (const line of lines) {
        if (line !== "") {
          readLine(line, event);
          continue;
        }
        const { data, ...fields } = event;
        event = emptyEvent();
        size = rest.length;
        if (data.length || fields.id !== undefined) yield { ...fields, data: data.join("\n") };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function readLine(line, event) {
  const colon = line.indexOf(":");
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (name === "data") event.data.push(value);
  else if (name === "event") event.type = value || "message";
  else if (name === "id" && !value.includes("\0")) event.id = value;
  else if (name === "retry" && /^\d+$/.test(value)) event.retry = Number(value);
}
