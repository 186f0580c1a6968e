// Functions of browsers that Debian's TypeScript does not know yet.

/** @type {{timeout: (ms: number) => AbortSignal, any: (signals: AbortSignal[]) => AbortSignal}} */
export const signals = /** @type {any} */ (AbortSignal);

/** @type {(text: string) => boolean} */
export const isUrl = (text) => /** @type {any} */ (URL).canParse(text);
