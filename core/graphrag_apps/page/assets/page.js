"use strict";
// The page works without this script, which adds highlighting, tooltips, zooming, panning and the theme switch.
(() => {
  const byId = (id) => document.getElementById(id);
  const stage = byId("stage"), graph = byId("graph"), tip = byId("tip"), details = byId("details");
  const hint = details.firstElementChild;
  const parts = [...graph.querySelectorAll("[data-hits]")];
  const cards = [...document.querySelectorAll(".hit")];
  const list = (element, name) => (element.dataset[name] || "").split(" ").filter(Boolean);
  const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
  // On a narrow screen the cards are below the graph: scrolling to them would hide it.
  const cardsBeside = () => cards.length && cards[0].getBoundingClientRect().left >= stage.getBoundingClientRect().right;
  let selected = null;

  // A passage highlights its path, a name or a fact every path through it.
  function matcher(element) {
    const hits = new Set(list(element, "hits"));
    if (element.classList.contains("question")) return () => true;
    return (other) => [...list(other, "hits"), ...list(other, "linked")].some((hit) => hits.has(hit));
  }
  function highlight(element) {
    const matches = element ? matcher(element) : () => false;
    graph.classList.toggle("has-selection", Boolean(element));
    for (const part of parts) part.classList.toggle("highlighted", matches(part));
  }
  function select(element, from) {
    selected = element && element !== selected ? element : null;
    const hits = selected ? list(selected, "hits") : [];
    const hit = hits.length === 1 ? hits[0] : null;
    for (const card of cards) {
      const on = card.dataset.hits === hit;
      card.classList.toggle("highlighted", on);
      card.querySelector(".select").setAttribute("aria-pressed", String(on));
      if (on && from === "graph" && cardsBeside()) card.scrollIntoView({ block: "nearest", behavior: reducedMotion.matches ? "auto" : "smooth" });
    }
    for (const part of parts) if (part.hasAttribute("aria-pressed")) part.setAttribute("aria-pressed", String(part.dataset.hits === hit));
    const card = cards.find((c) => c.dataset.hits === hit);
    const link = card?.querySelector(".link");
    details.replaceChildren(...(card ? [pathOf(card)] : [hint]), ...(link ? [link.cloneNode(true)] : []));
    highlight(selected);
    if (selected && from === "card") scrollTo(selected);
  }
  function pathOf(card) {
    const path = card.querySelector(".path").cloneNode(true), end = path.querySelector("b:last-child");
    if (end) end.textContent = card.querySelector(".name").textContent;
    return path;
  }
  function scrollTo(part) {
    const at = part.getBoundingClientRect(), frame = stage.getBoundingClientRect();
    if (at.top < frame.top || at.bottom > frame.bottom) stage.scrollTop += (at.top + at.bottom - frame.top - frame.bottom) / 2;
    if (at.left < frame.left || at.right > frame.right) stage.scrollLeft += (at.left + at.right - frame.left - frame.right) / 2;
  }
  const passage = (hit) => parts.find((p) => p.classList.contains("passage") && p.dataset.hits === hit);
  for (const card of cards) {
    const box = passage(card.dataset.hits);
    card.addEventListener("click", () => { if (!String(getSelection())) select(box, "card"); });
    card.addEventListener("pointerenter", () => { if (!selected) highlight(box); });
    card.addEventListener("pointerleave", () => { if (!selected) highlight(null); });
  }

  // The passage that another is linked to.
  addEventListener("click", (event) => {
    const box = passage(event.target.closest?.(".link button")?.dataset.to);
    if (!box) return;
    event.preventDefault();
    event.stopPropagation();
    if (box !== selected) select(box, "graph");
  }, { capture: true });

  // Tooltips replace the browser's own, which are slow and ignore the keyboard.
  const tooltips = new Map();
  for (const part of parts) {
    const title = part.querySelector("title");
    if (title) { tooltips.set(part, title.textContent); title.remove(); }
  }
  function showTip(part) {
    if (!tooltips.has(part)) { tip.hidden = true; return; }
    tip.textContent = tooltips.get(part);
    tip.hidden = false;
    const at = part.getBoundingClientRect(), size = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left + at.width / 2 - size.width / 2), innerWidth - size.width - 8);
    const above = at.top - size.height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 8 ? above : at.bottom + 8}px`;
  }
  for (const part of tooltips.keys()) {
    part.addEventListener("pointerenter", () => { showTip(part); if (!selected) highlight(part); });
    part.addEventListener("pointerleave", () => { showTip(null); if (!selected) highlight(null); });
    part.addEventListener("focus", () => { if (part.matches(":focus-visible")) showTip(part); });
    part.addEventListener("blur", () => showTip(null));
    part.addEventListener("click", () => select(part, "graph"));
    part.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); select(part, "graph"); }
    });
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") { showTip(null); select(null); } });
  addEventListener("scroll", () => showTip(null), { capture: true, passive: true });

  // Zooming sets the width of the graph and panning scrolls, so that touch, trackpad and arrow keys work by themselves.
  const natural = { width: graph.viewBox.baseVal.width, height: graph.viewBox.baseVal.height };
  let scale = 0;
  function fittingScale() {
    const wide = (stage.clientWidth - 12) / natural.width, high = Math.max(420, innerHeight * 0.72) / natural.height;
    const whole = Math.max(Math.min(wide, high), Math.min(wide, 0.85));
    return Math.min(1.15, Math.max(stage.clientWidth < 620 ? wide : 0.55, whole));
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
  function fit() { zoom(fittingScale()); stage.scrollTo(0, 0); }
  // While zoomed, the stage keeps its height, so that the rest of the page does not move.
  let zoomed = false;
  function setZoomed(on) {
    if (on !== zoomed) stage.style.height = on ? `${Math.max(stage.offsetHeight, 240)}px` : "";
    zoomed = on;
  }
  const steps = { in: () => zoom(scale * 1.25), out: () => zoom(scale / 1.25), fit };
  function step(name) { setZoomed(name !== "fit"); steps[name](); }
  byId("zoom").hidden = false;
  for (const button of byId("zoom").children) button.addEventListener("click", () => step(button.dataset.zoom));
  stage.addEventListener("keydown", (event) => {
    const name = { "+": "in", "=": "in", "-": "out", "0": "fit" }[event.key];
    if (name && !event.ctrlKey && !event.metaKey) { event.preventDefault(); step(name); }
  });
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    setZoomed(true);
    zoom(scale * Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
  }, { passive: false });
  new ResizeObserver(() => { if (!zoomed) fit(); }).observe(stage);
  fit();

  // Panning with the mouse. A drag is not a click.
  let drag = null;
  stage.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button !== 0) return;
    drag = { x: event.clientX, y: event.clientY, left: stage.scrollLeft, top: stage.scrollTop, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 5) return;
    drag.moved = true;
    stage.classList.add("dragging");
    stage.scrollLeft = drag.left - dx;
    stage.scrollTop = drag.top - dy;
  });
  addEventListener("pointerup", () => {
    stage.classList.remove("dragging");
    if (drag?.moved) addEventListener("click", (event) => event.stopPropagation(), { capture: true, once: true });
    drag = null;
  });
  stage.addEventListener("click", (event) => { if (!event.target.closest("[tabindex='0'][data-hits]")) select(null); });

  const theme = byId("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const current = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    document.documentElement.dataset.theme = current === "dark" ? "light" : "dark";
  });
})();
