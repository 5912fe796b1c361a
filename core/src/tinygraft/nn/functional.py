"""What torch.nn.functional has are methods of Tensor: there is no such module here, and importing it says so."""

raise ImportError(
    "there is no tinygraft.nn.functional\n"
    "  hint: what it has are methods of Tensor: F.relu(x) is x.relu(), F.cross_entropy(x, y) is x.cross_entropy(y)",
    name=__name__,
)
