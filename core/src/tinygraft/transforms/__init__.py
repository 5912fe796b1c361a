"""Functions of functions of tensors: grad, value_and_grad, vjp, jvp, jacobian, hessian, vmap and checkpoint.

    hessian(f)(x), vmap(grad(loss), in_axes=(None, 0))(weights, examples)

Each calls the function once and rewrites the graph that comes out of it; the results are lazy tensors like any other,
and can be transformed again. Arguments and results may be nested in lists, tuples and dicts.

Functions to functions (`transforms/`). A transformation calls a function once and rewrites its graph.
Derivatives all come from `vjp.py`: a Jacobian-vector product is the derivative of a vector-Jacobian product
by its vector, which is a PLACEHOLDER, a value put in later. `vmap` and Jacobians give a graph an axis of
examples by `autograd/batch.py`, a rule for each op. Inside the function each argument is a node of its own over the
same value, so the function may read it; only the examples of a `vmap` have no values, and reading one
raises GraphError. `checkpoint` is a FUNCTION whose derivative is that of the same graph over new nodes, which
come AFTER the gradient of its value: of the first run only the memory that it read stays live (arguments, weights,
masks), and the second run happens when the gradient needs it (`schedule/waits.py`).
"""

from tinygraft.transforms.batching import vmap
from tinygraft.transforms.derivatives import grad, hessian, jacobian, jvp, value_and_grad, vjp
from tinygraft.transforms.recompute import checkpoint

__all__ = ["checkpoint", "grad", "hessian", "jacobian", "jvp", "value_and_grad", "vjp", "vmap"]
