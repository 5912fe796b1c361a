"""Functions of functions of tensors: grad, value_and_grad, vjp, jvp, jacobian, hessian, vmap and checkpoint.

    hessian(f)(x), vmap(grad(loss), in_axes=(None, 0))(weights, examples)

Each calls the function once and rewrites the graph that comes out of it; the results are lazy tensors like any other,
and can be transformed again. Arguments and results may be nested in lists, tuples and dicts.

Functions to functions (`transforms/`). A transformation calls a function once and rewrites its graph.
Derivatives all come from `vjp.py`: a Jacobian-vector product is the derivative of a vector-Jacobian product
by its vector, which is a PLACEHOLDER, a value put in later. `vmap` and Jacobians give a graph an axis of
examples by `autograd/batch.py`, a rule for each op. Arguments are stood for by nodes of their own over the
same values, so a function may look at them; only the examples of a `vmap` have no values, and reading one
raises GraphError. `checkpoint` is a FUNCTION whose derivative is that of the same graph over new nodes, which
come AFTER the gradient of its value: nothing of the first run is kept but what it read from memory
(arguments, weights, masks), and the second one happens when it is needed (`schedule/waits.py`).
"""

from tinygraft.transforms.batching import vmap
from tinygraft.transforms.derivatives import grad, hessian, jacobian, jvp, value_and_grad, vjp
from tinygraft.transforms.recompute import checkpoint

__all__ = ["checkpoint", "grad", "hessian", "jacobian", "jvp", "value_and_grad", "vjp", "vmap"]
