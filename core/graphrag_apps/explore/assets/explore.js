"use strict";
// The page: search, details, filters, keys, and the address, which always leads back to what is shown.
// All text from the index is set with textContent.
(() => {
  const byId = (id) => document.getElementById(id);
  const PAGE = 24;
  const query = byId("query"), suggestions = byId("suggestions"), details = byId("details"), panel = byId("panel");
  const number = (value) => value.toLocaleString("en");
  const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

  // Build an element: el("p.hint", {title: "…"}, "text", child). Text is always text.
  function el(kind, ...parts) {
    const [name, ...classes] = kind.split("."), element = document.createElement(name);
    if (classes.length) element.className = classes.join(" ");
    for (const part of parts.flat()) {
      if (part === null || part === undefined || part === "" || part === false) continue;
      if (typeof part === "string" || part instanceof Node) element.append(part);
      else for (const [key, value] of Object.entries(part)) {
        if (key === "on") for (const [event, action] of Object.entries(value)) element.addEventListener(event, action);
        else if (key in element && key !== "list") element[key] = value;
        else element.setAttribute(key, value);
      }
    }
    return element;
  }
  const button = (kind, action, ...parts) => el(`button${kind}`, { type: "button", on: { click: action } }, ...parts);

  // -- the address: #/entity/NAME?scope=team%3Didentity

  const address = {
    read() {
      const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
      const decode = (part) => { try { return decodeURIComponent(part); } catch { return part; } };
      const [kind, ...values] = path.split("/").map(decode), options = new URLSearchParams(search);
      const known = ["entity", "question", "community", "edge"].includes(kind) && values[0];
      return { kind: known ? kind : "overview", value: values[0] ?? "", other: values[1] ?? "", scope: options.getAll("scope") };
    },
    write(view) {
      const parts = view.kind === "overview" ? [] : [view.kind, view.value, ...(view.kind === "edge" ? [view.other] : [])];
      const options = new URLSearchParams(view.scope.map((one) => ["scope", one]));
      return `#/${parts.map(encodeURIComponent).join("/")}${String(options) ? `?${options}` : ""}`;
    },
  };
  const go = (kind, value = "", other = "") => { location.hash = address.write({ ...view, kind, value, other }); };
  const change = (changes) => { location.hash = address.write({ ...view, ...changes }); };
  const entityLink = (node, ...parts) => el("a.entity", { href: address.write({ ...view, kind: "entity", value: node.id }), dir: "auto" }, ...(parts.length ? parts : [node.name]));

  // "team=identity", "year>=2020", "draft!=true" as a filter.
  const OPERATORS = { "=": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte" };
  function condition(text) {
    const found = /^\s*([^=!<>]+?)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*$/u.exec(text);
    if (!found) return null;
    const [, key, operator, value] = found, plain = /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : { true: true, false: false, null: null }[value] ?? (value === "null" ? null : value);
    return { [key]: operator === "=" ? plain : { [OPERATORS[operator]]: plain } };
  }
  function where() {
    const conditions = view.scope.map(condition).filter(Boolean);
    return conditions.length === 0 ? null : conditions.length === 1 ? conditions[0] : { and: conditions };
  }

  // -- requests: the newest view wins, older answers are dropped

  let view = address.read(), shown = null, overview = null, running = null, pending = 0;
  const source = Explore.openSource(askForKey);
  async function load(name, body, signal) {
    byId("busy").hidden = false;
    pending++;
    try {
      return await source.get(name, { ...body, where: where() }, { signal });
    } finally {
      if (--pending === 0) byId("busy").hidden = true;
    }
  }
  function fail(error, again) {
    if (error.name === "AbortError") return;
    byId("message").firstElementChild.textContent = error.message;
    byId("message").hidden = false;
    byId("retry").hidden = !again;
    byId("retry").onclick = () => { byId("message").hidden = true; again(); };
  }
  byId("message-close").addEventListener("click", () => { byId("message").hidden = true; });

  // The key is asked for once, however many requests need it.
  let asking = null;
  function askForKey(refused) {
    asking ??= new Promise((resolve) => {
      const dialog = byId("key");
      byId("key-text").textContent = refused ? "The server refused this API key. Enter another one." : "This server needs an API key. It is kept until you close this tab.";
      byId("key-input").value = "";
      dialog.showModal();
      dialog.oncancel = (event) => event.preventDefault();
      byId("key-form").onsubmit = (event) => {
        event.preventDefault();
        asking = null;
        dialog.close();
        resolve(byId("key-input").value.trim());
      };
    });
    return asking;
  }

  const graph = new Explore.Graph({
    container: byId("graph"), boxes: byId("boxes"), labels: byId("labels"), tip: byId("tip"), obstacles: [byId("legend"), document.querySelector(".zoom")], maxDrawn: 300,
    onOpen: (entity) => go("entity", entity),
    onEdge: (from, to) => go("edge", from, to),
    onHit: (rank) => selectHit(rank),
    onExpand: (entity) => expand(entity),
    onFocus: (node) => say(node.data("name")),
  });
  Explore.graph = graph;
  const say = (text) => { byId("status").textContent = text; };

  async function follow() {
    view = address.read();
    running?.abort();
    running = new AbortController();
    const { signal } = running, wanted = view;
    document.body.dataset.state = "loading";
    hideSuggestions();
    byId("message").hidden = true;
    drawFilters();
    try {
      const scope = JSON.stringify(wanted.scope);
      if (overview?.scope !== scope) {
        const loaded = await load("overview", {}, signal);
        if (signal.aborted) return;
        overview = { ...loaded, scope };
        shown = null;
        graph.setCommunities(overview.communities);
        drawLegend();
      }
      if ((wanted.kind === "question") !== (shown?.kind === "question")) openLegend();
      await views[wanted.kind](wanted, signal);
      if (signal.aborted) return;
      shown = wanted;
      markLegend(wanted.kind === "community" ? wanted.value : null);
      document.body.classList.toggle("at-start", wanted.kind === "overview");
      document.body.dataset.state = "ready";
    } catch (error) {
      if (signal.aborted) return;
      document.body.dataset.state = "failed";
      fail(error, follow);
    }
  }

  function drawDetails(title, ...parts) {
    details.replaceChildren(...parts.filter(Boolean));
    panel.scrollTop = 0;
    document.title = title ? `${title} - graph explorer` : "Graph explorer";
    say(title);
  }
  function nothing(text) {
    byId("empty").textContent = text;
    byId("empty").hidden = !text;
  }

  // -- views

  const views = {
    async overview() {
      if (shown?.kind !== "overview" || !graph.drawn().length) graph.show(overview.graph);
      graph.select(null);
      query.value = "";
      nothing(overview.graph.nodes.length ? "" : "There are no entities in this scope.");
      drawDetails("",
        el("h1", "Overview"),
        el("p.numbers", [[overview.documents, "document"], [overview.passages, "passage"], [overview.entities, overview.entities === 1 ? "entity" : "entities", ""]].map(([count, one, ending = count === 1 ? "" : "s"]) => el("span", el("b", `${number(count)}`), ` ${one}${ending}`))),
        source.offline && el("p.note", "This page is an export: it holds a part of the graph."),
        overview.communities.length > 0 && section("Communities", el("ul.communities", overview.communities.map((one) => el("li", communityCard(one))))),
        overview.graph.nodes.length > 0 && section("Joined by the most facts", entityList(overview.graph.nodes.slice(0, 12))),
      );
    },

    async community(wanted, signal) {
      const answer = await load("community", { id: wanted.value }, signal);
      if (signal.aborted) return;
      if (!answer.community) { missing("This community does not exist in this scope."); return; }
      const { community } = answer;
      if (shown?.kind !== "community" || shown.value !== wanted.value) graph.show(answer.graph);
      graph.select(null);
      nothing("");
      drawDetails(community.name,
        el("p.kind", dot(community.id), "Community"),
        el("h1", { dir: "auto" }, community.name),
        el("p.numbers", el("span", el("b", number(community.entities)), ` ${community.entities === 1 ? "entity" : "entities"}`)),
        answer.graph.nodes.length < community.entities && el("p.hint", `The graph shows the ${number(answer.graph.nodes.length)} entities that the most facts join.`),
        section("Joined by the most facts", entityList(answer.graph.nodes.slice(0, 12))),
      );
    },

    async entity(wanted, signal) {
      const answer = await load("entity", { name: wanted.value }, signal);
      if (signal.aborted) return;
      if (!answer.entity) { missing(source.offline ? `This page is an export: it has no details of "${wanted.value}".` : `There is no entity "${wanted.value}" in this scope.`); return; }
      const { entity, neighbours } = answer;
      const drawnAlready = shown && graph.has(entity.id);
      if (!drawnAlready) graph.show({ nodes: [entity, ...neighbours.nodes], edges: neighbours.edges }, entity.id);
      expanded.set(entity.id, Math.max(expanded.get(entity.id) ?? 0, drawnAlready ? 0 : neighbours.nodes.length));
      graph.select(entity.id);
      nothing("");
      if (document.activeElement !== query) query.value = "";
      drawDetails(entity.name, ...entityDetails(answer));
    },

    async edge(wanted, signal) {
      const answer = await load("between", { source: wanted.value, target: wanted.other }, signal);
      if (signal.aborted) return;
      if (answer.nodes.length < 2) { missing("These entities do not exist in this scope."); return; }
      const [from, to] = answer.nodes;
      if (!shown || !graph.has(from.id) || !graph.has(to.id)) graph.show({ nodes: answer.nodes, edges: [{ source: from.id, target: to.id, weight: 1 }] }, from.id, to.id);
      graph.selectEdge(from.id, to.id);
      nothing("");
      drawDetails(`${from.name} and ${to.name}`,
        el("p.kind", "Facts that join"),
        el("h1", entityLink(from), el("span.and", " and "), entityLink(to)),
        answer.items.length ? factList(answer.items) : el("p.hint", "No fact is stored for this line."),
        answer.total > answer.items.length && el("p.hint", `${number(answer.total - answer.items.length)} more in the index`),
      );
    },

    async question(wanted, signal) {
      query.value = wanted.value;
      if (shown?.kind !== "question" || shown.value !== wanted.value) {
        if (source.knows(wanted.value)) graph.clear();
        drawDetails(wanted.value, el("p.kind", "Question"), el("h1", { dir: "auto" }, wanted.value), el("p.hint", "Searching …"));
      }
      const answer = await load("question", { text: wanted.value }, signal);
      if (signal.aborted) return;
      if (shown?.kind !== "question" || shown.value !== wanted.value || !graph.cy.nodes(".box").length) graph.showNetwork(answer.network);
      graph.select(null);
      graph.highlightHit(null);
      nothing("");
      drawDetails(answer.question, ...questionDetails(answer));
      if (!answer.answer && !source.offline) write(wanted.value, answer.hits, signal);
    },
  };

  function missing(text) {
    if (!source.offline) graph.clear();
    nothing(graph.drawn().length ? "" : text);
    drawDetails("", el("h1", "Not found"), el("p", text), el("p", el("a", { href: address.write({ ...view, kind: "overview" }) }, "Start page")));
  }

  // -- parts of the details

  const section = (title, ...parts) => el("section", el("h2", title), ...parts);
  const dot = (community) => el(`i.dot.${graph.colourOf(community)}`, { ariaHidden: "true" });
  const marked = (pieces) => pieces.map(([text, mark]) => (mark ? el("mark", text) : text));
  const communityOf = (id) => overview.communities.find((one) => one.id === id);

  function communityCard(one) {
    return el("a.community", { href: address.write({ ...view, kind: "community", value: one.id }) },
      dot(one.id), el("span", el("b", { dir: "auto" }, one.name), el("small", { dir: "auto" }, one.names.slice(3, 9).join(", "))), el("span.count", { title: plural(one.entities, "entity", "entities") }, number(one.entities)));
  }
  function entityList(nodes) {
    const most = Math.max(1, ...nodes.map((node) => node.mentions));
    return el("ul.entities", nodes.map((node) => {
      const bar = el("i.bar");
      bar.style.width = `${Math.max(2, 100 * node.mentions / most)}%`;
      return el("li", entityLink(node, dot(node.community), el("span.name", { dir: "auto" }, node.name), node.type && el("small", node.type), el("span.count", { title: plural(node.mentions, "passage") }, number(node.mentions)), bar));
    }));
  }
  function factList(facts) {
    return el("ul.facts", facts.map((fact) => el("li",
      fact.relation && fact.entities.length > 1 && el("p.triple", entityLink(fact.entities[0]), el("i", fact.relation), entityLink(fact.entities[1])),
      el("p", { dir: "auto" }, fact.text),
      (!fact.relation || fact.entities.length > 2) && el("p.holds", fact.entities.map((one) => entityLink(one))))));
  }
  function passageCard(passage) {
    return el("li.passage",
      el("p.label", { dir: "auto" }, passage.label, passage.about && el("span.about", "about it")),
      el("p.text", { dir: "auto" }, marked(passage.pieces)),
      passage.text.length > 360 && el("details.whole", el("summary", "Whole passage"), el("p.text", { dir: "auto" }, passage.text)),
      passage.document !== passage.label && el("p.source", { dir: "auto", title: "document" }, passage.document));
  }

  // A list with a button that loads the next page.
  function paged(first, render, more) {
    const box = el("div", render(first.items)), rest = el("p.more");
    let count = first.items.length;
    const update = () => {
      const left = first.total - count;
      rest.replaceChildren(...(left > 0 ? [source.offline ? el("span.hint", `${number(left)} more in the index`) : button(".quiet", next, `Show ${number(Math.min(left, 12))} more of ${number(left)}`)] : []));
    };
    const next = async () => {
      try {
        const page = await load(more.name, { name: more.entity, offset: count, limit: 12 });
        count += page.items.length || first.total;
        box.append(render(page.items));
        update();
      } catch (error) { fail(error, next); }
    };
    update();
    return [box, rest];
  }

  const expanded = new Map();
  function entityDetails(answer) {
    const { entity, neighbours, facts, passages } = answer, community = communityOf(entity.community);
    const others = neighbours.nodes.filter((node) => node.id !== entity.id), hidden = others.filter((node) => !graph.isWanted(node)).length;
    return [
      el("p.kind", entity.type || { section: "Section" }[entity.kind] || "Entity", community && [" · ", el("a", { href: address.write({ ...view, kind: "community", value: community.id }) }, dot(community.id), community.name)]),
      el("h1", { dir: "auto" }, entity.name),
      entity.aliases.length > 0 && el("p.aliases", { dir: "auto" }, `also ${entity.aliases.join(", ")}`),
      entity.description && el("p", { dir: "auto" }, entity.description),
      el("p.numbers", el("span", el("b", number(passages.total)), ` ${passages.total === 1 ? "passage" : "passages"}`), el("span", el("b", number(facts.total)), ` ${facts.total === 1 ? "fact" : "facts"}`), el("span", el("b", number(neighbours.total)), ` ${neighbours.total === 1 ? "neighbour" : "neighbours"}`)),
      el("p.actions", button(".primary", () => expand(entity.id), { id: "expand" }, expandText(entity.id, neighbours.total)), button(".quiet", () => alone(answer), "Start from here")),
      others.length > 0 && section("Neighbours", el("div.chips", others.map((node) => entityLink(node, dot(node.community), el("span", node.name)))), hidden > 0 && el("p.hint", `${hidden} of them ${hidden === 1 ? "is a section and is" : "are sections and are"} not drawn.`), neighbours.total > neighbours.nodes.length && el("p.hint", `${number(neighbours.total - neighbours.nodes.length)} more: expand draws the next ones`)),
      facts.total > 0 && section("Facts", ...paged(facts, factList, { name: "facts", entity: entity.id })),
      passages.items.length > 0 && section("Passages", ...paged(passages, (items) => el("ul.passages", items.map(passageCard)), { name: "passages", entity: entity.id })),
    ];
  }
  function expandText(entity, total) {
    const done = expanded.get(entity) ?? 0;
    if (total === 0) return "No neighbours";
    return done >= total ? "All neighbours are drawn" : `Expand: ${number(Math.min(PAGE, total - done))} ${done ? `more of ${number(total)}` : plural(Math.min(PAGE, total - done), "neighbour").replace(/^\S+ /, "")}`;
  }
  function alone(answer) {
    expanded.clear();
    expanded.set(answer.entity.id, answer.neighbours.nodes.length);
    graph.show({ nodes: [answer.entity, ...answer.neighbours.nodes], edges: answer.neighbours.edges }, answer.entity.id);
    graph.select(answer.entity.id);
    updateExpand(answer.entity.id, answer.neighbours.total);
  }
  function updateExpand(entity, total) {
    const expandButton = byId("expand");
    if (!expandButton || view.value !== entity) return;
    expandButton.textContent = expandText(entity, total);
    expandButton.disabled = (expanded.get(entity) ?? 0) >= total;
  }
  async function expand(entity) {
    try {
      const offset = expanded.get(entity) ?? 0;
      const page = await load("neighbours", { name: entity, offset, limit: PAGE, drawn: graph.drawn().slice(-300) });
      const { added, left } = graph.add(page, entity);
      expanded.set(entity, offset + PAGE - left);
      if (graph.selected) graph.select(graph.selected.data("entity"));
      updateExpand(entity, page.total);
      if (left) fail(new Error("The drawing is full: start from one of its entities."));
      say(`${plural(added, "entity", "entities")} added`);
    } catch (error) { fail(error, () => expand(entity)); }
  }

  let selectedHit = null;
  function selectHit(rank) {
    selectedHit = rank === selectedHit ? null : rank;
    graph.highlightHit(selectedHit);
    for (const card of details.querySelectorAll(".hit")) {
      const on = Number(card.dataset.rank) === selectedHit;
      card.classList.toggle("selected", on);
      card.querySelector(".select").setAttribute("aria-pressed", String(on));
      if (on) card.scrollIntoView({ block: "nearest" });
    }
  }
  function questionDetails(answer) {
    selectedHit = null;
    const arrow = () => el("i", { ariaHidden: "true" }, " → ");
    return [
      el("p.kind", "Question"),
      el("h1", { dir: "auto" }, answer.question),
      answer.entities.length > 0 && el("div.chips", answer.entities.map((node) => entityLink(node, dot(node.community), el("span", node.name)))),
      answer.answer ? answerBlock(answer.answer, answer.hits) : !source.offline && el("div", { id: "answer" }, el("section.answer", el("p.hint", "Writing the answer …"))),
      answer.notes.map((note) => el("p.note", note)),
      section(plural(answer.hits.length, "passage"), answer.hits.length ? el("ol.hits", answer.hits.map((hit) => {
        const card = el("li.hit", { "data-rank": String(hit.rank) },
          button(".select", () => selectHit(hit.rank), { "aria-pressed": "false", title: "Show its path" }, el("span.rank", String(hit.rank)), el("span.name", { dir: "auto" }, hit.name), el("span.score", { title: "score" }, hit.score.toPrecision(2))),
          hit.by_graph && el("span.by-graph", "added by the graph"),
          hit.path.length ? el("p.path", hit.path.flatMap((step) => [step.kind === "fact" ? el("q", { dir: "auto" }, step.text) : step.id !== null ? entityLink({ id: step.id, name: step.text }) : el("b", { dir: "auto" }, step.text), arrow()]), el("b", "this passage")) : el("p.path.none", hit.found ? `${hit.found[0].toUpperCase()}${hit.found.slice(1)}.` : "Found by search."),
          hit.link && el("p.link", { dir: "auto" }, `${hit.link[0].toUpperCase()}${hit.link.slice(1)}.`),
          el("p.text", { dir: "auto" }, marked(hit.pieces)),
          hit.text.length > 360 && el("details.whole", el("summary", "Whole passage"), el("p.text", { dir: "auto" }, hit.text)),
          el("p.source", { dir: "auto", title: "document" }, hit.document));
        return card;
      })) : el("p.hint", answer.advice || "No passage was found.")),
      answer.decided && el("p.hint", `${answer.decided[0].toUpperCase()}${answer.decided.slice(1)}.`),
      answer.facts.length > 0 && el("details.more-facts", el("summary", `${plural(answer.facts.length, "fact")} in support`), factList(answer.facts)),
    ].flat();
  }
  // An answer is written while the passages are shown already.
  const written = new Map();
  async function write(question, hits, signal) {
    const id = JSON.stringify([question, view.scope]), place = byId("answer");
    let text = "";
    try {
      if (!written.has(id)) for await (const { piece, answer } of source.answer(question, where(), signal)) {
        if (signal.aborted) return;
        if (piece) { text += piece; place.replaceChildren(answerBlock({ kind: "llm", text, citations: [], cited: true }, hits)); }
        if (answer) written.set(id, answer);
      }
      if (written.has(id)) place.replaceChildren(answerBlock(written.get(id), hits));
      else place.remove();
    } catch (error) {
      if (signal.aborted) return;
      place.replaceChildren(el("section.answer", text && el("p.text", { dir: "auto" }, text), el("p.note", error.message), button(".quiet", () => write(question, hits, signal), "Try again")));
    }
  }
  // Citations like [2] in an answer lead to the passage that they cite.
  function answerBlock(answer, hits) {
    const titles = { llm: "Answer", extract: "What comes nearest in these documents", none: "Not in the documents" };
    const byNumber = new Map(answer.citations.map((one) => [one.number, one]));
    const body = answer.kind === "extract" ? answer.text.replace(/^.*:\n/, "") : answer.text;  // the heading says it
    const text = body.split(/(\[\d+\])/).map((piece) => {
      const cited = /^\[\d+\]$/.test(piece) ? byNumber.get(Number(piece.slice(1, -1))) : null;
      const hit = cited && hits.find((one) => one.chunk_id === cited.chunk_id);
      return cited ? button(".cite", () => hit && selectHit(hit.rank), { title: [cited.title, cited.section, cited.page && `page ${cited.page}`].filter(Boolean).join(", ") }, String(cited.number)) : piece;
    });
    return el(`section.answer.${answer.kind}`, el("h2", titles[answer.kind] ?? "Answer"), answer.text && el("p.text", { dir: "auto" }, text), answer.kind === "llm" && !answer.cited && el("p.note", "This answer cites no passage."));
  }

  // -- the legend and the filters

  function drawLegend() {
    const legend = byId("legend");
    legend.hidden = overview.communities.length === 0;
    legend.lastElementChild.replaceChildren(...overview.communities.map((one) => el("li", el("a", { href: address.write({ ...view, kind: "community", value: one.id }), "data-id": one.id, title: one.names.slice(0, 8).join(", ") }, dot(one.id), el("span", { dir: "auto" }, one.name)))));
    openLegend();
  }
  // The paths of an answer have no colours, and need the room.
  function openLegend() {
    byId("legend").open = innerWidth >= 760 && view.kind !== "question";
    document.body.classList.toggle("at-question", view.kind === "question");
  }
  function markLegend(id) {
    for (const link of byId("legend").querySelectorAll("a")) link.classList.toggle("selected", link.dataset.id === id);
  }
  function drawFilters() {
    byId("scopes").replaceChildren(...view.scope.map((one) => el("span.chip.on", { dir: "auto" }, one, button(".remove", () => change({ scope: view.scope.filter((other) => other !== one) }), { ariaLabel: `Remove ${one}` }, "×"))));
    byId("filter-count").textContent = String(view.scope.length);
    byId("filter-count").hidden = view.scope.length === 0;
    byId("filter").hidden = source.offline;
  }
  function toggleFilters(open = byId("filters").hidden) {
    byId("filters").hidden = !open;
    byId("filter").setAttribute("aria-expanded", String(open));
    if (open) byId("scope").focus();
  }
  byId("filter").addEventListener("click", () => toggleFilters());
  byId("scope-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = byId("scope").value.trim();
    if (!condition(text)) { fail(new Error('A scope is written as field=value, such as "team=identity".')); return; }
    byId("scope").value = "";
    if (!view.scope.includes(text)) change({ scope: [...view.scope, text] });
  });

  // -- search

  let suggested = [], chosen = -1, typing = 0, searching = null;
  const looksLikeQuestion = (text) => /[?？]\s*$/.test(text) || text.trim().split(/\s+/).length > 3;
  function hideSuggestions() {
    searching?.abort();
    clearTimeout(typing);
    suggestions.hidden = true;
    suggested = [];
    chosen = -1;
    query.setAttribute("aria-expanded", "false");
    query.removeAttribute("aria-activedescendant");
  }
  async function suggest() {
    const text = query.value.trim();
    searching?.abort();
    if (!text) { hideSuggestions(); return; }
    searching = new AbortController();
    const { signal } = searching;
    try {
      const found = looksLikeQuestion(text) && text.length > 60 ? { entities: [] } : await source.get("search", { text, where: where() }, { signal });
      if (signal.aborted || document.activeElement !== query) return;
      const names = found.entities.map((node) => ({ node }));
      const ask = source.offline ? [] : [{ ask: text }];
      suggested = looksLikeQuestion(text) ? [...ask, ...names] : [...names, ...ask];
      drawSuggestions();
    } catch (error) { fail(error); }
  }
  function drawSuggestions() {
    chosen = -1;
    suggestions.replaceChildren(...suggested.map((one, at) => el("li", { role: "option", id: `suggestion-${at}`, ariaSelected: "false", on: { pointerdown: (event) => { event.preventDefault(); take(one); } } },
      one.node ? [dot(one.node.community), el("span.name", { dir: "auto" }, one.node.name), one.node.type && el("small", one.node.type), el("span.count", number(one.node.mentions))] : [el("i.ask", { ariaHidden: "true" }, "?"), el("span.name", { dir: "auto" }, "Ask: ", el("b", one.ask))])));
    if (!suggested.length) suggestions.append(el("li.none", "No entity has this name."));
    suggestions.hidden = false;
    query.setAttribute("aria-expanded", "true");
    say(plural(suggested.length, "suggestion"));
  }
  function choose(at) {
    chosen = (at + suggested.length + 1) % (suggested.length + 1);
    if (chosen === suggested.length) chosen = -1;
    [...suggestions.children].forEach((item, i) => { item.setAttribute("aria-selected", String(i === chosen)); });
    if (chosen < 0) query.removeAttribute("aria-activedescendant");
    else {
      query.setAttribute("aria-activedescendant", `suggestion-${chosen}`);
      suggestions.children[chosen].scrollIntoView({ block: "nearest" });
    }
  }
  function take(one) {
    hideSuggestions();
    query.blur();
    if (one.node) go("entity", one.node.id); else go("question", one.ask);
    byId("graph").focus({ preventScroll: true });
  }
  query.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(suggest, 130); });
  query.addEventListener("focus", () => { if (query.value.trim() && view.kind !== "question") suggest(); });
  query.addEventListener("blur", () => hideSuggestions());
  query.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" && !suggestions.hidden) { event.preventDefault(); choose(chosen + 1); }
    else if (event.key === "ArrowUp" && !suggestions.hidden) { event.preventDefault(); choose(chosen < 0 ? suggested.length - 1 : chosen - 1 < 0 ? suggested.length : chosen - 1); }
    else if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); if (suggestions.hidden) { query.blur(); byId("graph").focus(); } else hideSuggestions(); }
  });
  byId("search").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = query.value.trim();
    if (!text) return;
    if (chosen >= 0) { take(suggested[chosen]); return; }
    clearTimeout(typing);
    if (looksLikeQuestion(text) && !source.offline) { take({ ask: text }); return; }
    try {
      const found = await load("search", { text });
      const same = found.entities.find((node) => node.name.toLowerCase() === text.toLowerCase()) ?? (found.exact || source.offline ? found.entities[0] : null);
      if (same) take({ node: same });
      else if (source.knows(text)) take({ ask: text });
      else fail(new Error(`This page is an export: it has no entity "${text}" and answers no new questions.`));
    } catch (error) { fail(error); }
  });

  // -- keys, help, zoom, the sheet of narrow screens

  const steps = { in: () => graph.zoom(1.25), out: () => graph.zoom(0.8), fit: () => { graph.moved = false; graph.fit(); } };
  for (const one of document.querySelectorAll("[data-zoom]")) one.addEventListener("click", () => steps[one.dataset.zoom]());
  const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typed = event.target.closest?.("input, textarea, select"), inGraph = event.target === byId("graph") || event.target === document.body;
    if (event.key === "Escape") { escape(); return; }
    if (typed) return;
    const action = {
      "/": () => { query.focus(); query.select(); }, "?": () => byId("help").showModal(), f: () => toggleFilters(), F: () => toggleFilters(),
      "+": steps.in, "=": steps.in, "-": steps.out, 0: steps.fit,
      e: expandFocused, E: expandFocused,
    }[event.key];
    if (action) { event.preventDefault(); action(); return; }
    if (inGraph && event.key in ARROWS) { event.preventDefault(); graph.move(...ARROWS[event.key]); }
    else if (inGraph && event.key === "Enter" && graph.focused) { event.preventDefault(); graph.open(graph.focused); }
  });
  function expandFocused() {
    const entity = (graph.focused ?? graph.selected)?.data("entity");
    if (entity !== undefined) expand(entity);
  }
  function escape() {
    if (!byId("message").hidden) byId("message").hidden = true;
    else if (!byId("filters").hidden) { toggleFilters(false); byId("filter").focus(); }
    else if (panel.classList.contains("tall")) setSheet(false);
    else if (selectedHit !== null) selectHit(null);
    else if (view.kind !== "overview") go("overview");
  }
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  byId("skip").addEventListener("click", (event) => { event.preventDefault(); panel.focus(); });
  byId("home").addEventListener("click", (event) => { event.preventDefault(); go("overview"); });

  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => graph.refreshColours());
  graph.refreshColours();

  const sheet = byId("sheet");
  function setSheet(tall) {
    panel.classList.toggle("tall", tall);
    sheet.setAttribute("aria-expanded", String(tall));
  }
  sheet.addEventListener("click", () => setSheet(!panel.classList.contains("tall")));

  if (source.offline && !location.hash) {
    const { kind, value } = source.data.start;
    history.replaceState(null, "", address.write({ ...view, kind, value }));
  }
  addEventListener("hashchange", follow);
  follow();
})();
