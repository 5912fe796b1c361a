"""ResNet-18, inference."""

from __future__ import annotations

from typing import Any

from benchmarks import data
from benchmarks.case import Builder, Case
from benchmarks.lazy.facts import NAME
from benchmarks.lazy.library import Context, Tensor, load, nn
from benchmarks.lazy.ops import replayed


class Block:
    """Two 3x3 convolutions and the way around them."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        self.conv1 = nn.Conv2d(before, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm(width)
        self.downsample: list[Any] = []
        if before != width:
            self.downsample = [nn.Conv2d(before, width, 1, stride=stride, bias=False), nn.BatchNorm(width)]

    def __call__(self, x: Tensor) -> Tensor:
        """(N, before, H, W) -> (N, width, H / stride, W / stride)."""
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + x.sequential(self.downsample)).relu()


class ResNet18:
    """(N, 3, H, W) -> a score for each class (N, 1000)."""

    def __init__(self) -> None:
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm(64)
        self.layer1 = [Block(64, 64, 1), Block(64, 64, 1)]
        self.layer2 = [Block(64, 128, 2), Block(128, 128, 1)]
        self.layer3 = [Block(128, 256, 2), Block(256, 256, 1)]
        self.layer4 = [Block(256, 512, 2), Block(512, 512, 1)]
        self.fc = nn.Linear(512, data.CLASSES)

    def __call__(self, x: Tensor) -> Tensor:
        """The scores."""
        x = self.bn1(self.conv1(x)).relu().max_pool2d((3, 3), stride=2, padding=1)
        x = x.sequential([*self.layer1, *self.layer2, *self.layer3, *self.layer4])
        return self.fc(x.mean((2, 3)))


def resnet18(batch: int) -> Case:
    """The scores of a batch of photos."""
    net = ResNet18()
    load(net, data.resnet18())
    return replayed(net, Tensor(data.photos(batch)).realize())


def resnet18_fast(batch: int) -> Case:
    """The same under PRECISION=fast, as its captured kernels keep it."""
    net = ResNet18()
    load(net, data.resnet18())

    def scores(x: Tensor) -> Tensor:
        with Context(PRECISION="fast"):
            return net(x).realize()

    return replayed(scores, Tensor(data.photos(batch)).realize())


ITEMS: dict[str, Builder] = {"resnet18": resnet18}
if NAME == "tinygraft":
    ITEMS["resnet18_fast"] = resnet18_fast
