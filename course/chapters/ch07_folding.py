"""Chapter 7: folds by hand and by the engine, and refusals. Read ch07_folding.md first."""
import numpy as np


# Exercise 7.1
def fold_after(A, B, W, b):
    """Returns W' and b' with W' x + b' = W (A x + B) + b. W [out, in] reads the normalizer; A and B are [in]."""
    return W * A, b + W @ B


# Exercise 7.2
def fold_before(W, b, A, B):
    """Returns W' and b' with W' x + b' = A (W x + b) + B. The normalizer reads W [out, in]; A and B are [out]."""
    return A[:, None] * W, A * b + B


# Exercise 7.3
def fold_model(model):
    """Folds a foldgrad.Model and unties its tied table. Returns the Folded and the relative difference of the logits.

    The relative difference is the largest absolute difference, divided by the model's largest absolute logit, for the
    inputs that random_inputs() returns.
    """
    folded, inputs = model.fold(tied="untie"), model.random_inputs()
    want = model.run(inputs)["logits"].numpy()
    got = folded.model.run(inputs)["logits"].numpy()
    return folded, float(np.abs(got - want).max() / np.abs(want).max())


# Exercise 7.4
def refusals(readers, uses):
    """Returns the readers that prevent folding a normalizer, in the given order, or [] if it can be folded.

    `readers` has a pair (operation, weight) for each operation that reads the normalizer's result, as in
    [("linear", "q"), ("add", None)]. The weight is None if the operation has no weight. `uses` maps
    each weight to the number of operations that read it, as in {"q": 1}.
    """
    return [(kind, weight) for kind, weight in readers if kind != "linear" or uses[weight] > 1]
