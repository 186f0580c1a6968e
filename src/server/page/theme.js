// Runs before the page is drawn, or the page would flash in the system's theme first.
{
  const saved = JSON.parse(localStorage.getItem("nibble.settings") ?? "{}");
  if (saved.theme === "light" || saved.theme === "dark") document.documentElement.dataset.theme = saved.theme;
}
