// Runs before the page is drawn, so that the page does not flash in the system's theme first.
{
  const saved = JSON.parse(localStorage.getItem("nibble.settings") ?? "{}");
  if (saved.theme === "light" || saved.theme === "dark") document.documentElement.dataset.theme = saved.theme;
}
