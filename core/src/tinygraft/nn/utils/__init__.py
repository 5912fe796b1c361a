"""What torch.nn.utils has is elsewhere: importing this module says where."""

raise ImportError(
    "there is no tinygraft.nn.utils\n"
    "  hint: nn.optim has clip_grad_norm and clip_grad_value; lstm(x, lengths=lengths) needs no packed sequence",
    name=__name__,
)
