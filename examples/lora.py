"""LoRA: a frozen layer learns by a product of two small matrices that is added to it.

    adapters = add_lora(model, ["q_proj", "v_proj"], rank=8, alpha=16)
    optimizer = nn.optim.AdamW(get_parameters(adapters))     only they are trained
    save_lora(adapters, folder)                              as PEFT writes them; load_lora reads such a folder
    merge_lora(model)                                        plain layers again, with what was learned in their weights

Used by tune_llama.py. Source: Hu et al., "LoRA: low-rank adaptation of large language models", arXiv:2106.09685; names
and first values are those of the package peft.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from llama import is_count, is_scale, read_object

from tinygraft import Tensor, nn
from tinygraft.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_save

PREFIX = "base_model.model."  # what peft writes before each name


class LoraLinear:
    """x -> base_layer(x) + lora_B(lora_A(x)) * alpha / rank; lora_B starts at 0, so that nothing changes at first."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        outputs, inputs = base.weight.shape
        self.base_layer, self.rank, self.alpha = base, rank, alpha
        self.lora_A = nn.Linear(inputs, rank, bias=False)
        self.lora_B = nn.Linear(rank, outputs, bias=False)
        self.lora_B.weight = Tensor.zeros(outputs, rank).contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        """The layer's result with what was learned, (..., outputs)."""
        return self.base_layer(x) + self.lora_B(self.lora_A(x)) * (self.alpha / self.rank)

    def merged(self) -> nn.Linear:
        """The base layer, whose weight now has the product in it."""
        product = self.lora_B.weight @ self.lora_A.weight * (self.alpha / self.rank)
        self.base_layer.weight.assign(self.base_layer.weight + product).realize()
        return self.base_layer


def layers_in(obj: Any, kind: type, name: str = "") -> Iterator[tuple[str, Any, str]]:
    """The name of each object of a class in a model, the object that has it as an attribute, and that attribute."""
    items = enumerate(obj) if isinstance(obj, list) else list(vars(obj).items()) if hasattr(obj, "__dict__") else []
    for key, value in items:
        inner = f"{name}.{key}" if name else str(key)
        if isinstance(value, kind):
            yield inner, obj, str(key)
        elif not isinstance(value, Tensor):
            yield from layers_in(value, kind, inner)


def add_lora(model: Any, targets: Sequence[str], rank: int, alpha: float) -> dict[str, LoraLinear]:
    """Put a LoraLinear in place of each Linear whose last name is a target; freeze the rest. The new layers by name.

    Raises ValueError for a target that the model has not, and for a rank below 1.
    """
    if rank < 1:
        raise ValueError(f"LoRA needs a rank of at least 1, got {rank}")
    found = [each for each in layers_in(model, nn.Linear) if each[2] in targets]
    absent = set(targets) - {attribute for _, _, attribute in found}
    if absent:
        raise ValueError(f"the model has no Linear called {' or '.join(sorted(absent))}, which LoRA was to be added to")
    for parameter in get_parameters(model):
        parameter.requires_grad = False
    adapters = {}
    for name, owner, attribute in found:
        adapters[name] = LoraLinear(getattr(owner, attribute), rank, alpha)
        setattr(owner, attribute, adapters[name])
    return adapters


def merge_lora(model: Any) -> None:
    """Put plain layers back, with what was learned in their weights."""
    for _, owner, attribute in list(layers_in(model, LoraLinear)):
        setattr(owner, attribute, getattr(owner, attribute).merged())


def trained(adapters: dict[str, LoraLinear]) -> dict[str, Tensor]:
    """What is trained, and nothing of the base, by peft's names: base_model.model.NAME.lora_A.weight."""
    pairs = {name: {"lora_A": layer.lora_A, "lora_B": layer.lora_B} for name, layer in adapters.items()}
    return {PREFIX + name: tensor for name, tensor in get_state_dict(pairs).items()}


def save_lora(adapters: dict[str, LoraLinear], folder: Path) -> None:
    """Write adapter_model.safetensors and adapter_config.json, which peft reads."""
    folder.mkdir(parents=True, exist_ok=True)
    safe_save(trained(adapters), folder / "adapter_model.safetensors")
    one = next(iter(adapters.values()))
    settings = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": one.rank, "lora_alpha": one.alpha, "bias": "none",
        "target_modules": sorted({name.split(".")[-1] for name in adapters}),
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def load_lora(model: Any, folder: Path) -> dict[str, LoraLinear]:
    """Add the adapters of such a folder to a model, with what they have learned.

    Raises ValueError for a kind of adapter that this is not and for settings of wrong kinds, FileFormatError for
    tensors that do not fit.
    """
    settings = read_object(folder / "adapter_config.json")
    asked = [
        name
        for name in ("use_dora", "use_rslora", "rank_pattern", "alpha_pattern", "modules_to_save")
        if settings.get(name)
    ]
    if settings.get("peft_type") != "LORA" or settings.get("bias", "none") != "none" or asked:
        raise ValueError(
            f"{folder} has no plain LoRA adapter: it asks for {', '.join(asked) or settings.get('peft_type')}"
        )
    targets, rank, alpha = (settings.get(name) for name in ("target_modules", "r", "lora_alpha"))
    if not isinstance(targets, list) or not all(isinstance(name, str) for name in targets):
        raise ValueError(f"{folder} gives no list of names as target_modules, got {str(targets)[:80]}")
    if not is_count(rank) or rank > 1 << 16 or not is_scale(alpha):
        raise ValueError(f"{folder} needs a rank r of 1 to 65536 and a number lora_alpha, got {rank!r} and {alpha!r}")
    adapters = add_lora(model, targets, rank, alpha)
    load_state_dict(trained(adapters), safe_load(folder / "adapter_model.safetensors"))
    return adapters
