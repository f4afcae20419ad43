"use strict";
// The drawing: cytoscape.js draws nodes and lines, HTML elements over it are the labels. Labels keep their size at every
// zoom and are placed as on a map: the most important first, and none over another.
(() => {
  const COLOURS = 12;
  const EDGES = 4;  // of an entity, besides those of the one that was expanded
  const SMALLEST = 0.62;  // nodes are not drawn smaller than at this zoom
  const NARROW_NODES = 40;
  const NARROW = 600;  // pixels
  const LABEL_HEIGHT = 17, LABEL_WIDTH = 168;

  // Canvas drawing needs plain colours: let the browser resolve what the style sheet says for the current theme.
  function resolveColours() {
    const probe = document.createElement("i");
    document.body.append(probe);
    const colour = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
    const found = {};
    for (const name of ["surface", "text", "text-soft", "text-faint", "line", "accent", "accent-tint", "link", "vector", "background"]) found[name] = colour(name);
    for (let at = 0; at < COLOURS; at++) found[`community-${at}`] = colour(`community-${at}`);
    found["community-other"] = colour("community-other");
    probe.remove();
    return found;
  }

  const size = (mentions) => Math.min(38, 11 + 3.1 * Math.log2(1 + (mentions || 0)));
  const thickness = (weight) => Math.min(3.2, 0.8 + 0.5 * Math.log2(1 + (weight || 0)));

  // Force-directed placement (Fruchterman and Reingold, 1991), then boxes are pushed apart until no two overlap.
  // Deterministic: the same nodes in the same order get the same places.
  function place(nodes, edges, { aspect, anchor }) {
    const count = nodes.length;
    if (!count) return;
    const gap = 72, at = new Map(nodes.map((node, i) => [node.id, i]));
    const x = new Float64Array(count), y = new Float64Array(count), free = new Float64Array(count);
    let fresh = 0;
    nodes.forEach((node, i) => {
      free[i] = node.placed ? 0.08 : 1;
      if (node.placed) { x[i] = node.x; y[i] = node.y; return; }
      const turn = fresh * 2.399963, radius = (anchor ? 60 : 0) + gap * 0.62 * Math.sqrt(++fresh);
      x[i] = (anchor?.x ?? 0) + radius * Math.cos(turn) * Math.sqrt(aspect);
      y[i] = (anchor?.y ?? 0) + radius * Math.sin(turn) / Math.sqrt(aspect);
    });
    if (anchor && at.has(anchor.id)) free[at.get(anchor.id)] = 0;
    const links = edges.filter((edge) => at.has(edge.source) && at.has(edge.target))
      .map((edge) => [at.get(edge.source), at.get(edge.target), Math.min(1.1, 0.4 + 0.14 * Math.log2(1 + (edge.weight || 0)))]);
    const degree = new Float64Array(count);
    for (const [a, b] of links) { degree[a]++; degree[b]++; }
    const groups = new Map();
    nodes.forEach((node, i) => { if (node.community != null) groups.set(node.community, [...(groups.get(node.community) ?? []), i]); });
    const ideal = gap * (count > 120 ? 0.9 : 1.05), steps = count > 150 ? 140 : 240, reach = (ideal * 5) ** 2;
    const dx = new Float64Array(count), dy = new Float64Array(count);
    for (let step = 0; step < steps; step++) {
      const heat = ideal * 0.9 * (1 - step / steps) ** 1.4 + 0.5;
      dx.fill(0); dy.fill(0);
      for (let i = 0; i < count; i++) for (let j = i + 1; j < count; j++) {
        let ox = (x[i] - x[j]) / Math.sqrt(aspect), oy = (y[i] - y[j]) * Math.sqrt(aspect);
        const far = ox * ox + oy * oy + 0.01;
        if (far > reach) continue;
        const push = Math.min(4, ideal * ideal / far);
        ox *= push * Math.sqrt(aspect); oy *= push / Math.sqrt(aspect);
        dx[i] += ox; dy[i] += oy; dx[j] -= ox; dy[j] -= oy;
      }
      for (const [a, b, weight] of links) {
        const ox = x[a] - x[b], oy = y[a] - y[b], far = Math.hypot(ox, oy) + 0.01;
        const pull = weight * far / ideal / Math.sqrt(1 + Math.min(degree[a], degree[b])) * 0.7;
        dx[a] -= ox * pull; dy[a] -= oy * pull; dx[b] += ox * pull; dy[b] += oy * pull;
      }
      for (const members of groups.values()) {
        if (members.length < 2) continue;
        let cx = 0, cy = 0;
        for (const i of members) { cx += x[i] / members.length; cy += y[i] / members.length; }
        for (const i of members) { dx[i] -= (x[i] - cx) * 0.34; dy[i] -= (y[i] - cy) * 0.34; }
      }
      const mx = anchor?.x ?? 0, my = anchor?.y ?? 0;
      for (let i = 0; i < count; i++) {
        const weight = degree[i] ? 0.05 : 0.16;
        dx[i] -= (x[i] - mx) * weight; dy[i] -= (y[i] - my) * weight * aspect;
        const length = Math.hypot(dx[i], dy[i]) + 0.01, go = Math.min(length, heat) * free[i] / length;
        x[i] += dx[i] * go; y[i] += dy[i] * go;
      }
    }
    // Room for labels below the nodes, as far as they will be seen together.
    const wide = nodes.map((node) => Math.max(node.size, Math.min(node.label, count > 90 ? 70 : 150)) + 12);
    const high = nodes.map((node) => node.size + LABEL_HEIGHT + 12);
    for (let round = 0, moved = true; moved && round < 120; round++) {
      moved = false;
      for (let i = 0; i < count; i++) for (let j = i + 1; j < count; j++) {
        const ox = (wide[i] + wide[j]) / 2 - Math.abs(x[i] - x[j]), oy = (high[i] + high[j]) / 2 - Math.abs(y[i] - y[j]);
        if (ox <= 0 || oy <= 0) continue;
        moved = true;
        const share = free[i] + free[j] ? free[i] / (free[i] + free[j]) : 0.5;
        if (ox < oy) { const go = (x[i] < x[j] ? -1 : 1) * (ox + 0.5); x[i] += go * share; x[j] -= go * (1 - share); }
        else { const go = (y[i] < y[j] ? -1 : 1) * (oy + 0.5); y[i] += go * share; y[j] -= go * (1 - share); }
      }
    }
    nodes.forEach((node, i) => { node.x = x[i]; node.y = y[i]; });
  }

  // A line that leaves and reaches boxes horizontally and bends in the gaps between columns, as control points of
  // cytoscape.js: places along the straight line between the two, and distances from it.
  function controls(from, to, line) {
    const dx = to.x - from.x, dy = to.y - from.y, square = dx * dx + dy * dy || 1, length = Math.sqrt(square), points = [];
    const bend = (x, y) => points.push([(x * dx + y * dy) / square, (x * -dy + y * dx) / length]);
    const beside = Math.max(from.width, to.width) / 2 + 30 + Math.min(40, Math.abs(dy) / 6);
    if (Math.abs(dx) < 40) [0, dy].forEach((y) => bend(beside, y));
    else for (let at = 0; at < line.length - 1; at += 2) {
      const x = (line[at][0] + line[at + 1][0]) / 2 - from.x;
      for (const [, y] of [line[at], line[at + 1]]) bend(x, y - from.y);
    }
    return { weights: points.map((one) => one[0]), distances: points.map((one) => one[1]) };
  }

  class Graph {
    constructor({ container, boxes, labels, tip, obstacles, onOpen, onEdge, onHit, onExpand, onFocus, maxDrawn }) {
      Object.assign(this, { container, boxes, labels, tip, obstacles, onOpen, onEdge, onHit, onExpand, onFocus });
      this.maxDrawn = maxDrawn;
      this.colours = resolveColours();
      this.communityColours = new Map();
      this.nodeScale = 1;
      this.focused = null;
      this.selected = null;
      this.hovered = null;
      this.elements = new Map();
      this.measure = document.createElement("canvas").getContext("2d");
      this.cy = cytoscape({ container, elements: [], style: this.style(), minZoom: 0.08, maxZoom: 3.2, boxSelectionEnabled: false, textureOnViewport: true, hideEdgesOnViewport: false, autounselectify: true, layout: { name: "preset" } });
      this.listen();
    }
    listen() {
      const { cy } = this;
      cy.on("tap", (event) => {
        if (event.target !== cy) return;
        const node = this.labelAt(event.renderedPosition);
        if (node) this.open(node); else this.hideTip();
      });
      cy.on("tap", "node", (event) => this.open(event.target));
      cy.on("tap", "edge", (event) => this.openEdge(event.target));
      cy.on("dbltap", "node.entity", (event) => this.onExpand(event.target.data("entity")));
      cy.on("mouseover", "node", (event) => this.hover(event.target));
      cy.on("mouseout", "node", () => this.hover(null));
      cy.on("mouseover", "edge", (event) => { event.target.addClass("hovered"); this.showTip(event.target.data("tip"), event.renderedPosition); });
      cy.on("mouseout", "edge", (event) => { event.target.removeClass("hovered"); this.hideTip(); });
      cy.on("mousemove", (event) => {
        const node = event.target === cy ? this.labelAt(event.renderedPosition) : null;
        if (event.target === cy) this.hover(node);
        this.container.style.cursor = node || event.target !== cy ? "pointer" : "";
      });
      cy.on("viewport resize position", () => this.redraw());
      new ResizeObserver(() => { cy.resize(); if (!this.moved) this.fit(true); this.redraw(); }).observe(this.container);
      this.container.addEventListener("pointerdown", () => { this.moved = true; });
      this.container.addEventListener("wheel", () => { this.moved = true; }, { passive: true });
    }

    // -- what is drawn

    colourOf(community) { return this.communityColours.get(community) ?? (this.communityColours.size ? "community-other" : "community-0"); }
    setCommunities(communities) {
      this.communityColours = new Map(communities.map((one) => [one.id, one.colour < COLOURS ? `community-${one.colour}` : "community-other"]));
    }
    isWanted(node) { return node.kind !== "section"; }
    clear() {
      this.cy.elements().remove();
      this.boxes.replaceChildren();
      this.labels.replaceChildren();
      this.elements.clear();
      this.selected = this.focused = this.hovered = null;
      this.moved = false;
      this.hideTip();
    }
    has(entity) { return this.cy.getElementById(`e ${entity}`).nonempty() || this.boxOf(entity).nonempty(); }
    boxOf(entity) { return this.cy.getElementById(`b entity ${entity}`); }
    nodeOf(entity) {
      const node = this.cy.getElementById(`e ${entity}`);
      return node.nonempty() ? node : this.boxOf(entity);
    }
    drawn() { return this.cy.nodes("[entity]").map((node) => node.data("entity")); }

    // Replace what is drawn by entities and their edges; ``always`` are ids of entities of any kind.
    show(graph, ...always) {
      this.clear();
      let nodes = graph.nodes.filter((node) => always.includes(node.id) || this.isWanted(node));
      if (this.isNarrow() && nodes.length > NARROW_NODES) nodes = nodes.slice(0, NARROW_NODES);
      this.insert(nodes, graph.edges, null);
      this.fit();
    }
    // Add entities around one that is drawn, until as many are drawn as can be read.
    add(graph, around) {
      const anchor = this.nodeOf(around);
      const fresh = graph.nodes.filter((node) => this.isWanted(node) && !this.has(node.id));
      const added = fresh.slice(0, Math.max(0, this.maxDrawn - this.drawn().length));
      this.insert(added, graph.edges, anchor.nonempty() ? anchor : null);
      if (added.length) this.fit();
      return { added: added.length, left: fresh.length - added.length };
    }
    insert(nodes, edges, anchor) {
      const { cy } = this, centre = anchor?.[0];
      cy.batch(() => {
        for (const node of nodes.slice(0, this.maxDrawn)) {
          if (this.has(node.id)) continue;
          const added = cy.add({
            group: "nodes", classes: "entity",
            data: { id: `e ${node.id}`, entity: node.id, name: node.name, type: node.type, mentions: node.mentions, community: node.community, colour: this.colours[this.colourOf(node.community)], size: size(node.mentions), drawn: size(node.mentions) * this.nodeScale },
          });
          added.scratch("fresh", true);
          this.addLabel(added);
        }
        for (const edge of edges) {
          const from = this.nodeOf(edge.source)[0], to = this.nodeOf(edge.target)[0], id = `l ${edge.source}\n${edge.target}`;
          if (!from || !to || cy.getElementById(id).nonempty() || from.edgesWith(to).nonempty()) continue;
          if (from !== centre && to !== centre && Math.min(from.degree(), to.degree()) >= EDGES) continue;  // a dense graph stays readable
          cy.add({ group: "edges", classes: "fact", data: { id, source: from.id(), target: to.id(), weight: edge.weight, thickness: thickness(edge.weight), ends: [edge.source, edge.target], tip: "Click to see the facts" } });
        }
      });
      this.arrange(anchor);
    }
    arrange(anchor) {
      const { cy } = this, entities = cy.nodes(".entity");
      const aspect = Math.min(2.2, Math.max(0.5, this.container.clientWidth / Math.max(1, this.container.clientHeight)));
      const items = entities.map((node) => ({
        id: node.id(), community: node.data("community"), size: node.data("size"), label: this.labelWidth(node.data("name")),
        placed: !node.scratch("fresh"), x: node.position("x"), y: node.position("y"),
      }));
      const fixed = cy.nodes(".box");
      let start = anchor ? { id: anchor.id(), ...anchor.position() } : null;
      if (fixed.nonempty()) {  // beside the paths of an answer, not over them
        const box = fixed.boundingBox();
        const fresh = items.filter((item) => !item.placed);
        place(fresh, [], { aspect: aspect * 1.6, anchor: null });
        const top = Math.min(...fresh.map((item) => item.y)), middle = (box.x1 + box.x2) / 2;
        const below = Math.max(box.y2, ...items.filter((item) => item.placed).map((item) => item.y)) + 70;
        for (const item of fresh) { item.y += below - top; item.x += middle; }
      } else {
        place(items, cy.edges(".fact").map((edge) => ({ source: edge.source().id(), target: edge.target().id(), weight: edge.data("weight") })), { aspect, anchor: start });
      }
      items.forEach((item, at) => {
        entities[at].removeScratch("fresh");
        entities[at].position({ x: item.x, y: item.y });
      });
    }

    // The paths of an answer, placed as on the explain page: the question left, the passages right.
    showNetwork(network) {
      this.clear();
      const places = new Map(network.nodes.map((node) => [node.key, node]));
      this.cy.batch(() => {
        for (const node of network.nodes) {
          const id = `b ${node.key}`, community = node.community;
          const data = { id, width: node.width, height: node.height, hits: node.hits, kind: node.kind, tip: node.tooltip, name: node.label.replaceAll("\n", " "), colour: this.colours[this.colourOf(community)] };
          if (node.id !== null) Object.assign(data, { entity: node.id, community });
          this.cy.add({ group: "nodes", classes: `box ${node.kind}`, data, position: { x: node.x, y: node.y } });
          this.boxes.append(this.boxElement(node, id));
        }
        network.edges.forEach((edge, at) => {
          const from = places.get(edge.source), to = places.get(edge.target);
          const curve = controls(from, to, from.x < to.x ? edge.points : edge.points.toReversed());
          this.cy.add({
            group: "edges", classes: `path ${edge.kind === "fact" ? "step" : edge.kind}`,
            data: { id: `p ${at}`, source: `b ${edge.source}`, target: `b ${edge.target}`, hits: edge.hits, tip: edge.text, ...curve,
              ends: [places.get(edge.source).id, places.get(edge.target).id] },
          });
        });
      });
      this.fit(true);
    }
    isNarrow() { return this.container.clientWidth < NARROW; }
    boxElement(node, id) {
      const element = document.createElement("div"), text = document.createElement("span");
      element.className = `box ${node.kind}`;
      element.style.left = `${node.x - node.width / 2}px`;
      element.style.top = `${node.y - node.height / 2}px`;
      element.style.width = `${node.width}px`;
      element.style.height = `${node.height}px`;
      text.className = "text";
      text.dir = "auto";
      text.textContent = node.label;
      if (node.kind === "passage") {
        const rank = document.createElement("b");
        rank.textContent = String(node.hits[0] ?? "");
        element.append(rank);
      }
      const lines = document.createElement("span");
      lines.className = "lines";
      lines.append(text);
      if (node.note) {
        const note = document.createElement("small");
        note.dir = "auto";
        note.textContent = node.note;
        lines.append(note);
      }
      element.append(lines);
      this.elements.set(id, element);
      return element;
    }
    highlightHit(rank) {
      const { cy } = this;
      cy.elements().removeClass("faded lit");
      for (const element of this.boxes.children) element.classList.remove("faded");
      if (rank === null) return;
      cy.elements(".box, .path").forEach((part) => {
        const on = part.data("hits").includes(rank) || part.data("kind") === "question";
        part.addClass(on ? "lit" : "faded");
        this.elements.get(part.id())?.classList.toggle("faded", !on);
      });
    }

    // -- selection, hovering and the keyboard

    open(node) {
      this.focus(node, false);
      if (node.data("entity") !== undefined) this.onOpen(node.data("entity"));
      else if (node.data("kind") === "passage") this.onHit(node.data("hits")[0] ?? null);
      else if (node.data("kind") === "fact") this.openFact(node);
      else this.onHit(null);
    }
    openFact(node) {
      const [first, second] = node.neighborhood("node[entity]").map((one) => one.data("entity"));
      if (second !== undefined) this.onEdge(first, second);
    }
    openEdge(edge) {
      const [source, target] = edge.data("ends");
      if (source != null && target != null) this.onEdge(source, target);
    }
    select(entity) {
      const { cy } = this;
      cy.elements().removeClass("selected near far");
      this.selected = null;
      const node = entity === null ? cy.collection() : this.nodeOf(entity);
      if (node.nonempty()) {
        this.selected = this.focused = node[0];
        node.addClass("selected");
        if (node.hasClass("entity")) {
          node.connectedEdges(".fact").addClass("near");
          const near = node.closedNeighborhood();
          cy.elements(".entity, edge.fact").difference(near).addClass("far");
          this.reveal(node);
        }
      }
      for (const [id, element] of this.elements) {
        const drawn = cy.getElementById(id);
        element.classList.toggle("selected", drawn.hasClass("selected"));
        element.classList.toggle("far", drawn.hasClass("far"));
      }
      this.redraw();
    }
    selectEdge(source, target) {
      this.select(null);
      const ends = this.nodeOf(source).union(this.nodeOf(target));
      ends.addClass("selected");
      ends.edgesWith(ends).addClass("near");
      for (const node of ends) this.elements.get(node.id())?.classList.add("selected");
      this.redraw();
    }
    hover(node) {
      if (node?.[0] === this.hovered?.[0]) return;
      this.hovered?.removeClass("hovered");
      this.hovered = node;
      node?.addClass("hovered");
      if (node?.hasClass("box")) this.showTip(node.data("tip"), node.renderedPosition(), node.renderedHeight() / 2 + 8);
      else this.hideTip();
      this.redraw();
    }
    focus(node, announce = true) {
      this.focused?.removeClass("focused");
      this.focused = node;
      node.addClass("focused");
      const element = this.elements.get(node.id());
      if (element?.id) this.container.setAttribute("aria-activedescendant", element.id);
      this.reveal(node);
      this.redraw();
      if (announce) this.onFocus(node);
    }
    // Move to the nearest node in a direction: distance counts, and being aside counts twice.
    move(dx, dy) {
      const shown = this.cy.nodes();
      if (shown.empty()) return;
      if (!this.focused || this.focused.removed()) { this.focus(this.selected ?? shown[0]); return; }
      const from = this.focused.position();
      let best = null, least = Infinity;
      shown.forEach((node) => {
        const ox = node.position("x") - from.x, oy = node.position("y") - from.y;
        const ahead = ox * dx + oy * dy, aside = Math.abs(ox * dy) + Math.abs(oy * dx);
        if (node === this.focused || ahead <= 1) return;
        const cost = ahead + 2 * aside;
        if (cost < least) { least = cost; best = node; }
      });
      if (best) this.focus(best);
    }
    reveal(node) {
      const at = node.renderedPosition(), { clientWidth: width, clientHeight: height } = this.container, edge = 60;
      const dx = at.x < edge ? edge - at.x : at.x > width - edge ? width - edge - at.x : 0;
      const dy = at.y < edge ? edge - at.y : at.y > height - edge ? height - edge - at.y : 0;
      if (dx || dy) this.cy.panBy({ x: dx, y: dy });
    }
    zoom(factor) {
      this.moved = true;
      this.cy.zoom({ level: this.cy.zoom() * factor, renderedPosition: { x: this.container.clientWidth / 2, y: this.container.clientHeight / 2 } });
    }
    // The paths of an answer come first: what was added below them may be outside.
    fit(pathsOnly = false) {
      const { cy } = this, { clientWidth: width, clientHeight: height } = this.container;
      if (cy.nodes().empty() || !width) return;
      const network = cy.nodes(".box").nonempty();
      const legend = Math.max(0, ...this.obstacles.slice(0, network ? 2 : 1).map((one) => height - one.offsetTop).filter((covered) => covered < height / 2));
      const side = network ? 18 : Math.min(70, width * 0.12), above = network ? 18 : 30, below = legend + (network ? 8 : 26);
      const scale = (one) => Math.min(1.2, (width - 2 * side) / Math.max(1, one.w), (height - above - below) / Math.max(1, one.h));
      let box = cy.elements().boundingBox(), zoom = scale(box);
      if (pathsOnly && network && zoom < 0.8) {
        box = cy.elements(".box, .path").boundingBox();
        zoom = scale(box);
      }
      let pan = { x: width / 2 - zoom * (box.x1 + box.x2) / 2, y: above + (height - above - below) / 2 - zoom * (box.y1 + box.y2) / 2 };
      if (network && zoom < 0.62) {  // on a narrow screen: readable, from the question on
        zoom = 0.62;
        pan = { x: side - zoom * box.x1, y: height / 2 - zoom * cy.nodes(".question").position("y") };
      }
      cy.viewport({ zoom, pan });
      this.redraw();
    }

    // -- labels and tips

    labelWidth(name) {
      this.measure.font = '12.5px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
      return Math.min(LABEL_WIDTH, this.measure.measureText(name).width + 8);
    }
    addLabel(node) {
      const element = document.createElement("button");
      element.type = "button";
      element.tabIndex = -1;
      element.className = "label";
      element.dir = "auto";
      element.id = `label-${this.labelCount = (this.labelCount ?? 0) + 1}`;
      element.textContent = node.data("name");
      element.addEventListener("click", () => this.open(node));
      node.scratch("label", this.labelWidth(node.data("name")));
      this.elements.set(node.id(), element);
      this.labels.append(element);
    }
    labelAt({ x, y }) {
      for (const { node, box } of this.shownLabels ?? []) if (x >= box[0] && x <= box[2] && y >= box[1] && y <= box[3]) return node;
      return null;
    }
    redraw() {
      if (this.waiting) return;
      this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.drawLabels(); });
    }
    drawLabels() {
      const { cy } = this, zoom = cy.zoom(), pan = cy.pan();
      this.scaleNodes(Math.max(1, SMALLEST / zoom));
      this.boxes.style.transform = `translate(${pan.x}px, ${pan.y}px) scale(${zoom})`;
      const { clientWidth: width, clientHeight: height } = this.container;
      const nodes = cy.nodes(".entity").toArray();
      const first = (node) => (node === this.selected || node.hasClass("selected") ? 4 : node === this.focused || node === this.hovered?.[0] ? 3 : node.hasClass("far") ? 0 : 1);
      const order = nodes.map((node) => [node, first(node)]).sort((a, b) => b[1] - a[1] || b[0].data("mentions") - a[0].data("mentions"));
      const taken = nodes.map((node) => { const { x, y } = node.renderedPosition(), r = node.data("drawn") / 2 * zoom * 0.9; return [x - r, y - r, x + r, y + r, node]; });
      cy.nodes(".box").forEach((node) => { const { x, y } = node.renderedPosition(), w = node.renderedWidth() / 2, h = node.renderedHeight() / 2; taken.push([x - w, y - h, x + w, y + h, node]); });
      for (const element of this.obstacles) taken.push([element.offsetLeft, element.offsetTop, element.offsetLeft + element.offsetWidth, element.offsetTop + element.offsetHeight, element]);
      const free = (box, node) => !taken.some((other) => other[4] !== node && box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
      const shown = [], seen = new Set();
      for (const [node, rank] of order) {
        const { x, y } = node.renderedPosition(), r = node.data("drawn") / 2 * zoom, w = node.scratch("label"), h = LABEL_HEIGHT;
        if (x < -w || y < -40 || x > width + w || y > height + 40) continue;
        const places = [[x - w / 2, y + r + 2], [x + r + 3, y - h / 2], [x - r - 3 - w, y - h / 2], [x - w / 2, y - r - 2 - h]]
          .map(([left, top]) => [left, top, left + w, top + h]);
        const inside = (box) => box[0] >= 2 && box[2] <= width - 2 && box[1] >= 2 && box[3] <= height - 2;
        const box = places.find((one) => inside(one) && free(one, node)) ?? (rank >= 3 ? places[0] : null);
        if (!box) continue;
        taken.push([...box, null]);
        shown.push({ node, box });
        seen.add(node.id());
        const element = this.elements.get(node.id());
        element.style.transform = `translate(${Math.round(box[0])}px, ${Math.round(box[1])}px)`;
        element.style.width = `${Math.ceil(w)}px`;
      }
      this.shownLabels = shown;
      for (const [id, element] of this.elements) if (element.classList.contains("label")) {
        element.classList.toggle("hidden", !seen.has(id));
        element.classList.toggle("strong", id === this.focused?.id() || id === this.hovered?.id());
      }
    }
    // Far away, nodes keep a size that can be seen and hit.
    scaleNodes(scale) {
      if (Math.abs(scale / this.nodeScale - 1) < 0.03) return;
      this.nodeScale = scale;
      this.cy.batch(() => this.cy.nodes(".entity").forEach((node) => { node.data("drawn", node.data("size") * scale); }));
    }
    showTip(text, { x, y }, above = 14) {
      if (!text) { this.hideTip(); return; }
      this.tip.textContent = text;
      this.tip.hidden = false;
      const { offsetWidth: width, offsetHeight: height } = this.tip;
      this.tip.style.left = `${Math.min(Math.max(8, x - width / 2), this.container.clientWidth - width - 8)}px`;
      this.tip.style.top = `${y - above - height > 8 ? y - above - height : y + above}px`;
    }
    hideTip() { this.tip.hidden = true; }

    // -- colours

    refreshColours() {
      this.colours = resolveColours();
      this.cy.nodes("[community], .entity").forEach((node) => { node.data("colour", this.colours[this.colourOf(node.data("community"))]); });
      this.cy.style(this.style());
    }
    style() {
      const colour = this.colours;
      return [
        { selector: "node", style: { "overlay-opacity": 0, "background-color": "data(colour)" } },
        { selector: "node.entity", style: { width: "data(drawn)", height: "data(drawn)", "border-width": 1.5, "border-color": colour.surface } },
        { selector: "node.far", style: { opacity: 0.38 } },
        { selector: "node.hovered", style: { "border-color": colour.text, "border-width": 2 } },
        { selector: "node.focused", style: { "border-color": colour.vector, "border-width": 3 } },
        { selector: "node.entity.selected", style: { "border-color": colour.text, "border-width": 3.5, opacity: 1 } },
        { selector: "edge", style: { "overlay-opacity": 0, "overlay-padding": 6, "line-color": colour.line, "curve-style": "straight" } },
        { selector: "edge.fact", style: { width: "data(thickness)", opacity: 0.62 } },
        { selector: "edge.far", style: { opacity: 0.24 } },
        { selector: "edge.near", style: { "line-color": colour["text-faint"], opacity: 0.95 } },
        { selector: "node.box", style: { shape: "round-rectangle", width: "data(width)", height: "data(height)", "background-color": colour.surface, "border-width": 1.2, "border-color": colour.line } },
        { selector: "node.box.passage", style: { "border-color": colour["text-soft"], "border-width": 1.4 } },
        { selector: "node.box.fact", style: { "border-width": 1 } },
        { selector: "node.box.linked", style: { "border-color": colour.accent, "border-width": 1.8 } },
        { selector: "node.box.named", style: { "background-color": colour["accent-tint"], "border-color": colour.accent, "border-width": 2.2 } },
        { selector: "node.box.question", style: { "background-color": colour.text, "border-width": 0 } },
        { selector: "node.box.selected, node.box.hovered", style: { "border-width": 3 } },
        { selector: "node.box.focused", style: { "border-color": colour.vector, "border-width": 3.5 } },
        { selector: "edge.path", style: { "line-color": colour.accent, width: 2.6, "curve-style": "unbundled-bezier", "edge-distances": "node-position", "control-point-weights": "data(weights)", "control-point-distances": "data(distances)" } },
        { selector: "edge.path.match", style: { "line-style": "dotted", "line-color": colour["text-faint"], width: 1.4 } },
        { selector: "edge.path.link", style: { "line-color": colour.link, width: 1.8 } },
        { selector: ".faded", style: { opacity: 0.25 } },
        { selector: "edge.lit", style: { width: 4 } },
        { selector: "edge.hovered", style: { "line-color": colour.text, opacity: 1 } },
      ];
    }
  }
  Explore.Graph = Graph;
})();
