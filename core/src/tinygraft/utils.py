"""What torch.utils has is in nn.data and nn.optim: there is no such module here, and importing it says so."""

raise ImportError(
    "there is no tinygraft.utils\n  hint: nn.data has the DataLoader, nn.optim clip_grad_norm",
    name=__name__,
)
