/* Sets the chosen colours before anything is drawn. */
(function () {
  "use strict";
  try {
    var kept = localStorage.getItem("agentenvs-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch (error) { /* no storage here: the system's colours */ }
})();
