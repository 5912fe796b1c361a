"""Functions of functions of tensors: grad, value_and_grad, vjp, jvp, jacobian, hessian, vmap and checkpoint.

    hessian(f)(x), vmap(grad(loss), in_axes=(None, 0))(weights, examples)

Each calls the function once and rewrites the graph that comes out of it; the results are lazy tensors like any other,
and can be transformed again. Arguments and results may be nested in lists, tuples and dicts.
"""

from tinygraft.transforms.batching import vmap
from tinygraft.transforms.derivatives import grad, hessian, jacobian, jvp, value_and_grad, vjp
from tinygraft.transforms.recompute import checkpoint

__all__ = ["checkpoint", "grad", "hessian", "jacobian", "jvp", "value_and_grad", "vjp", "vmap"]
