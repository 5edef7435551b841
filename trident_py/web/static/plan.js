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
/** @typedef {import("./layers.js").Item} Item */
/** @typedef {{spout: string | null, element: HTMLElement, node: PlanNode}} Rated */

const WIDTH = 172;
const HEIGHTS = { operation: 62, other: 84 };
const ACROSS = 34;
const DOWN = 14;
const OUTPUTS = new Set(["state", "sink", "window", "join", "process"]);

export class Plan {
  #graph = byId("graph");
  /** @type {Rated[]} */
  #rated = [];
  #spouts = 0;

  /** Ask for the plan, and draw it. */
  async load() {
    try {
      const { nodes, error } = await ask("plan");
      if (nodes?.length) this.draw(nodes);
      else this.#graph.replaceChildren(html("p", { class: "note" }, error ?? "no plan is known"));
    } catch (error) {
      this.#graph.replaceChildren(html("p", { class: "note" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {PlanNode[]} nodes */
  draw(nodes) {
    const placed = layered(nodes, heightOf, DOWN);
    const width = placed.layers * (WIDTH + ACROSS) - ACROSS;
    const edges = svg("svg", { width, height: placed.height, viewBox: `0 0 ${width} ${placed.height}`, "aria-hidden": "true" });
    const canvas = html("div", { class: "plan-canvas" }, edges);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${placed.height}px`;
    this.#rated = [];
    this.#spouts = nodes.filter((each) => each.kind === "spout").length;
    for (const item of placed.items) {
      for (const from of item.before) edges.append(svg("path", { class: phaseOf(item), d: edge(from, item) }));
      if (!item.node) continue;
      const box = this.#box(item.node);
      box.style.left = `${left(item)}px`;
      box.style.top = `${item.y - item.height / 2}px`;
      box.style.height = `${item.height}px`;
      canvas.append(box);
    }
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

/** @param {PlanNode} node */
function heightOf(node) {
  return node.kind === "operation" ? HEIGHTS.operation : HEIGHTS.other;
}

/** @param {Item} item */
function left(item) {
  return item.layer * (WIDTH + ACROSS);
}

/**
 * Give the phase of what an edge leads to.
 * @param {Item} item
 * @returns {string}
 */
function phaseOf(item) {
  return item.node ? item.node.phase : phaseOf(item.after[0]);
}

/**
 * Draw the way from one item to the next; one that only passes is passed straight.
 * @param {Item} from
 * @param {Item} to
 */
function edge(from, to) {
  const [x1, x2] = [left(from) + WIDTH, left(to)];
  const middle = (x1 + x2) / 2;
  const passing = to.node ? "" : `H${x2 + WIDTH}`;
  return `M${x1},${from.y}C${middle},${from.y} ${middle},${to.y} ${x2},${to.y}${passing}`;
}
