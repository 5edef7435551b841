"""trident-ml's first example: a perceptron learns NAND from a stream, and a request asks it for predictions.

Run it twice: the second run has nothing new to learn, and predicts by the stored model::

    python examples/storm/trident_ml_perceptron.py
    sqlite3 model.db 'SELECT weights FROM perceptron'

What changed:

- The model is a value of a state: an array of weights, which a `ReducerAggregator` changes row by row. trident-ml has a
  Java object in a ``MapState``. Here each sample counts once, and the model outlives the program.
- A prediction asks for the value of a state by `SnapshotGet`, which has no input field.
- The samples are the four rows of the truth table, over and over, where the original draws them at random.
- The record is in an embedded ZooKeeper, and Spark runs the batches: this is a program as in production.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trident_py import TridentTopology
from trident_py.operations import ReducerAggregator, SnapshotGet
from trident_py.spouts import FixedBatchSpout
from trident_py.states import SQLiteState

THRESHOLD = 0.5
LEARNING_RATE = 0.1
NAND = [(1.0, 0.0, 0.0, True), (1.0, 0.0, 1.0, True), (1.0, 1.0, 0.0, True), (1.0, 1.0, 1.0, False)]


def classify(weights: Sequence[float], features: Sequence[float]) -> bool:
    """Return whether the weighted sum of the features is above the threshold."""
    return sum(map(float.__mul__, weights, features)) > THRESHOLD


class Perceptron(ReducerAggregator[list[float]]):
    """Moves the weights by a step for each sample that they don't classify."""

    def init(self) -> list[float]:
        return [0.0, 0.0, 0.0]

    def reduce(self, curr: list[float], row: Any) -> list[float]:
        *features, label = row
        if classify(curr, features) == label:
            return curr
        step = LEARNING_RATE if label else -LEARNING_RATE
        return [weight + step * feature for weight, feature in zip(curr, features, strict=True)]


topology = TridentTopology("nand")
classifier = topology.new_stream(
    "nandsamples", FixedBatchSpout("bias double, x1 double, x2 double, label boolean", 10, *NAND * 25)
).persistent_aggregate(SQLiteState("model.db", table="perceptron"), Perceptron(), "weights array<double>")
(
    topology.new_drpc_stream("predict")
    .state_query(classifier, [], SnapshotGet(), "weights array<double>")
    .map(lambda row: (classify(row.weights, [float(value) for value in row.args.split()]),), "prediction boolean")
)

if __name__ == "__main__":
    with topology.start() as query:
        query.process_all_available()
        for bias, x1, x2, _ in NAND:
            print(f"{x1:.0f} nand {x2:.0f}:", query.execute("predict", f"{bias} {x1} {x2}"))
