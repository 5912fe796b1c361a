"""What torch.nn.init does is done by functions that make tensors: importing this module says so."""

raise ImportError(
    "there is no tinygraft.nn.init\n"
    "  hint: Tensor.kaiming_uniform, glorot_uniform, normal and the like make tensors, and "
    "w.assign(Tensor.kaiming_uniform(*w.shape)) writes one into a weight",
    name=__name__,
)
