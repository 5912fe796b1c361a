"""What is measured, and the bars that it has to reach.

An item's name is its kind and its sizes: matmul:1024, conv:8x64x56. A bar is the least ratio of a peer's time to ours;
at a neighbouring odd size the bar is 0.8 of it. A limit is the longest that ours may take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

MI = 1 << 20
ODD = 0.8

Sizes = tuple[int, ...]

# The tolerance of two results, as a fraction of |theirs| + the root mean square of theirs
FLOAT32 = 1e-4  # one operation
BFLOAT16 = 2e-2
MODEL = 1e-3  # a whole network in float32, or the losses of three training steps
EXACT = 0.0


@dataclass(frozen=True)
class Item:
    """One row of the report.

    how: "turns" (processes take turns), or in fresh processes "import" (of the library, or of the names that a script
    needs), and of what `once.py` measures "first", "made", "python" and "memory"; of is then the kind of item that it
    runs. cache: whether the disk caches of fresh processes
    are empty ("cold") or filled ("warm"). bars: peer -> ratio. limit: milliseconds. kernels: at most, exactly where
    exact is set. flops and bytes: the work. alone: peers have nothing like it.
    """

    kind: str
    sizes: Sizes = ()
    bars: Mapping[str, float] = field(default_factory=dict)
    limit: float | None = None
    kernels: int | None = None
    exact: bool = False
    tolerance: float = FLOAT32
    flops: float = 0
    bytes: float = 0
    how: str = "turns"
    of: str = ""
    cache: str = "cold"
    alone: bool = False
    odd: bool = False

    @property
    def name(self) -> str:
        """The kind and the sizes, those that are many Mi as such."""
        sizes = "x".join(f"{n // MI}Mi" if n % MI == 0 and n else str(n) for n in self.sizes)
        return f"{self.kind}:{sizes}" if sizes else self.kind


Make = Callable[..., Item]


def both(make: Make, even: Sizes, odd: Sizes = (), **by_peer: float) -> list[Item]:
    """Return an item with its bars, `by_peer`, and the same at a neighbouring odd size with 0.8 of them."""
    bars = {name.replace("_", "+"): bar for name, bar in by_peer.items()}
    found = [make(*even, bars=bars)]
    if odd:
        found.append(make(*odd, bars={peer: round(ODD * bar, 3) for peer, bar in bars.items()}, odd=True))
    return found


def matmul(n: int, **more: Any) -> Item:
    """n x n float32."""
    return Item("matmul", (n,), flops=2 * n**3, kernels=3, **more)


def matmul_bf16(n: int, **more: Any) -> Item:
    """n x n bfloat16."""
    return Item("matmul_bf16", (n,), flops=2 * n**3, kernels=3, tolerance=BFLOAT16, **more)


def matrix(kind: str, passes: int, kernels: int) -> Make:
    """An operation on a float32 matrix that moves it so many times."""

    def make(rows: int, columns: int, **more: Any) -> Item:
        moved = 4 * passes * rows * columns
        return Item(kind, (rows, columns), bytes=moved, kernels=kernels, **more)

    return make


def attention(kind: str, products: int, kernels: int) -> Make:
    """Causal attention of 12 heads of size 64: so many products of length by length by 64, of which half are seen."""

    def make(length: int, **more: Any) -> Item:
        return Item(kind, (length,), flops=products * 12 * length * (length + 1) * 64, kernels=kernels, **more)

    return make


def chain(n: int, **more: Any) -> Item:
    """n float32, read and written."""
    return Item("chain", (n,), bytes=8 * n, kernels=1, **more)


def conv(batch: int, channels: int, size: int, **more: Any) -> Item:
    """3x3, padded by 1."""
    flops = 18 * batch * channels**2 * size**2
    return Item("conv", (batch, channels, size), flops=flops, kernels=4, **more)


def depthwise(batch: int, channels: int, size: int, stride: int, **more: Any) -> Item:
    """3x3 by channel, padded by 1."""
    out = -(-size // stride)
    moved = 4 * batch * channels * (size**2 + out**2)
    return Item("depthwise", (batch, channels, size, stride), bytes=moved, kernels=1, **more)


def conv_transpose(batch: int, channels: int, size: int, kernel: int, **more: Any) -> Item:
    """Stride 2, padded by 1: each input is multiplied by each weight."""
    flops = 2 * batch * channels**2 * size**2 * kernel**2
    return Item("conv_transpose", (batch, channels, size, kernel), flops=flops, kernels=6, **more)


def resnet18(batch: int, **more: Any) -> Item:
    """1.81 billion multiplications and additions an image."""
    return Item("resnet18", (batch,), flops=3.63e9 * batch, tolerance=MODEL, **more)


def resnet18_fast(batch: int, **more: Any) -> Item:
    """The same beside peers that have one precision."""
    return Item("resnet18_fast", (batch,), flops=3.63e9 * batch, tolerance=MODEL, **more)


def mnist_train(batch: int, **more: Any) -> Item:
    """Forward and backward."""
    return Item("mnist_train", (batch,), tolerance=MODEL, kernels=80, **more)


def gpt2(kind: str, work: int, tolerance: float = MODEL) -> Make:
    """124 million weights, each used once in a token's forward; so many times that in all."""

    def make(*sizes: int, **more: Any) -> Item:
        flops = 2 * 124e6 * work * prod(sizes)
        return Item(kind, sizes, flops=flops, tolerance=tolerance, **more)

    return make


LAYERS = [((64, 56), (63, 55)), ((128, 28), (127, 27)), ((256, 14), (255, 13)), ((512, 7), (511, 7))]

# what is no loop nest: kind, sizes, bar, launches
ROUTINES: list[tuple[str, Sizes, float, int]] = [
    ("sort", (1, MI), 1.0, 1),
    ("sort", (1000, 1000), 1.0, 1),
    ("argsort", (1, MI), 0.83, 1),
    ("topk", (8, 50257), 0.83, 1),
    ("histc", (4 * MI,), 0.83, 3),
    ("cholesky", (256,), 0.83, 1),
    ("solve", (256,), 0.83, 2),
    ("inverse", (256,), 0.83, 1),
    ("svdvals", (128,), 0.83, 1),
    ("eigvalsh", (128,), 0.83, 1),
    ("rfft", (1024, 4096), 0.83, 2),
    ("unique", (100_000,), 0.83, 3),
    ("cumsum", (1, 4 * MI), 0.83, 9),
    ("svd", (128,), 0.83, 1),
    ("qr", (256,), 0.83, 2),
    ("eigh", (128,), 0.83, 2),
]
ITEMS: list[Item] = [
    *both(matmul, (256,)),
    *both(matmul, (512,), (509,), torch=0.8),
    *both(matmul, (1024,), (1021,), torch=0.8),
    *both(matmul, (2048,), (2039,), torch=0.8),
    *both(matmul, (4096,)),
    *both(matmul_bf16, (512,)),
    *both(matmul_bf16, (1024,), (1021,), torch=0.8),
    *both(matmul_bf16, (2048,)),
    *both(chain, (16 * MI,), (16 * MI - 3,), torch=10, torch_jemalloc=1.5),
    *both(chain, (64 * MI,)),
    *(item for kind in ("sum0", "sum1", "mean0", "mean1")
      for item in both(matrix(kind, 1, 2), (4096, 4096), (4093, 4099), torch=0.9)),
    *both(matrix("softmax", 2, 1), (4096, 4096), (4093, 4099), torch=3),
    *both(matrix("layernorm", 2, 1), (8192, 1024), (8193, 1025), torch=3),
    *(item for batch in (1, 8) for even, odd in LAYERS
      for item in both(conv, (batch, *even), (batch, *odd), torch=0.7)),
    *both(depthwise, (8, 64, 56, 1), (8, 63, 55, 1), torch=1),
    *both(depthwise, (8, 96, 56, 2), (8, 95, 55, 2), torch=1),
    *both(conv_transpose, (8, 64, 28, 4), (8, 63, 27, 4), torch=1),
    *both(conv_transpose, (8, 64, 28, 3), (8, 63, 27, 3), torch=1),
    *(item for even, odd in ((1024, 1023), (4096, 4097))
      for item in both(attention("attention", 2, 1), (even,), (odd,), torch=1.12)),
    *(item for even, odd in ((1024, 1023), (4096, 4097))
      for item in both(attention("attention_train", 7, 4), (even,), (odd,), torch=1.12)),
    *both(resnet18, (1,), torch=1),
    *both(resnet18, (8,), (7,), torch=1, onnxruntime=1),
    *both(resnet18_fast, (8,), (7,), onnxruntime=1.11),
    *both(mnist_train, (128,), (127,), torch=0.9, torch_compile=1.18, tinygrad=8),
    *both(mnist_train, (512,), (511,), torch=0.9, torch_compile=1.18, tinygrad=8),
    *both(gpt2("gpt2", 1), (1, 256), (1, 255), torch=0.9),
    *both(gpt2("gpt2_train", 3), (2, 256), (2, 255), torch=0.8),
    Item("gpt2_decode", bars={"torch": 0.9}, tolerance=MODEL, flops=2 * 124e6, bytes=4 * 124e6),
    *(Item(kind, sizes, bars={"torch": bar}, kernels=count, tolerance=MODEL) for kind, sizes, bar, count in ROUTINES),
    Item("replay", (100,), limit=0.140, kernels=100, exact=True),
    Item("replay_empty", (100,), limit=0.050, kernels=100, exact=True, tolerance=EXACT),
    Item("tiny", limit=0.045, kernels=1, tolerance=EXACT),
    Item("policy", kernels=4),
    Item("policy_train", (32,), kernels=24, tolerance=MODEL),
    # a loop over a Python number may take 1.3 times as long with numbers that vary as with one that stays
    *(Item(f"{kind}_{how}", (count,), kernels=count, exact=True, tolerance=EXACT, alone=True)
      for kind, count in (("scalar", 30), ("slice", 50), ("row", 200), ("write", 64), ("rate", 30))
      for how in ("fixed", "varied")),
    Item("mnist_unjitted", (128,), limit=60, kernels=80, alone=True),
    Item("import", how="import", limit=60),
    Item("import_names", how="import", of="names"),
    Item("first_mnist_cold", (128,), how="made", of="mnist_first", bars={"jax": 1.5}, limit=1500, tolerance=MODEL),
    Item("first_mnist_python", (128,), how="python", of="mnist_first", limit=500, alone=True),
    Item("first_mnist_warm", (128,), how="made", of="mnist_first", cache="warm", limit=400, tolerance=MODEL),
    Item("first_gpt2_cold", (1, 256), how="first", of="gpt2", limit=2000, tolerance=MODEL),
    Item("first_gpt2_warm", (1, 256), how="first", of="gpt2", cache="warm", limit=600, tolerance=MODEL),
    Item("memory_mnist", (128,), how="memory", of="mnist_memory", bars={"torch": 1}, tolerance=MODEL),
    Item("memory_attention", (4096,), how="memory", of="attention", bars={"torch": 1}),
    Item("memory_attention_train", (4096,), how="memory", of="attention_train", bars={"torch": 1}),
    Item("memory_gpt2", (2, 256), how="memory", of="gpt2_train", bars={"torch": 1}, tolerance=MODEL),
]  # fmt: skip


def find(names: str) -> list[Item]:
    """Return the items of comma-separated names: a kind stands for all its sizes, kind:sizes for one item.

    Raises ValueError, with the known ones, for a name of none.
    """
    found: list[Item] = []
    for name in filter(None, (name.strip() for name in names.split(","))):
        named = [item for item in ITEMS if name in (item.kind, item.name)]
        if not named:
            kind = name.partition(":")[0]
            known = [item.name for item in ITEMS if item.kind == kind]
            hint = f"of that kind there are {', '.join(known)}" if known else f"the kinds are {', '.join(kinds())}"
            raise ValueError(f"there is no item {name!r}; {hint}")
        found += [item for item in named if item not in found]
    return found


# One of each sort of work, quick ones first
FEW = (
    "import", "tiny", "replay:100", "matmul:1024", "matmul_bf16:512", "chain:16Mi", "sum1:4096x4096",
    "softmax:4096x4096", "layernorm:8192x1024", "conv:1x64x56", "resnet18:1", "mnist_train:128",
)  # fmt: skip


def few() -> list[Item]:
    """The items of --quick: one of each sort of work."""
    return find(",".join(FEW))


def short() -> list[Item]:
    """The items of --short: those of --quick, then the others but odd sizes, in order."""
    first = few()
    return first + [item for item in ITEMS if item not in first and not item.odd]


def kinds() -> list[str]:
    """The kinds of items, in order."""
    return list(dict.fromkeys(item.kind for item in ITEMS))
