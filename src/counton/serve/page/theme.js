// Runs before the first paint, so that a chosen theme never flashes the other one.
"use strict";
try {
  const chosen = localStorage.getItem("counton-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage can be forbidden; then the system's theme stands.
}
