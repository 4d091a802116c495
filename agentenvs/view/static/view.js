/* Keys, copying, colours, curves. Pages work without it. */
(function () {
  "use strict";
  var root = document.documentElement;
  var store = {
    get: function (name) { try { return localStorage.getItem("agentenvs-" + name); } catch (error) { return null; } },
    set: function (name, value) { try { localStorage.setItem("agentenvs-" + name, value); } catch (error) { /* none */ } }
  };
  function all(selector, where) { return Array.prototype.slice.call((where || document).querySelectorAll(selector)); }
  function say(text) { var said = document.getElementById("said"); if (said) said.textContent = text; }

  /* ---- colours */
  var themes = ["system", "light", "dark"];
  function theme(chosen) {
    if (chosen === "system") delete root.dataset.theme; else root.dataset.theme = chosen;
    store.set("theme", chosen);
    var button = document.querySelector("[data-theme-switch]");
    if (button) { button.textContent = chosen === "system" ? "Colours" : chosen === "light" ? "Light" : "Dark";
      button.setAttribute("aria-label", "Colours: " + (chosen === "system" ? "as the system" : chosen)); }
    draw();
  }

  /* ---- turns */
  var here = null;
  function turns() { return all("details.turn"); }
  function closed() {
    var found = turns(), below = found.filter(function (one) { return one.getBoundingClientRect().top > 56; });
    return found.indexOf(below[0]);
  }
  function to(turn, open) {
    if (!turn) return;
    if (here) here.classList.remove("here");
    here = turn; turn.classList.add("here");
    if (open) turn.open = true;
    history.replaceState(null, "", "#" + turn.id);
    turn.querySelector("summary").focus({ preventScroll: true });
    turn.scrollIntoView({ block: "start", behavior: calm() ? "auto" : "smooth" });
  }
  function calm() { return window.matchMedia("(prefers-reduced-motion: reduce)").matches; }
  function step(by) {
    var found = turns(); if (!found.length) return;
    var at = here ? found.indexOf(here) + by : by > 0 ? Math.max(closed(), 0) : closed() - 1;
    to(found[Math.min(Math.max(at, 0), found.length - 1)], false);
  }
  function follow(name) {
    var path = document.getElementById("main").getAttribute(name);
    if (path && !document.querySelector("meta[http-equiv]")) window.location.assign(path); else say("There is none.");
  }
  function everything() {
    var found = turns(), open = found.some(function (one) { return !one.open; });
    found.forEach(function (one) { one.open = open; });
    all("[data-all]").forEach(function (one) { one.setAttribute("aria-pressed", String(open)); one.textContent = open ? "Close all" : "Open all"; });
  }
  function first() {
    var found = document.getElementById("first-difference"); if (!found) { say("There is no difference."); return; }
    history.replaceState(null, "", "#first-difference");
    var turn = found.nextElementSibling;
    if (turn && turn.matches("details")) turn.open = true;
    found.focus({ preventScroll: true });
    found.scrollIntoView({ block: "start", behavior: calm() ? "auto" : "smooth" });
    here = turn;
  }
  function hashed() {
    var found = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!found) return;
    if (found.id === "first-difference") first();
    else if (found.matches("details.turn")) to(found, true);
  }

  /* ---- keys */
  function help() { var box = document.getElementById("help"); if (box.open) box.close(); else box.showModal(); }
  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    var target = event.target;
    if (target.closest && target.closest("input, select, textarea, [contenteditable], dialog, .scroll, pre")) return;
    if (store.get("keys") === "off" && event.key !== "?") return;
    var inTurns = document.getElementById("main").hasAttribute("data-turns");
    var done = true;
    switch (event.key) {
      case "?": help(); break;
      case "/": var field = document.querySelector("input[type=search]"); if (field) field.focus(); else done = false; break;
      case "j": case "ArrowRight": if (inTurns) step(1); else done = false; break;
      case "k": case "ArrowLeft": if (inTurns) step(-1); else done = false; break;
      case "o": if (inTurns && here) here.open = !here.open; else done = false; break;
      case "e": if (inTurns) everything(); else done = false; break;
      case "n": if (inTurns) follow("data-after"); else done = false; break;
      case "p": if (inTurns) follow("data-before"); else done = false; break;
      case "d": if (inTurns) first(); else done = false; break;
      default: done = false;
    }
    if (done) event.preventDefault();
  }

  /* ---- copying */
  function copy(button) {
    var text = button.getAttribute("data-copy");
    function told() { say("Copied."); var kept = button.firstChild.nodeValue; button.firstChild.nodeValue = "Copied"; setTimeout(function () { button.firstChild.nodeValue = kept; }, 1500); }
    function select() { var range = document.createRange(); range.selectNodeContents(button.previousElementSibling); var chosen = getSelection(); chosen.removeAllRanges(); chosen.addRange(range); say("Selected; copy it with the keyboard."); }
    if (navigator.clipboard && window.isSecureContext) navigator.clipboard.writeText(text).then(told, select); else select();
  }

  /* ---- choosing two */
  function two() {
    var button = document.querySelector("[data-two]"); if (!button) return;
    button.disabled = all("input[name=run]:checked").length !== 2;
  }
  function kept(event) {  /* what was chosen stays chosen when the list is brought up to date */
    if (event.target.id !== "list") return;
    chosen = all("input[name=run]:checked").map(function (one) { return one.value; });
  }
  var chosen = [];

  /* ---- curves */
  var plots = [];
  function colour(name) {
    var probe = document.createElement("span"); probe.style.color = "var(--" + name + ")"; document.body.appendChild(probe);
    var found = getComputedStyle(probe).color; probe.remove(); return found;
  }
  function faint(found, share) { var parts = found.match(/[\d.]+/g) || [0, 0, 0]; return "rgba(" + parts.slice(0, 3).join(",") + "," + share + ")"; }
  function reach(plot, low, high) { return low === high ? [Math.min(low, 0), Math.max(high, 0) || 1] : uPlot.rangeNum(Math.min(low, 0), high, 0.08, true); }
  function draw() {
    if (!window.uPlot) return;
    plots.forEach(function (one) { one.destroy(); }); plots = [];
    var inks = ["bar", "two", "good", "warn", "bad", "accent"].map(colour), soft = colour("soft"), line = colour("line");
    var dashes = [[], [6, 4], [2, 3], [8, 3, 2, 3]];
    all(".plot").forEach(function (place) {
      var form = JSON.parse(place.getAttribute("data-chart"));
      var data = [form.steps].concat(form.columns), bands = [];
      var series = [{ label: "step" }].concat(form.names.map(function (name, number) {
        return { label: name, stroke: inks[number % inks.length], width: 1.6, dash: dashes[number % dashes.length], spanGaps: true,
          points: { show: form.columns[number].filter(function (one) { return one !== null; }).length < 60, size: 5 } };
      }));
      if (form.band) {
        var last = form.names.length, fill = faint(inks[(last - 1) % inks.length], 0.16);
        data = data.concat([form.band[1], form.band[0]]);
        series.push({ label: "interval, high", class: "band", stroke: fill, width: 0.5, points: { show: false }, spanGaps: true }, { label: "interval, low", class: "band", stroke: fill, width: 0.5, points: { show: false }, spanGaps: true });
        bands.push({ series: [last + 1, last + 2], fill: fill });
      }
      var axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "11px system-ui" };
      plots.push(new uPlot({ width: place.clientWidth || 480, height: 200, series: series, bands: bands, scales: { x: { time: false }, y: { range: reach } },
        axes: [Object.assign({ size: 28 }, axis), Object.assign({ size: 52 }, axis)], legend: { live: true }, cursor: { points: { size: 6 } } }, data, place));
    });
  }

  function ready() {
    theme(themes.indexOf(store.get("theme")) > 0 ? store.get("theme") : "system");
    all("[data-keys]").forEach(function (one) { one.checked = store.get("keys") !== "off"; one.addEventListener("change", function () { store.set("keys", one.checked ? "on" : "off"); }); });
    document.addEventListener("click", function (event) {
      var found = event.target.closest && event.target.closest("[data-copy], [data-theme-switch], [data-help], [data-all], [data-first]");
      if (!found) return;
      if (found.hasAttribute("data-copy")) copy(found);
      else if (found.hasAttribute("data-help")) help();
      else if (found.hasAttribute("data-all")) everything();
      else if (found.hasAttribute("data-first")) { event.preventDefault(); first(); }
      else theme(themes[(themes.indexOf(root.dataset.theme || "system") + 1) % 3]);
    });
    document.addEventListener("change", function (event) { if (event.target.name === "run") two(); });
    document.addEventListener("keydown", keys);
    document.addEventListener("htmx:beforeSwap", kept);
    document.addEventListener("htmx:afterSwap", function () {
      chosen.forEach(function (value) { var box = document.querySelector('input[name=run][value="' + value + '"]'); if (box) box.checked = true; });
      two(); draw();
    });
    window.addEventListener("hashchange", hashed);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    var wait; window.addEventListener("resize", function () { clearTimeout(wait); wait = setTimeout(draw, 150); });
    two(); hashed();
    root.dataset.ready = "yes";
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", ready); else ready();
})();
