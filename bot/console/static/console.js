// console.js makes the pages live and adds keys. Everything works without it.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const page = () => document.querySelector("[data-page]");
  if (!page()) return;

  const approval = document.querySelector("[data-id]")?.dataset.id;
  let skew = page().dataset.now - Date.now(); // the store's clock decides, not this one

  // Relative times move on.
  const span = (ms) => {
    const s = ms / 1000;
    if (s < 10) return s.toFixed(1) + " s";
    if (s < 120) return s.toFixed(0) + " s";
    if (s < 7200) return (s / 60).toFixed(0) + " min";
    if (s < 172800) return (s / 3600).toFixed(0) + " h";
    return (s / 86400).toFixed(0) + " days";
  };
  const tell = () => {
    for (const rel of document.querySelectorAll("time .rel")) {
      const left = Date.parse(rel.parentElement.dateTime) - Date.now() - skew;
      const text = left > 0 ? "in " + span(left) : left > -10000 ? "just now" : span(-left) + " ago";
      rel.textContent = rel.textContent.startsWith("(") ? "(" + text + ")" : text;
    }
  };
  setInterval(tell, 5000);

  // The page reads itself again and swaps what is live, but never under the
  // hands of somebody who writes.
  const writing = () => {
    const act = document.querySelector(".decide details[open], .settle:focus-within, .filters:focus-within");
    const typed = [...document.querySelectorAll(".decide input, .decide textarea")];
    return act || typed.some((f) => f.type !== "hidden" && f.value !== f.defaultValue);
  };
  const swap = (fresh) => {
    const focus = document.activeElement?.id;
    for (const part of fresh.querySelectorAll("[data-live]")) $(part.id)?.replaceWith(part);
    if (focus && document.activeElement === document.body) $(focus)?.focus();
    skew = page().dataset.now - Date.now();
    document.title = page().dataset.title || document.title;
    $("announce").textContent = document.querySelector("[data-announce]")?.textContent.trim() || "";
    tell();
  };
  const read = async () => {
    const answer = await fetch(location.href, { headers: { "X-Console-Refresh": page().dataset.rev } });
    if (answer.status === 204) return;
    if (answer.status === 401) return location.reload(); // the login is over
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!fresh.querySelector("[data-page]")) return;
    if (writing()) $("stale").hidden = false;
    else swap(fresh);
  };

  let reading = false, again = false;
  const refresh = async () => {
    again = true;
    if (reading) return;
    reading = true;
    while (again) {
      again = false;
      try { await read(); } catch { linked("not live"); }
    }
    reading = false;
  };

  const linked = (text) => {
    $("link").textContent = text;
    $("link").hidden = false;
    $("link").classList.toggle("up", text === "live");
  };
  let source, retry;
  const close = () => { source?.close(); clearTimeout(retry); source = null; };
  const connect = () => {
    close();
    source = new EventSource("/console/events" + (approval ? "?id=" + approval : ""));
    source.addEventListener("ready", () => { linked("live"); refresh(); });
    source.addEventListener("change", refresh);
    source.onerror = () => {
      linked("not live");
      if (source?.readyState !== EventSource.CLOSED) return; // it tries again by itself
      close();
      retry = setTimeout(() => { refresh(); connect(); }, 5000);
    };
  };
  connect();
  // A browser keeps six streams per server: tabs that nobody sees give theirs
  // back, but for the inbox, whose title counts.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) connect();
    else if (approval) close();
  });
  addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });
  addEventListener("pagehide", close);

  // A double click is one press.
  document.addEventListener("submit", (e) => {
    if (e.target.method !== "post") return;
    if (e.target.dataset.sent) e.preventDefault();
    e.target.dataset.sent = "yes";
  });

  // Keys move and focus; no key decides.
  const rows = () => [...document.querySelectorAll(".row")];
  const move = (by) => {
    const all = rows(), at = all.indexOf(document.activeElement);
    all[Math.min(Math.max(at + by, 0), all.length - 1)]?.focus();
  };
  const act = (id) => {
    const form = $(id);
    if (!form) return;
    if (form.tagName === "DETAILS") form.open = true;
    form.querySelector("input:not([type=hidden]), textarea, button")?.focus();
    form.scrollIntoView({ block: "nearest" });
  };
  const keys = {
    j: () => move(1), k: () => move(-1),
    a: () => act("approve"), d: () => act("deny"), q: () => act("ask"),
    u: () => { location.href = "/console/"; },
    "?": () => $("help").showModal(),
  };
  const on = $("shortcuts");
  on.checked = localStorage.getItem("shortcuts") !== "off";
  on.addEventListener("change", () => localStorage.setItem("shortcuts", on.checked ? "on" : "off"));
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || $("help").open) return;
    if (e.target.closest("input, textarea, select") || !(on.checked || e.key === "?")) return;
    const key = keys[e.key];
    if (!key) return;
    e.preventDefault();
    key();
  });
})();
