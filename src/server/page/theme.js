// Runs before the page is drawn, so that a theme other than the system's does not flash.
{
  const saved = JSON.parse(localStorage.getItem("nibble.settings") ?? "{}");
  if (saved.theme === "light" || saved.theme === "dark") document.documentElement.dataset.theme = saved.theme;
}
