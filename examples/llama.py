"""A model of Llama's kind from its files, and greedy generation with a cache of keys and values.

    config, tensors = read("model.safetensors")   beside its config.json; also .index.json of several files, or a .gguf
    model = Llama(config)
    load_state_dict(model, tensors)
    Generator(model)([1, 15043], count=20)        the next 20 tokens

Attributes have the names that Hugging Face's files have (model.layers.0.self_attn.q_proj.weight), so that nothing is
renamed; tensors of a GGUF file (blk.0.attn_q.weight) are. What a config asks for and is not here (another activation,
scaled rotary positions, quantised safetensors) is refused. Used by tune_llama.py.

Source: Touvron et al., "Llama 2", arXiv:2307.09288; the names are those of transformers and of llama.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tinygraft import Tensor, TinyJit, Variable, nn
from tinygraft.nn.state import gguf_load, load_sharded, safe_load

PIECE = 16  # tokens of a prompt that are read at once; the rest of it one by one
MOST = 1 << 22  # bytes of a config.json; no model needs a tenth of it

REQUIRED = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
LENGTHS = ("max_position_embeddings", "sliding_window")
SWITCHES = ("tie_word_embeddings", "attention_bias", "mlp_bias")


@dataclass(frozen=True)
class Config:
    """The sizes of a model, by the names of config.json; defaults are those of transformers."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    max_position_embeddings: int = 2048
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    eos_token_id: int | None = None

    @staticmethod
    def of(given: Mapping[str, Any], where: str) -> Config:
        """The configuration that a config.json gives. Raises ValueError for what this file does not compute."""
        check_kinds(given, where)
        rope = [given.get(name) or {} for name in ("rope_parameters", "rope_scaling")]  # now, and in older files
        scaling = [value for each in rope for name in ("rope_type", "type") if (value := each.get(name)) is not None]
        for name, value, known in (
            ("model_type", given.get("model_type", "llama"), ("llama", "mistral")),
            ("hidden_act", given.get("hidden_act", "silu"), ("silu",)),
            *(("rope scaling", kind, ("default",)) for kind in scaling),
            ("partial_rotary_factor", rope[0].get("partial_rotary_factor", 1.0), (1.0,)),
            ("quantization_config", given.get("quantization_config"), (None,)),
        ):
            if value not in known:
                choices = " or ".join(map(str, known))
                raise ValueError(f"{where} asks for {name} {value!r}, which examples/llama.py has not, only {choices}")
        counts = [name for name in ("num_key_value_heads", "head_dim") if given.get(name) is not None]
        needed = [name for name in (*REQUIRED, *counts) if not is_count(given.get(name))]
        if needed:
            raise ValueError(
                f"{where} gives no number for {', '.join(needed)}, which a model of Llama's kind needs, 1 to 2**48 - 1"
            )
        sizes = {name: given[name] for name in Config.__dataclass_fields__ if given.get(name) is not None}
        heads = given["num_attention_heads"]
        sizes.setdefault("num_key_value_heads", heads)
        sizes.setdefault("head_dim", given["hidden_size"] // heads)
        sizes["rope_theta"] = rope[0].get("rope_theta") or given.get("rope_theta") or 10000.0
        longest = sizes.get("max_position_embeddings", 2048)
        sizes["max_position_embeddings"] = min(longest, given.get("sliding_window") or longest)  # within it all is seen
        if isinstance(sizes.get("eos_token_id"), list):
            sizes["eos_token_id"] = next(iter(sizes["eos_token_id"]), None)
        if (end := sizes.get("eos_token_id")) is not None and end >= sizes["vocab_size"]:
            raise ValueError(f"{where} has the eos_token_id {end}, and tokens below {sizes['vocab_size']}")
        return Config(**sizes)

    def save(self, path: Path) -> None:
        """Write a config.json, which transformers reads too."""
        kind = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "dtype": "float32"}
        path.write_text(json.dumps(kind | asdict(self), indent=2) + "\n", encoding="utf-8")


def is_count(value: Any) -> bool:
    """Whether a value is an integer of 1 or more, and below 2 to the 48th."""
    return is_token(value) and 0 < value < 1 << 48


def check_kinds(given: Mapping[str, Any], where: str) -> None:
    """Raise ValueError for an entry of a config.json that is there and is no value of its kind."""
    ropes, ends = ("rope_parameters", "rope_scaling"), given.get("eos_token_id")
    thetas = [("rope_theta", holder) for holder in (given, given.get("rope_parameters")) if isinstance(holder, Mapping)]
    for name, value, fits, kind in (
        *((name, given.get(name), lambda value: isinstance(value, Mapping), "an object") for name in ropes),
        *((name, given.get(name), is_count, "a positive integer") for name in LENGTHS),
        *((name, given.get(name), lambda value: isinstance(value, bool), "true or false") for name in SWITCHES),
        *((name, each.get(name), is_scale, "a positive number") for name, each in (*thetas, ("rms_norm_eps", given))),
        *(("eos_token_id", end, is_token, "a token") for end in (ends if isinstance(ends, list) else [ends])),
    ):
        if value is not None and not fits(value):
            raise ValueError(f"{where} needs {kind} as {name}, got {str(value)[:80]}")


def is_scale(value: Any) -> bool:
    """Whether a value is a positive number that float32 holds."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 3e38


def is_token(value: Any) -> bool:
    """Whether a value is an integer of 0 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class FeedForward:
    """x (N, L, hidden) -> down(silu(gate(x)) * up(x)), of its shape."""

    def __init__(self, config: Config) -> None:
        sizes = config.hidden_size, config.intermediate_size
        self.gate_proj, self.up_proj = (nn.Linear(*sizes, bias=config.mlp_bias) for _ in range(2))
        self.down_proj = nn.Linear(*reversed(sizes), bias=config.mlp_bias)

    def __call__(self, x: Tensor) -> Tensor:
        """What is added to x."""
        return self.down_proj(self.gate_proj(x).silu() * self.up_proj(x))


class Layer:
    """Attention, then a feed-forward network, each on what is normalised, each added: (N, L, hidden) -> the same."""

    def __init__(self, config: Config) -> None:
        self.self_attn = nn.GroupedQueryAttention(
            config.hidden_size, config.num_attention_heads, config.num_key_value_heads, bias=config.attention_bias,
            head_dim=config.head_dim, rope_theta=config.rope_theta,
        )  # fmt: skip
        self.mlp = FeedForward(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)

    def __call__(self, x: Tensor, cache: nn.KVCache | None, start: Any) -> Tensor:
        """The next x. With a cache x are the positions from start on."""
        x = x + self.self_attn(self.input_layernorm(x), cache=cache, start=start)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body:
    """Tokens (N, L) -> what is known at each position (N, L, hidden): the part that files call `model`."""

    def __init__(self, config: Config) -> None:
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = [Layer(config) for _ in range(config.num_hidden_layers)]
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)

    def __call__(self, tokens: Tensor, caches: Sequence[nn.KVCache] | None, start: Any) -> Tensor:
        """All layers, one after the other."""
        x = self.embed_tokens(tokens)
        for number, layer in enumerate(self.layers):
            x = layer(x, None if caches is None else caches[number], start)
        return self.norm(x)


class Llama:
    """Tokens (N, L) -> a score for each token to come next (N, L, vocabulary); last: of the last position."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.model = Body(config)
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def __call__(
        self, tokens: Tensor, caches: Sequence[nn.KVCache] | None = None, start: Any = 0, last: bool = False
    ) -> Tensor:
        """The scores. With caches, one for each layer, tokens are those from position start on."""
        known = self.model(tokens, caches, start)
        known = known[:, -1:] if last else known
        if self.config.tie_word_embeddings:
            return known.linear(self.model.embed_tokens.weight.transpose())
        return self.lm_head(known)


class Generator:
    """Greedy generation from one prompt: a list of tokens in, a list of the tokens that follow out.

    The position is a Variable, so that two captures serve all: one for a piece of the prompt, one for a single token,
    whose launches are the same at every position. longest is how many tokens there is memory for.
    """

    def __init__(self, model: Llama, longest: int | None = None) -> None:
        config = model.config
        self.model, self.longest = model, min(longest or config.max_position_embeddings, config.max_position_embeddings)
        shape = (1, self.longest, config.num_key_value_heads, config.head_dim)
        self.caches = [nn.KVCache(*shape) for _ in model.model.layers]

    @TinyJit
    def step(self, tokens: Tensor, start: Any) -> Tensor:
        """Read tokens (1, L) at the positions from start on: the likeliest token after them, (1, 1)."""
        return self.model(tokens, self.caches, start, last=True).argmax(-1).int()

    def read(self, tokens: Sequence[int], at: int) -> Tensor:
        """Read tokens at the positions from `at` on: the likeliest after them, (1, 1)."""
        position = Variable("position", 0, self.longest - len(tokens))
        return self.step(Tensor([list(tokens)], dtype="int32"), position.bind(at))

    def __call__(self, prompt: Sequence[int], count: int) -> list[int]:
        """At most count tokens after the prompt, none after the end of a text. Raises ValueError where it cannot."""
        if not prompt or len(prompt) + count > self.longest:
            raise ValueError(f"a prompt of {len(prompt)} tokens and {count} more have no place in {self.longest}")
        if not all(0 <= token < self.model.config.vocab_size for token in prompt):
            raise ValueError(
                f"a prompt has tokens below {self.model.config.vocab_size}, got {min(prompt)} to {max(prompt)}"
            )
        whole = len(prompt) // PIECE * PIECE
        pieces = [prompt[at : at + PIECE] for at in range(0, whole, PIECE)] + [[token] for token in prompt[whole:]]
        at = 0
        for piece in pieces:
            following = self.read(piece, at)
            at += len(piece)
        found = [int(following.item())]
        while len(found) < count and found[-1] != self.model.config.eos_token_id:
            found.append(int(self.read(found[-1:], at).item()))
            at += 1
        return found[:count]


# Files

GGUF_NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


def read(path: Path | str) -> tuple[Config, Mapping[str, Tensor]]:
    """The configuration and the tensors, by Hugging Face's names, of a file or a folder; nothing is read but headers.

    A folder has model.safetensors, or the index of several; config.json is beside them. A GGUF file has its own.
    Raises ValueError for what this file does not compute, and as gguf_load and safe_load do.
    """
    path = Path(path)
    if path.suffix == ".gguf":
        return read_gguf(path)
    if path.is_dir():
        index = path / "model.safetensors.index.json"
        path = index if index.exists() else path / "model.safetensors"
    where = path.parent / "config.json"
    config = Config.of(read_object(where), str(where))
    tensors = load_sharded(path) if path.name.endswith(".index.json") else safe_load(path)
    check_sizes(config, tensors, path)
    kept = {name: tensor for name, tensor in tensors.items() if not name.endswith("rotary_emb.inv_freq")}
    if config.tie_word_embeddings:
        kept.pop("lm_head.weight", None)  # some files have it twice
    return config, kept


def read_object(path: Path) -> dict[str, Any]:
    """The object that a file of JSON has. Raises ValueError where it has none, or is too long for settings."""
    with path.open("rb") as file:
        data = file.read(MOST + 1)
    if len(data) > MOST:
        raise ValueError(f"{path} has more than {MOST} bytes, which is no file of settings")
    try:
        found = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON that can be read: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} should have an object, it has a {type(found).__name__}")
    return found


def check_sizes(config: Config, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise ValueError where tensors do not have the sizes of the config, before any layer is made.

    So a size that is absurd takes no memory: what a file has is as long as the file. Tensors that are not there are
    named by load_state_dict.
    """
    if config.num_hidden_layers > len(tensors):
        raise ValueError(f"{path} has {len(tensors)} tensors, too few for {config.num_hidden_layers} layers")
    heads, kv = config.num_attention_heads, config.num_key_value_heads
    for name, shape in (
        ("embed_tokens", (config.vocab_size, config.hidden_size)),
        ("layers.0.self_attn.q_proj", (heads * config.head_dim, config.hidden_size)),
        ("layers.0.self_attn.k_proj", (kv * config.head_dim, config.hidden_size)),
        ("layers.0.mlp.gate_proj", (config.intermediate_size, config.hidden_size)),
    ):
        found = tensors.get(f"model.{name}.weight")
        if found is not None and found.shape != shape:
            raise ValueError(f"{path} has {name}.weight of shape {found.shape}, and its config says {shape}")


def read_gguf(path: Path) -> tuple[Config, dict[str, Tensor]]:
    """The configuration of a GGUF file from its metadata, and its tensors by the names of Hugging Face, as float32."""
    metadata, tensors = gguf_load(path)
    if metadata.get("general.architecture") != "llama":
        raise ValueError(f"{path} has a model of {metadata.get('general.architecture')!r}; this reads those of 'llama'")

    def value(name: str, default: Any = None) -> Any:
        return metadata.get(f"llama.{name}", default)

    heads, hidden = value("attention.head_count"), value("embedding_length")
    config = Config.of(
        {
            "vocab_size": tensors["token_embd.weight"].shape[0] if "token_embd.weight" in tensors else None,
            "hidden_size": hidden,
            "intermediate_size": value("feed_forward_length"),
            "num_hidden_layers": value("block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": value("attention.head_count_kv"),
            "head_dim": value("attention.key_length"),
            "rms_norm_eps": value("attention.layer_norm_rms_epsilon"),
            "rope_theta": value("rope.freq_base"),
            "max_position_embeddings": value("context_length"),
            "tie_word_embeddings": "output.weight" not in tensors,
            "attention_bias": "blk.0.attn_q.bias" in tensors,
            "mlp_bias": "blk.0.ffn_gate.bias" in tensors,
            "eos_token_id": metadata.get("tokenizer.ggml.eos_token_id"),
            "rope_scaling": {"type": scaling} if (scaling := value("rope.scaling.type", "none")) != "none" else None,
        },
        str(path),
    )
    if "rope_freqs.weight" in tensors or value("rope.dimension_count", config.head_dim) != config.head_dim:
        raise ValueError(f"{path} scales its rotary positions, or turns a part of a head, which this does not compute")
    named = {hugging_face_name(name): name for name in tensors}
    check_sizes(config, {new: tensors[name] for new, name in named.items()}, path)
    return config, {new: unpaired(name, tensors[name], config) for new, name in named.items()}


def hugging_face_name(name: str) -> str:
    """blk.0.attn_q.weight as model.layers.0.self_attn.q_proj.weight. Raises ValueError for a name of something else."""
    *block, stem, kind = name.split(".")
    if stem not in GGUF_NAMES:
        raise ValueError(f"the GGUF file has a tensor {name!r}, which is no part of a model of Llama's kind")
    return ".".join([*(["model.layers", *block[1:]] if block else []), GGUF_NAMES[stem], kind])


def unpaired(name: str, tensor: Tensor, config: Config) -> Tensor:
    """The tensor with the rows of queries and keys in the order of Hugging Face.

    A GGUF file has the two numbers that rotary positions turn side by side; there they are half a head apart.
    """
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(name.split(".")[-2])
    if heads is None:
        return tensor.float()
    return tensor.float().reshape(heads, config.head_dim // 2, 2, -1).transpose(1, 2).reshape(tensor.shape)
