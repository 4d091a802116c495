"use strict";
// What a page is without: everything works with this script switched off.
(() => {
  const all = (selector) => Array.from(document.querySelectorAll(selector));

  // The arrow keys bring back what was written before, as in a shell.
  for (const box of all("input[data-history]")) {
    const past = JSON.parse(box.dataset.history);
    let at = past.length;
    let draft = "";
    box.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
      const next = at + (event.key === "ArrowUp" ? -1 : 1);
      if (next < 0 || next > past.length || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      if (at === past.length) draft = box.value;
      at = next;
      box.value = at === past.length ? draft : past[at];
      box.setSelectionRange(box.value.length, box.value.length);
    });
  }

  // A form is sent once; the server plays it once in any case.
  for (const form of all("form")) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    });
  }
  addEventListener("pageshow", () => all("form").forEach((form) => delete form.dataset.sent));

  // Words to other speakers are sent with Ctrl-Enter, since Enter begins a line.
  for (const box of all("textarea")) {
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) box.form.requestSubmit(box.form.querySelector("button"));
    });
  }

  // What was folded open stays open from turn to turn.
  for (const part of all("details[data-keep]")) {
    const name = "open:" + part.dataset.keep;
    try {
      const kept = sessionStorage.getItem(name);
      if (kept !== null && !part.dataset.fixed) part.open = kept === "yes";
      part.addEventListener("toggle", () => sessionStorage.setItem(name, part.open ? "yes" : "no"));
    } catch { /* storage may be switched off */ }
  }

  for (const button of all("button[data-copies]")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent);
      button.textContent = "Copied";
    });
  }
})();
