"""What the first training step of a convolutional network costs in Python, kernels and nodes.

    DEV=NULL python benchmarks/first_step.py     # nothing is computed: Python's own time
    DEV=CPU  python benchmarks/first_step.py     # with compiling and running

The network is that of tinygrad's beautiful_mnist, batch 128, with Adam. It prints a line for each of three steps; the
first includes making the weights. The time of this thread hardly depends on what else the machine does, but leaves out
the other threads that compile and run; what the clock says has all of it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tinygraft import Device, GlobalCounters, Tensor, nn
from tinygraft.uop.uop import live_nodes, nodes_made

BATCH = 128


class Net:
    """Two pairs of convolutions, each followed by batch norm and pooling, then one linear layer."""

    def __init__(self) -> None:
        self.layers: list[Callable[[Tensor], Tensor]] = [
            nn.Conv2d(1, 32, 5), Tensor.relu, nn.Conv2d(32, 32, 5), Tensor.relu, nn.BatchNorm(32), Tensor.max_pool2d,
            nn.Conv2d(32, 64, 3), Tensor.relu, nn.Conv2d(64, 64, 3), Tensor.relu, nn.BatchNorm(64), Tensor.max_pool2d,
            lambda x: x.flatten(1), nn.Linear(576, 10),
        ]  # fmt: skip

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of ten classes, of images (N, 1, 28, 28)."""
        return x.sequential(self.layers)


def main() -> None:
    """Run three steps and print what each took."""
    draw = random.Random(0)
    images = Tensor([draw.random() for _ in range(BATCH * 784)]).reshape(BATCH, 1, 28, 28).realize()
    labels = Tensor([draw.randrange(10) for _ in range(BATCH)]).realize()
    made = nodes_made()
    GlobalCounters.reset()
    start, clock = time.thread_time(), time.perf_counter()
    net = Net()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net))
    print(f"device {Device.DEFAULT}, batch {BATCH}")
    with Tensor.train():
        for step in range(3):
            optimizer.zero_grad()
            loss = net(images).sparse_categorical_crossentropy(labels).backward()
            loss.realize(*optimizer.schedule_step())
            seconds, wall = time.thread_time() - start, time.perf_counter() - clock
            print(
                f"step {step}: {wall:.3f} s, {seconds:.3f} s of this thread, {GlobalCounters.kernel_count} kernels, "
                f"{GlobalCounters.kernels_compiled} compiled, {nodes_made() - made} nodes made, {live_nodes()} live"
            )
            made = nodes_made()
            GlobalCounters.reset()
            start, clock = time.thread_time(), time.perf_counter()


if __name__ == "__main__":
    main()
