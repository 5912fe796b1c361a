"""ResNet-18, inference."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks import data
from benchmarks.case import Builder, Case
from benchmarks.with_torch.ops import called, quicker
from benchmarks.with_torch.weights import load


class Block(nn.Module):
    """Two 3x3 convolutions and the way around them."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = nn.Sequential()
        if before != width:
            self.downsample.append(nn.Conv2d(before, width, 1, stride=stride, bias=False))
            self.downsample.append(nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        """(N, before, H, W) -> (N, width, H / stride, W / stride)."""
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu_()))
        return (y + self.downsample(x)).relu_()  # type: ignore[no-any-return]


class ResNet18(nn.Module):
    """(N, 3, H, W) -> a score for each class (N, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, 512, 2), Block(512, 512, 1))
        self.fc = nn.Linear(512, data.CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """The scores."""
        x = nn.functional.max_pool2d(self.bn1(self.conv1(x)).relu_(), 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))  # type: ignore[no-any-return]


def resnet18(batch: int) -> Case:
    """The scores of a batch of photos, in the layout that makes it quicker."""

    def case(layout: torch.memory_format) -> Case:
        net = ResNet18().eval()
        load(net, data.resnet18())
        photos = torch.from_numpy(data.photos(batch)).contiguous(memory_format=layout)
        return called(net.to(memory_format=layout), photos)  # type: ignore[call-overload]

    return quicker(case(torch.contiguous_format), case(torch.channels_last))


ITEMS: dict[str, Builder] = {"resnet18": resnet18, "resnet18_fast": resnet18}
