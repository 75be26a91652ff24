// Runs before the first paint, so that a page never flashes in the other colours. No module: modules run too late.
(() => {
  try {
    const theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* storage may be forbidden; the system decides then */ }
})();
