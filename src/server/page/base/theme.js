// Runs before the page is drawn, or the page would flash in the system's theme first.
try {
  const saved = JSON.parse(localStorage.getItem("nibble.settings") ?? "{}");
  if (saved.theme === "light" || saved.theme === "dark") document.documentElement.dataset.theme = saved.theme;
} catch {
  // The storage is blocked or damaged: the system's theme is used.
}
