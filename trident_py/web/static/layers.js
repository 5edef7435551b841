// @ts-check
/** Where the nodes of a plan go: layers from left to right, few crossings, chains as straight as can be. Pure. */

/** @typedef {import("./types.js").PlanNode} PlanNode */

/**
 * A node in its layer, or, where `node` is null, a place at which an edge passes through it.
 * @typedef {{node: PlanNode | null, layer: number, y: number, height: number, before: Item[], after: Item[]}} Item
 */

const SWEEPS = 6;
const PASSING_HEIGHT = 14;

/**
 * Place each node right of all its inputs; `y` is its middle, in pixels from the top.
 * @param {PlanNode[]} nodes
 * @param {(node: PlanNode) => number} heightOf
 * @param {number} gap between two of them
 */
export function layered(nodes, heightOf, gap) {
  const items = itemsOf(nodes, heightOf);
  /** @type {Item[][]} */
  const layers = [];
  for (const item of items) (layers[item.layer] ??= []).push(item);
  for (const layer of layers) settle(layer, gap, (item) => item.y);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const layer of layers) arrange(layer, gap, (item) => item.before);
    for (const layer of [...layers].reverse()) arrange(layer, gap, (item) => item.after);
  }
  for (const layer of layers) arrange(layer, gap, (item) => item.before);
  const top = Math.min(0, ...items.map((each) => each.y - each.height / 2));
  for (const item of items) item.y -= top;
  return { items, layers: layers.length, height: Math.max(0, ...items.map((each) => each.y + each.height / 2)) };
}

/**
 * Make the items, with one in each layer that an edge passes through.
 * @param {PlanNode[]} nodes
 * @param {(node: PlanNode) => number} heightOf
 */
function itemsOf(nodes, heightOf) {
  const layerOf = layersOf(nodes);
  /** @type {Map<number, Item>} */
  const byId = new Map(nodes.map((node) => [node.id, { node, layer: layerOf.get(node.id) ?? 0, y: 0, height: heightOf(node), before: [], after: [] }]));
  const items = [...byId.values()];
  for (const item of byId.values()) {
    for (const input of item.node?.inputs ?? []) {
      let from = byId.get(input);
      if (!from) continue;
      for (let layer = from.layer + 1; layer < item.layer; layer++) {
        /** @type {Item} */
        const passing = { node: null, layer, y: 0, height: PASSING_HEIGHT, before: [from], after: [] };
        from.after.push(passing);
        items.push(passing);
        from = passing;
      }
      from.after.push(item);
      item.before.push(from);
    }
  }
  return items;
}

/** @param {PlanNode[]} nodes */
function layersOf(nodes) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  /** @type {Map<number, number>} */
  const layers = new Map();
  /** @type {(id: number) => number} */
  const layer = (id) => {
    const known = layers.get(id);
    if (known !== undefined) return known;
    layers.set(id, 0); // should there ever be a cycle, it ends here
    const inputs = (byId.get(id)?.inputs ?? []).filter((each) => byId.has(each));
    const found = inputs.length ? Math.max(...inputs.map(layer)) + 1 : 0;
    layers.set(id, found);
    return found;
  };
  for (const node of nodes) layer(node.id);
  return layers;
}

/**
 * Bring the items of a layer nearer to their neighbours: first their order, then where they are.
 * @param {Item[]} layer
 * @param {number} gap
 * @param {(item: Item) => Item[]} neighbours
 */
function arrange(layer, gap, neighbours) {
  const wanted = new Map(layer.map((item) => [item, mean(neighbours(item).map((each) => each.y)) ?? item.y]));
  const want = (/** @type {Item} */ item) => wanted.get(item) ?? item.y;
  layer.sort((a, b) => want(a) - want(b));
  settle(layer, gap, want);
}

/**
 * Put the items of a layer as near as can be to where each wants to be, in their order, without touching: those that
 * want the same place share it, as blocks around what they want on average.
 * @param {Item[]} layer
 * @param {number} gap
 * @param {(item: Item) => number} want
 */
function settle(layer, gap, want) {
  /** @type {{wants: number[], items: Item[], offsets: number[]}[]} */
  const blocks = [];
  let offset = 0;
  for (const item of layer) {
    offset += item.height / 2;
    blocks.push({ wants: [want(item) - offset], items: [item], offsets: [offset] });
    offset += item.height / 2 + gap;
    while (blocks.length > 1 && (mean(blocks[blocks.length - 2].wants) ?? 0) > (mean(blocks[blocks.length - 1].wants) ?? 0)) {
      const last = /** @type {typeof blocks[0]} */ (blocks.pop());
      const into = blocks[blocks.length - 1];
      for (const key of /** @type {const} */ (["wants", "items", "offsets"])) into[key].push(.../** @type {any[]} */ (last[key]));
    }
  }
  for (const { wants, items, offsets } of blocks) {
    const start = mean(wants) ?? 0;
    items.forEach((item, i) => (item.y = start + offsets[i]));
  }
}

/** @param {number[]} numbers */
function mean(numbers) {
  return numbers.length ? numbers.reduce((a, b) => a + b, 0) / numbers.length : null;
}
