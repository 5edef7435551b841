// @ts-check
/** The plan as a graph: nodes are elements, so that they can be read and focused; edges are lines behind them. */

import { byId, html, say, svg, termList } from "./dom.js";
import { rateText, short } from "./format.js";
import { layered } from "./layers.js";
import { sum } from "./samples.js";
import { ask } from "./stream.js";
import { tipOn } from "./tip.js";

/** @typedef {import("./types.js").PlanNode} PlanNode */
/** @typedef {import("./types.js").Status} Status */
/** @typedef {ReturnType<import("./samples.js").Samples["all"]>} Summary */
/** @typedef {{spout: string | null, element: HTMLElement, node: PlanNode}} Rated */

const WIDTH = 176;
const HEIGHT = 84;
const ACROSS = 36;
const DOWN = 14;
const OUTPUTS = new Set(["state", "sink", "window"]);

export class Plan {
  #graph = byId("graph");
  /** @type {Rated[]} */
  #rated = [];
  #spouts = 0;

  /** Ask for the plan, and draw it. */
  async load() {
    try {
      this.draw((await ask("plan")).nodes);
    } catch (error) {
      this.#graph.replaceChildren(html("p", { class: "note" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {PlanNode[]} nodes */
  draw(nodes) {
    const places = layered(nodes);
    const layers = Math.max(0, ...places.map((each) => each.layer)) + 1;
    const rows = Math.max(0, ...places.map((each) => each.row)) + 1;
    const [width, height] = [layers * (WIDTH + ACROSS) - ACROSS, rows * (HEIGHT + DOWN) - DOWN];
    const at = new Map(places.map((each) => [each.node.id, { x: each.layer * (WIDTH + ACROSS), y: each.row * (HEIGHT + DOWN) }]));
    const edges = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    this.#rated = [];
    this.#spouts = nodes.filter((each) => each.kind === "spout").length;
    const boxes = places.map(({ node }) => {
      const box = this.#box(node);
      const { x, y } = /** @type {{x: number, y: number}} */ (at.get(node.id));
      box.style.left = `${x}px`;
      box.style.top = `${y}px`;
      for (const input of node.inputs) {
        const from = at.get(input);
        if (from) edges.append(svg("path", { class: node.phase, d: edge(from.x + WIDTH, from.y + HEIGHT / 2, x, y + HEIGHT / 2) }));
      }
      return box;
    });
    const canvas = html("div", { class: "plan-canvas" }, edges, ...boxes);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    this.#graph.replaceChildren(canvas);
  }

  /** @param {PlanNode} node */
  #box(node) {
    const rated = html("span", { class: "rate" });
    const box = html(
      "div",
      { class: `node ${node.kind} ${node.phase}`, tabindex: 0, role: "group", "data-node": node.id, "data-kind": node.kind, "aria-label": spoken(node) },
      html("span", { class: "kind" }, node.kind === "operation" ? node.engine : node.kind, node.label ? html("i", {}, ` ${node.label}`) : null),
      html("span", { class: "title" }, node.name || node.title),
      node.promise ? html("span", { class: `badge ${strength(node.promise)}` }, node.promise) : node.name ? html("span", { class: "sub" }, node.title) : null,
      rated,
    );
    if (node.kind === "spout" || OUTPUTS.has(node.kind)) this.#rated.push({ spout: node.kind === "spout" ? node.name : null, element: rated, node });
    tipOn(box, () => [html("strong", {}, node.title), termList(facts(node))]);
    return box;
  }

  /**
   * Show how much goes in and out.
   * @param {Status} status
   * @param {Summary} lately
   */
  refresh(status, lately) {
    for (const { spout, element, node } of this.#rated) {
      if (spout === null) {
        say(element, lately && node.name in lately.written ? `${rateText(lately.written[node.name])} written` : "");
        continue;
      }
      const parts = [];
      if (this.#spouts === 1 && lately) parts.push(`${rateText(lately.rows)} read`);
      if (spout in status.lag) parts.push(`lag ${short(sum(Object.values(status.lag[spout])))}`);
      if (status.unready.includes(spout)) parts.push("nothing new");
      say(element, parts.join(" · "));
    }
  }
}

/** @param {string} promise */
function strength(promise) {
  if (promise === "exactly-once") return "exact";
  return promise === "no guarantee" || promise === "not exactly-once" ? "none" : "weaker";
}

/** @param {PlanNode} node */
function spoken(node) {
  return [node.kind, node.name, node.title, node.promise, node.promise ? node.reason : ""].filter(Boolean).join(", ");
}

/**
 * @param {PlanNode} node
 * @returns {[string, Node | string | null][]}
 */
function facts(node) {
  return [
    [node.kind, node.name],
    ["stream", node.label],
    ["guarantee", node.promise],
    ["because", node.reason],
    ["replay", node.replay],
    ["is", node.described],
    ["fields", node.fields ? html("code", {}, node.fields) : null],
    ["runs", [node.engine ? `in ${node.engine === "driver" ? "the driver" : node.engine}` : "", `${node.phase} phase`].filter(Boolean).join(", ")],
  ];
}

/**
 * @param {number} x1
 * @param {number} y1
 * @param {number} x2
 * @param {number} y2
 */
function edge(x1, y1, x2, y2) {
  const bend = Math.min(ACROSS, (x2 - x1) / 2);
  return `M${x1},${y1}C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
}
