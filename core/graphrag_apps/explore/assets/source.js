"use strict";
// Where answers come from: a server (requests to api/NAME), or the data of an exported page.
const Explore = {};

(() => {
  const KEY = "hybrid-graphrag-api-key";

  class RequestError extends Error {
    constructor(message, status) { super(message); this.status = status; }
  }

  class ServerSource {
    constructor(askForKey) {
      this.offline = false;
      this.askForKey = askForKey;
    }
    async get(name, body, { signal } = {}) {
      const response = await this.send(`api/${name}`, JSON.stringify(body), signal), answer = response.ok ? await response.json().catch(() => null) : null;
      if (answer === null) throw await this.errorOf(response);
      return answer;
    }
    knows() { return true; }  // answers any question
    // An answer in words: yields {piece} while it is written, then {answer}.
    async *answer(question, where, signal) {
      const response = await this.send("../v1/ask", JSON.stringify({ question, where, stream: true }), signal);
      if (!response.ok) throw await this.errorOf(response);
      let text = "";
      for await (const part of pieces(response.body)) {
        text += part;
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
          const lines = text.slice(0, end).split("\n"), field = (name) => lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2)).join("\n");
          if (!field("event")) continue;
          const value = JSON.parse(field("data"));
          if (field("event") === "error") throw new RequestError(value.error?.message ?? "The answer broke off.", 502);
          yield field("event") === "piece" ? { piece: value.text } : { answer: value };
        }
      }
    }
    async errorOf(response) {
      const answer = response.bodyUsed ? null : await response.json().catch(() => null);
      return new RequestError(answer?.error?.message || `The server answered with status ${response.status}.`, response.status);
    }
    async send(url, text, signal) {
      for (let refused = false; ; refused = true) {
        const headers = { "Content-Type": "application/json" }, key = sessionStorage.getItem(KEY);
        if (key) headers.Authorization = `Bearer ${key}`;
        let response;
        try {
          response = await fetch(url, { method: "POST", headers, body: text, signal, credentials: "same-origin" });
        } catch (error) {
          if (error.name === "AbortError") throw error;
          throw new RequestError("The server does not answer.", 0);
        }
        if (response.status === 401) {
          sessionStorage.removeItem(KEY);
          sessionStorage.setItem(KEY, await this.askForKey(refused || Boolean(key)));
          continue;
        }
        return response;
      }
    }
  }

  async function* pieces(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (let next; !(next = await reader.read()).done; ) yield next.value;
    } finally { reader.cancel().catch(() => {}); }
  }

  class StaticSource {
    constructor(data) {
      this.offline = true;
      this.data = data;
    }
    async get(name, body) {
      const { data } = this, entity = Object.hasOwn(data.entities, body.name ?? "") ? data.entities[body.name] : null;
      switch (name) {
        case "overview": return data.overview;
        case "search": return this.search(body.text);
        case "entity": return entity ?? { entity: null };
        case "neighbours": return this.neighbours(entity, body);
        case "passages": case "facts": return entity?.[name] ?? { items: [], total: 0 };
        case "between": return this.between(body.source, body.target);
        case "community": return Object.hasOwn(data.communities, body.id) ? data.communities[body.id] : { community: null };
        case "question":
          if (this.knows(body.text)) return data.questions[body.text];
          throw new RequestError("This page is an export: it answers no new questions. Search one of its entities, or start the server.", 404);
        default: throw new RequestError(`unknown request ${name}`, 404);
      }
    }
    knows(question) { return Object.hasOwn(this.data.questions, question); }
    search(text) {
      const wanted = text.trim().toLowerCase(), groups = [[], [], []];
      for (const { entity } of Object.values(this.data.entities)) {
        const names = [entity.name, ...entity.aliases].map((one) => one.toLowerCase());
        if (!wanted) break;
        if (names.some((one) => one.startsWith(wanted))) groups[0].push(entity);
        else if (names.some((one) => one.includes(` ${wanted}`))) groups[1].push(entity);
        else if (names.some((one) => one.includes(wanted))) groups[2].push(entity);
      }
      for (const group of groups) group.sort((a, b) => b.mentions - a.mentions);
      const entities = groups.flat().slice(0, 12);
      return { entities, exact: entities.some((one) => one.name.toLowerCase() === wanted) };
    }
    neighbours(entity, { offset, limit, drawn }) {
      if (!entity) return { nodes: [], edges: [], total: 0, offset };
      const nodes = entity.neighbours.nodes.slice(offset, offset + limit);
      const inside = new Set([entity.entity.id, ...nodes.map((node) => node.id), ...(drawn ?? [])]);
      const edges = this.data.edges.filter((edge) => inside.has(edge.source) && inside.has(edge.target));
      return { nodes, edges, total: entity.neighbours.nodes.length, offset };
    }
    between(source, target) {
      const [a, b] = [source, target].map((name) => (Object.hasOwn(this.data.entities, name) ? this.data.entities[name] : null));
      if (!a || !b) return { nodes: [], items: [], total: 0 };
      const both = [...a.facts.items, ...b.facts.items].filter((fact) => [source, target].every((id) => fact.entities.some((one) => one.id === id)));
      const items = [...new Map(both.map((fact) => [fact.id, fact])).values()];
      return { nodes: [a.entity, b.entity], items, total: items.length };
    }
  }

  Explore.openSource = (askForKey) => {
    const data = document.getElementById("data");
    return data ? new StaticSource(JSON.parse(data.textContent)) : new ServerSource(askForKey);
  };
})();
