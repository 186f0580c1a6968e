// JSON for readers.

/**
 * Indents JSON. Returns the text unchanged if it is not valid JSON (it may be cut off), or if JavaScript would change it,
 * which rounds numbers of more than 15 digits.
 * @param {string} text
 */
export function indented(text) {
  const withoutSpaces = (json) => json.replace(/\s/g, "");
  try {
    const value = JSON.parse(text);
    return withoutSpaces(JSON.stringify(value)) === withoutSpaces(text) ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}
