// @ts-check
/** Where the nodes of a plan go: layers from left to right, in an order in which few edges cross. Pure. */

/** @typedef {import("./types.js").PlanNode} PlanNode */
/** @typedef {{node: PlanNode, layer: number, row: number}} Placed */

const SWEEPS = 4;

/**
 * Place each node right of all its inputs; `row` counts from above, with fractions where a layer has fewer nodes.
 * @param {PlanNode[]} nodes
 * @returns {Placed[]}
 */
export function layered(nodes) {
  const layerOf = layersOf(nodes);
  /** @type {PlanNode[][]} */
  const layers = [];
  for (const node of nodes) (layers[layerOf.get(node.id) ?? 0] ??= []).push(node);
  const consumers = consumersOf(nodes);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (let i = 1; i < layers.length; i++) order(layers[i], layers, (node) => node.inputs);
    for (let i = layers.length - 2; i >= 0; i--) order(layers[i], layers, (node) => consumers.get(node.id) ?? []);
  }
  const highest = Math.max(0, ...layers.map((layer) => layer.length));
  return layers.flatMap((layer, i) => layer.map((node, row) => ({ node, layer: i, row: row + (highest - layer.length) / 2 })));
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

/** @param {PlanNode[]} nodes */
function consumersOf(nodes) {
  /** @type {Map<number, number[]>} */
  const consumers = new Map();
  for (const node of nodes) {
    for (const input of node.inputs) consumers.set(input, [...(consumers.get(input) ?? []), node.id]);
  }
  return consumers;
}

/**
 * Order a layer by where the neighbours of each node are.
 * @param {PlanNode[]} layer
 * @param {PlanNode[][]} layers
 * @param {(node: PlanNode) => number[]} neighbours
 */
function order(layer, layers, neighbours) {
  /** @type {Map<number, number>} */
  const places = new Map();
  for (const each of layers) each.forEach((node, row) => places.set(node.id, row - (each.length - 1) / 2));
  const middle = (/** @type {PlanNode} */ node) => {
    const known = neighbours(node).flatMap((id) => places.get(id) ?? []);
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : (places.get(node.id) ?? 0);
  };
  const middles = new Map(layer.map((node) => [node, middle(node)]));
  layer.sort((a, b) => (middles.get(a) ?? 0) - (middles.get(b) ?? 0));
}
