"""The scripts of examples/ in PyTorch: for each a function that makes a step, which trains on the same data.

    TWINS[name]() -> step

A step takes nothing and returns a number that depends on all that it computed. Networks, batches, losses, optimizers,
schedules, clipping and moving averages are those of the scripts; the data are too, so that both do the same work.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as f

Step = Callable[[], float]


class Average:
    """A moving average of parameters, by few calls for all of them."""

    def __init__(self, parameters: Iterable[Tensor], decay: float) -> None:
        self.parameters, self.decay = list(parameters), decay
        self.values = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the parameters."""
        torch._foreach_lerp_(self.values, self.parameters, 1 - self.decay)


class Updates:
    """What follows a backward in the scripts: clipping, AdamW, a one-cycle rate, a moving average."""

    def __init__(self, parameters: Iterable[Tensor], rate: float, steps: int, norm: float, decay: float,
                 weight_decay: float = 0.01) -> None:  # fmt: skip
        self.parameters, self.norm = list(parameters), norm
        self.optimizer = torch.optim.AdamW(self.parameters, lr=rate, weight_decay=weight_decay)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, max_lr=rate, total_steps=steps)
        self.average = Average(self.parameters, decay)

    def __call__(self, loss: Tensor) -> float:
        """One step down the gradient of `loss`; returns it."""
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, self.norm)
        self.optimizer.step()
        self.schedule.step()
        self.average.update()
        return loss.item()


# Digits


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.ReLU(),
                         nn.Dropout(0.1), nn.Linear(256, 10))  # fmt: skip


def _convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs))


def _cnn() -> nn.Module:
    first, second, third = _convolution(1, 32), _convolution(32, 32), _convolution(32, 64)
    body = (first, nn.ReLU(), second, nn.ReLU(), nn.MaxPool2d(2), third, nn.ReLU())
    return nn.Sequential(*body, nn.Flatten(), nn.Dropout(0.2), nn.Linear(1024, 10))


class Residual(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, width: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.first, self.second = _convolution(width, out, stride), _convolution(out, out)
        self.around = nn.Conv2d(width, out, 1, stride, bias=False) if width != out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways."""
        return (self.second(self.first(x).relu()) + self.around(x)).relu()


def _resnet() -> nn.Module:
    return nn.Sequential(_convolution(1, 24), nn.ReLU(), Residual(24, 24), Residual(24, 48, 2), Residual(48, 48),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10))  # fmt: skip


class Vit(nn.Module):
    """Patches, positions, and three blocks."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patches, self.positions = nn.Conv2d(1, width, 2, 2), nn.Parameter(torch.randn(1, 16, width) * 0.5)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, f.gelu, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.last(self.norm(self.blocks(x)).mean(1))


def _augmented(x: Tensor) -> Tensor:
    n = len(x)
    angle, scale = (torch.rand(n) * 2 - 1) * math.radians(12), torch.rand(n) * 0.2 + 0.9
    shift, cos, sin = torch.rand(n, 2) * 0.5 - 0.25, angle.cos() * scale, angle.sin() * scale
    rows = torch.stack([torch.stack([cos, -sin, shift[:, 0]], 1), torch.stack([sin, cos, shift[:, 1]], 1)], 1)
    return f.grid_sample(x, f.affine_grid(rows, [n, 1, 8, 8], align_corners=False), align_corners=False)


def _digits() -> tuple[Tensor, Tensor]:
    import train_digits

    images, labels = train_digits.digits()[:2]
    return torch.from_numpy(images.numpy()), torch.from_numpy(labels.numpy()).long()


def classifier(kind: str) -> Step:
    """A step of classify_digits.py."""
    images, labels = _digits()
    model = {"mlp": _mlp, "cnn": _cnn, "resnet": _resnet, "vit": Vit}[kind]()
    update, order = Updates(model.parameters(), 3e-3, 10_000, 1.0, 0.99, 0.02), np.random.default_rng(0)

    def step() -> float:
        chosen = torch.from_numpy(order.permutation(len(images))[:64])
        return update(f.cross_entropy(model(_augmented(images[chosen])), labels[chosen], label_smoothing=0.05))

    return step


# Generated digits


def _layers(*sizes: int, act: Callable[[], nn.Module] = nn.SiLU) -> nn.Sequential:
    found: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        found += [nn.Linear(inputs, outputs), act()]
    return nn.Sequential(*found[:-1])


def vae() -> Step:
    """A step of generate_vae.py."""
    images, labels = _digits()
    encoder, decoder = _layers(74, 256, 256, 12), _layers(16, 256, 256, 64)
    update = Updates([*encoder.parameters(), *decoder.parameters()], 2e-3, 10_000, 5.0, 0.99)

    def step() -> float:
        chosen = torch.randint(len(images), (128,))
        x, digit = images[chosen].flatten(1), f.one_hot(labels[chosen], 10).float()
        mean, log_variance = encoder(torch.cat([x, digit], 1)).chunk(2, 1)
        code = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        drawn = decoder(torch.cat([code, digit], 1))
        cost = f.binary_cross_entropy_with_logits(drawn, x, reduction="sum")
        return update((cost + (mean.square() + log_variance.exp() - log_variance - 1).sum() / 2) / 128)

    return step


def gan() -> Step:
    """A step of generate_gan.py: one of the critic, one of the generator."""
    images, labels = _digits()
    drawer = nn.Sequential(nn.Linear(26, 256), nn.LayerNorm(256), nn.SiLU(), nn.Linear(256, 256), nn.LayerNorm(256),
                           nn.SiLU(), nn.Linear(256, 64), nn.Sigmoid())  # fmt: skip
    critic = _layers(64, 256, 256, 10, act=lambda: nn.LeakyReLU(0.2))
    draws, judges = (torch.optim.Adam(each.parameters(), 1e-3, (0.5, 0.99)) for each in (drawer, critic))
    average = Average(drawer.parameters(), 0.998)
    schedules = [torch.optim.lr_scheduler.LinearLR(each, 1.0, 0.05, 4000) for each in (draws, judges)]

    def score(image: Tensor, hot: Tensor) -> Tensor:
        return (critic(image.flatten(1)) * hot).sum(1)

    def step() -> float:
        chosen = torch.randint(len(images), (64,))
        real, hot = images[chosen].requires_grad_(), f.one_hot(labels[chosen], 10).float()
        judges.zero_grad()
        found = score(real, hot)
        (slope,) = torch.autograd.grad(found.sum(), real, create_graph=True)
        fake = drawer(torch.cat([torch.randn(64, 16), hot], 1)).detach()
        loss = f.softplus(-found).mean() + f.softplus(score(fake, hot)).mean()
        (loss + slope.square().sum((1, 2, 3)).mean() * 0.05).backward()
        judges.step()
        draws.zero_grad()
        answer = f.softplus(-score(drawer(torch.cat([torch.randn(64, 16), hot], 1)), hot)).mean()
        answer.backward()
        draws.step()
        average.update()
        for schedule in schedules:
            schedule.step()
        return loss.item() + answer.item()

    return step


class Denoiser(nn.Module):
    """Says which noise is in an image."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.amount, self.digit = nn.Linear(32, width), nn.Embedding(11, width)
        self.first, self.last = nn.Linear(64, width), nn.Linear(width, 64)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.shifts = nn.ModuleList([nn.Linear(width, 2 * width) for _ in range(3)])
        self.ups, self.downs = (nn.ModuleList([nn.Linear(width, width) for _ in range(3)]) for _ in range(2))

    def forward(self, noisy: Tensor, time: Tensor, digit: Tensor) -> Tensor:
        """(N, 64)."""
        angles = time.unsqueeze(1) * torch.arange(1, 17) * math.pi
        asked = f.silu(self.amount(torch.cat([angles.sin(), angles.cos()], 1)) + self.digit(digit))
        x = self.first(noisy)
        for shifts, up, down in zip(self.shifts, self.ups, self.downs, strict=True):
            scale, shift = shifts(asked).chunk(2, 1)
            x = x + down(f.silu(up(self.norm(x) * (1 + scale) + shift)))
        return self.last(x)


def diffusion() -> Step:
    """A step of generate_diffusion.py."""
    images, labels = _digits()
    model, pixels = Denoiser(), images.flatten(1) * 2 - 1
    update = Updates(model.parameters(), 2e-3, 10_000, 1.0, 0.995)

    def step() -> float:
        chosen, time, noise = torch.randint(len(pixels), (128,)), torch.rand(128), torch.randn(128, 64)
        angle = time.unsqueeze(1) * (math.pi / 2 * 0.99)
        digit = torch.where(torch.rand(128) < 0.1, 10, labels[chosen])
        mixed = pixels[chosen] * angle.cos() + noise * angle.sin()
        return update((model(mixed, time, digit) - noise).square().mean())

    return step


# Texts


class GPT(nn.Module):
    """char_gpt.py's model."""

    def __init__(self, size: int, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.characters, self.places = heads, nn.Embedding(size, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList([
            nn.ModuleList([nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width),
                           nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)])
            for _ in range(2)
        ])  # fmt: skip
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        n, length = x.shape
        x = self.characters(x) + self.places(torch.arange(length))
        for norm1, attend, project, norm2, expand, contract in self.blocks:
            q, k, v = attend(norm1(x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + project(mixed.transpose(1, 2).reshape(n, length, -1))
            x = x + contract(f.gelu(expand(norm2(x)), approximate="tanh"))
        return self.scores(self.norm(x))


def char_gpt() -> Step:
    """A step of char_gpt.py: two parts of 16 windows of 64."""
    import char_text

    text = char_text.load()
    model, order = GPT(len(text.characters)), np.random.default_rng(0)
    groups = [{"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]  # fmt: skip
    optimizer = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 600)

    def step() -> float:
        starts = order.integers(0, len(text.train) - 65, (2, 16))
        batch = torch.from_numpy(char_text.windows(text.train, starts, 65)).long()
        optimizer.zero_grad()
        total = 0.0
        for rows in batch:
            loss = f.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()) / 2
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return total

    return step


def char_lstm() -> Step:
    """A step of char_lstm.py: 32 rows of 32 characters, from the state before."""
    import char_text

    text = char_text.load()
    size = len(text.characters)
    model = nn.ModuleList([nn.Embedding(size, 64), nn.LSTM(64, 128, batch_first=True), nn.Linear(128, size)])
    optimizer, state = torch.optim.Adam(model.parameters(), lr=3e-3), [torch.zeros(1, 32, 128), torch.zeros(1, 32, 128)]
    side_by_side, number = text.train[: len(text.train) // 32 * 32].reshape(32, -1), [0]

    def step() -> float:
        start = number[0] * 32 % (side_by_side.shape[1] - 33)
        number[0] += 1
        rows = torch.from_numpy(np.ascontiguousarray(side_by_side[:, start : start + 33])).long()
        characters, lstm, scores = model
        optimizer.zero_grad()
        output, (h, c) = lstm(characters(rows[:, :-1]), (state[0], state[1]))
        loss = f.cross_entropy(scores(output).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        state[:] = [h.detach(), c.detach()]
        return loss.item()

    return step


# Llama, with the sizes that tune_llama.py makes


class LlamaLayer(nn.Module):
    """Grouped attention with rotary positions, then a gated network; `rank` adds LoRA to six of the layers."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        sizes = {"q": (64, 64), "k": (64, 32), "v": (64, 32), "o": (64, 64), "gate": (64, 176), "up": (64, 176),
                 "down": (176, 64)}  # fmt: skip
        self.linear = nn.ModuleDict({name: nn.Linear(*size, bias=False) for name, size in sizes.items()})
        self.first, self.second = nn.ModuleDict(), nn.ModuleDict()
        for name, (inputs, outputs) in sizes.items():
            if rank and name != "gate":
                self.first[name] = nn.Linear(inputs, rank, bias=False)
                self.second[name] = nn.Linear(rank, outputs, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(64, 1e-6), nn.RMSNorm(64, 1e-6)

    def through(self, name: str, x: Tensor) -> Tensor:
        """A layer, with what LoRA adds."""
        found = self.linear[name](x)
        return found + self.second[name](self.first[name](x)) * 2.0 if name in self.first else found

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: list[Tensor] | None, start: int) -> Tensor:
        """The next x; with a cache x are the positions from `start` on."""
        n, length, _ = x.shape
        near = self.norm1(x)
        q, k, v = (self.through(name, near).view(n, length, -1, 16).transpose(1, 2) for name in "qkv")
        q, k = (each * cos + torch.cat([-each[..., 8:], each[..., :8]], -1) * sin for each in (q, k))
        if cache is not None:
            cache[0][:, :, start : start + length], cache[1][:, :, start : start + length] = k, v
            k, v = (each[:, :, : start + length] for each in cache)
        mixed = f.scaled_dot_product_attention(q, k, v, is_causal=length > 1, enable_gqa=True)
        x = x + self.through("o", mixed.transpose(1, 2).reshape(n, length, 64))
        near = self.norm2(x)
        return x + self.through("down", f.silu(self.through("gate", near)) * self.through("up", near))


class Llama(nn.Module):
    """Three layers of width 64, 128 tokens."""

    def __init__(self, rank: int = 0) -> None:
        super().__init__()
        self.tokens, self.norm, self.head = nn.Embedding(128, 64), nn.RMSNorm(64, 1e-6), nn.Linear(64, 128, bias=False)
        self.layers = nn.ModuleList([LlamaLayer(rank) for _ in range(3)])
        angles = torch.arange(256)[:, None] / 10000 ** (torch.arange(0, 16, 2) / 16)
        self.cos, self.sin = (torch.cat([each, each], -1) for each in (angles.cos(), angles.sin()))

    def forward(self, tokens: Tensor, caches: list[list[Tensor]] | None = None, start: int = 0) -> Tensor:
        """Scores."""
        here = slice(start, start + tokens.shape[1])
        x = self.tokens(tokens)
        for number, layer in enumerate(self.layers):
            x = layer(x, self.cos[here], self.sin[here], None if caches is None else caches[number], start)
        return self.head(self.norm(x))


def lora() -> Step:
    """A step of tune_llama.py's fine-tuning: 64 questions, rank 8."""
    import tune_llama

    pairs = [(str(number), tune_llama.german(number)) for number in range(1000)]
    inputs, labels = (torch.from_numpy(each.numpy()).long() for each in
                      tune_llama.as_tokens(pairs, tune_llama.Bytes(), 10))  # fmt: skip
    model, order = Llama(8), np.random.default_rng(0)
    learning = [p for name, p in model.named_parameters() if ".first." in name or ".second." in name]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for parameter in learning:
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(learning, lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, 10_000)

    def step() -> float:
        chosen = torch.from_numpy(order.integers(len(inputs), size=64))
        optimizer.zero_grad()
        loss = f.cross_entropy(model(inputs[chosen]).flatten(0, 1), labels[chosen].flatten(),
                               ignore_index=tune_llama.IGNORED)  # fmt: skip
        loss.backward()
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()
        schedule.step()
        return loss.item()

    return step


def generation() -> Step:
    """A token of llama.py's Generator, with a cache of 101 positions."""
    model, at = Llama(), [0]
    caches = [[torch.zeros(1, 2, 101, 16), torch.zeros(1, 2, 101, 16)] for _ in model.layers]

    @torch.no_grad()
    def step() -> float:
        at[0] = (at[0] + 1) % 100
        return float(model(torch.tensor([[1]]), caches, at[0])[0, -1].argmax())

    return step


class Agent:
    """play_cart_pole.py's agent, for the same loop around it."""

    def __init__(self, updates: int) -> None:
        self.body, self.actor, self.critic = _layers(4, 64, 64, 1, act=nn.Tanh)[:4], nn.Linear(64, 2), nn.Linear(64, 1)
        self.network = nn.ModuleList([self.body, self.actor, self.critic])
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=2e-3)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.01, updates)

    def scored(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and the return that is expected."""
        x = self.body(observations)
        return self.actor(x), self.critic(x).squeeze(-1)

    @torch.no_grad()
    def act(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A push for each observation, the log of its probability, the return expected."""
        scores, values = self.scored(observations)
        drawn = (scores - (-torch.rand_like(scores).log()).log()).argmax(1)
        return drawn, scores.log_softmax(1).gather(1, drawn[:, None])[:, 0], values

    def update(self, observations: Tensor, actions: Tensor, chances: Tensor, advantages: Tensor, returns: Tensor,
               lived: Tensor) -> None:  # fmt: skip
        """One step of gradient descent."""
        self.optimizer.zero_grad()
        scores, values = self.scored(observations)
        ratio = (scores.log_softmax(1).gather(1, actions[:, None])[:, 0] - chances).exp()
        gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        losses = 0.5 * (returns - values).square() - gain
        ((losses * lived).sum() / lived.sum()).backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 0.5)
        self.optimizer.step()


TWINS: dict[str, Callable[[], Step]] = {
    **{kind: functools.partial(classifier, kind) for kind in ("mlp", "cnn", "resnet", "vit")},
    "vae": vae, "gan": gan, "diffusion": diffusion, "char_gpt": char_gpt, "char_lstm": char_lstm,
    "lora": lora, "generation": generation,
}  # fmt: skip
