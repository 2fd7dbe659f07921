"""Chapter 7, a fold by hand, by the engine, and refused. ch07_folding.md explains it."""
import numpy as np


# Exercise 7.1
def fold_after(A, B, W, b):
    """Returns W' and b' with W' x + b' = W (A x + B) + b: W, [out, in], reads the normalizer; A, B: [in]."""
    return W * A, b + W @ B


# Exercise 7.2
def fold_before(W, b, A, B):
    """Returns W' and b' with W' x + b' = A (W x + b) + B: the normalizer reads W, [out, in]; A, B: [out]."""
    return A[:, None] * W, A * b + B


# Exercise 7.3
def fold_model(model):
    """Folds a foldgrad.Model with a tied table untied. Returns the Folded, and how far its logits are from the model's.

    That is the largest absolute difference over the largest absolute logit of the model, for its random_inputs().
    """
    folded, inputs = model.fold(tied="untie"), model.random_inputs()
    want = model.run(inputs)["logits"].numpy()
    got = folded.model.run(inputs)["logits"].numpy()
    return folded, float(np.abs(got - want).max() / np.abs(want).max())


# Exercise 7.4
def refusals(readers, uses):
    """Returns the readers of a normalizer that forbid its fold, in their order; [] if it folds.

    readers: the operations that read the normalizer's result, as pairs (operation, weight), the weight None where there
    is none: [("linear", "q"), ("add", None)]. uses: how many operations read each weight, {"q": 1}.
    """
    return [(kind, weight) for kind, weight in readers if kind != "linear" or uses[weight] > 1]
