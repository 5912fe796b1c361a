"""What torch.nn.functional has are methods of Tensor: there is no such module here, and importing it says so."""

raise ImportError(
    "there is no tinygraft.functional\n  hint: what it has are methods of Tensor: F.relu(x) is x.relu()",
    name=__name__,
)
