// The address of the server. A proxy may serve it under any path, so it is found from the address of this file.

export const kServer = new URL("../../", import.meta.url).href;
