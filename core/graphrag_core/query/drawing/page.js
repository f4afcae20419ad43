"use strict";
// The drawing stands without this; here it learns to zoom, to be dragged and to answer the pointer.
(() => {
  const byId = (id) => document.getElementById(id);
  const stage = byId("stage"), graph = byId("graph"), tip = byId("tip"), told = byId("told");
  const hint = told.firstElementChild;
  const parts = [...graph.querySelectorAll("[data-hits]")];
  const cards = [...document.querySelectorAll(".hit")];
  const list = (element, name) => (element.dataset[name] || "").split(" ").filter(Boolean);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  // On a narrow screen the cards stand below: going there would lose the drawing from sight.
  const beside = () => cards.length && cards[0].getBoundingClientRect().left >= stage.getBoundingClientRect().right;
  let chosen = null;

  // Lighting: a passage lights its way, an entity or a fact every way through it, and a fact
  // or an entity that no way passes lights what it touches.
  function lights(element) {
    const hits = new Set(list(element, "hits"));
    if (element.classList.contains("question")) return () => true;
    if (hits.size) return (other) => list(other, "hits").some((hit) => hits.has(hit));
    const node = element.dataset.node;
    if (node === undefined) {
      const ends = list(element, "ends");
      return (other) => other.dataset.ends === element.dataset.ends || ends.includes(other.dataset.node);
    }
    const touched = new Set(parts.filter((p) => list(p, "ends").includes(node)).flatMap((p) => list(p, "ends")));
    return (other) => list(other, "ends").includes(node) || other.dataset.node === node || touched.has(other.dataset.node);
  }
  function show(element) {
    const lit = element ? lights(element) : () => false;
    graph.classList.toggle("chosen", Boolean(element));
    for (const part of parts) part.classList.toggle("lit", lit(part));
  }
  function choose(element, from) {
    chosen = element && element !== chosen ? element : null;
    const hits = chosen ? list(chosen, "hits") : [];
    const one = hits.length === 1 ? hits[0] : null;
    for (const card of cards) {
      const on = card.dataset.hits === one;
      card.classList.toggle("lit", on);
      card.querySelector(".pick").setAttribute("aria-pressed", String(on));
      if (on && from === "graph" && beside()) card.scrollIntoView({ block: "nearest", behavior: calm.matches ? "auto" : "smooth" });
    }
    for (const part of parts) if (part.hasAttribute("aria-pressed")) part.setAttribute("aria-pressed", String(part.dataset.hits === one));
    const card = cards.find((c) => c.dataset.hits === one);
    told.replaceChildren(card ? wayTo(card) : hint);
    show(chosen);
    if (chosen && from === "card") reveal(chosen);
  }
  function wayTo(card) {
    const way = card.querySelector(".way").cloneNode(true), end = way.querySelector("b:last-child");
    if (end) end.textContent = card.querySelector(".name").textContent;
    return way;
  }
  function reveal(part) {
    const at = part.getBoundingClientRect(), frame = stage.getBoundingClientRect();
    if (at.top < frame.top || at.bottom > frame.bottom) stage.scrollTop += (at.top + at.bottom - frame.top - frame.bottom) / 2;
    if (at.left < frame.left || at.right > frame.right) stage.scrollLeft += (at.left + at.right - frame.left - frame.right) / 2;
  }
  const passage = (hit) => parts.find((p) => p.classList.contains("passage") && p.dataset.hits === hit);
  for (const card of cards) {
    const mine = passage(card.dataset.hits);
    card.addEventListener("click", () => { if (!String(getSelection())) choose(mine, "card"); });
    card.addEventListener("pointerenter", () => { if (!chosen) show(mine); });
    card.addEventListener("pointerleave", () => { if (!chosen) show(null); });
  }

  // Tips take the place of the browser's own, which come late and never for the keyboard.
  const tips = new Map();
  for (const part of parts) {
    const title = part.querySelector("title");
    if (title) { tips.set(part, title.textContent); title.remove(); }
  }
  function point(part) {
    if (!tips.has(part)) { tip.hidden = true; return; }
    tip.textContent = tips.get(part);
    tip.hidden = false;
    const at = part.getBoundingClientRect(), size = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left + at.width / 2 - size.width / 2), innerWidth - size.width - 8);
    const above = at.top - size.height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 8 ? above : at.bottom + 8}px`;
  }
  for (const part of tips.keys()) {
    part.addEventListener("pointerenter", () => { point(part); if (!chosen) show(part); });
    part.addEventListener("pointerleave", () => { point(null); if (!chosen) show(null); });
    part.addEventListener("focus", () => { if (part.matches(":focus-visible")) point(part); });
    part.addEventListener("blur", () => point(null));
    part.addEventListener("click", () => choose(part, "graph"));
    part.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(part, "graph"); }
    });
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") { point(null); choose(null); } });
  addEventListener("scroll", () => point(null), { capture: true, passive: true });

  // Zoom is the drawing's width and moving is scrolling: touch, trackpad and arrow keys come free.
  const natural = { width: graph.viewBox.baseVal.width, height: graph.viewBox.baseVal.height };
  let scale = 0;
  function fit() {
    const wide = (stage.clientWidth - 12) / natural.width, high = Math.max(420, innerHeight * 0.72) / natural.height;
    const whole = Math.max(Math.min(wide, high), Math.min(wide, 0.85));
    return Math.min(1.15, Math.max(stage.clientWidth < 620 ? 0.78 : 0.64, whole));
  }
  function zoom(to, x, y) {
    const before = graph.getBoundingClientRect(), frame = stage.getBoundingClientRect();
    x = x ?? frame.left + frame.width / 2;
    y = y ?? frame.top + frame.height / 2;
    const across = (x - before.left) / before.width, down = (y - before.top) / before.height;
    scale = Math.min(4, Math.max(0.3, to));
    graph.classList.add("zoomed");
    graph.style.minWidth = "0";
    graph.style.width = `${natural.width * scale}px`;
    const after = graph.getBoundingClientRect();
    stage.scrollLeft += after.left + across * after.width - x;
    stage.scrollTop += after.top + down * after.height - y;
  }
  function refit() { zoom(fit()); stage.scrollTo(0, 0); }
  // While it is zoomed the frame keeps its height, so that the page around it stays where it is.
  let touched = false;
  function touch(zoomed) {
    if (zoomed !== touched) stage.style.height = zoomed ? `${Math.max(stage.offsetHeight, 240)}px` : "";
    touched = zoomed;
  }
  const steps = { in: () => zoom(scale * 1.25), out: () => zoom(scale / 1.25), fit: refit };
  function step(name) { touch(name !== "fit"); steps[name](); }
  byId("zoom").hidden = false;
  for (const button of byId("zoom").children) button.addEventListener("click", () => step(button.dataset.zoom));
  stage.addEventListener("keydown", (event) => {
    const name = { "+": "in", "=": "in", "-": "out", "0": "fit" }[event.key];
    if (name && !event.ctrlKey && !event.metaKey) { event.preventDefault(); step(name); }
  });
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    touch(true);
    zoom(scale * Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
  }, { passive: false });
  new ResizeObserver(() => { if (!touched) refit(); }).observe(stage);
  refit();

  // Dragging with a mouse; a drag is no click.
  let held = null;
  stage.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button !== 0) return;
    held = { x: event.clientX, y: event.clientY, left: stage.scrollLeft, top: stage.scrollTop, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!held) return;
    const dx = event.clientX - held.x, dy = event.clientY - held.y;
    if (!held.moved && Math.hypot(dx, dy) < 5) return;
    held.moved = true;
    stage.classList.add("held");
    stage.scrollLeft = held.left - dx;
    stage.scrollTop = held.top - dy;
  });
  addEventListener("pointerup", () => {
    stage.classList.remove("held");
    if (held?.moved) addEventListener("click", (event) => event.stopPropagation(), { capture: true, once: true });
    held = null;
  });
  stage.addEventListener("click", (event) => { if (!event.target.closest("[tabindex='0'][data-hits]")) choose(null); });

  const theme = byId("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    document.documentElement.dataset.theme = dark === "dark" ? "light" : "dark";
  });
})();
