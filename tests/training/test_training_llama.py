"""examples/llama.py, lora.py and tune_llama.py: tokens are those of transformers, and LoRA trains adapters alone.

The tokens of transformers are constants here, from LlamaForCausalLM.generate (transformers 5.23.0, torch 2.13.0,
2026-11-24) on the weights of `weights`, which a formula gives. No step is near a tie: the best score is ahead of the
second by 0.018 or more, where scores differ by less than 0.0001 between the two.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tinygraft import Tensor
from tinygraft.errors import FileFormatError
from tinygraft.nn.state import get_parameters, get_state_dict, load_state_dict

EXAMPLES = Path(__file__).parents[2] / "examples"
PROMPT = [(7 * i * i + 3) % 61 for i in range(21)]  # one piece of 16 tokens, and five single ones
GROUPED = {
    "model_type": "llama", "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 64, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}  # fmt: skip
TIED = GROUPED | {
    "num_key_value_heads": 1, "tie_word_embeddings": True, "attention_bias": True, "head_dim": 16,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
}  # fmt: skip
TOKENS = {
    "grouped": [49, 23, 56, 35, 35, 36, 29, 7, 23, 29, 35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 35],
    "tied": [2, 32, 28, 2, 28, 0, 32, 32, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 24, 23, 1, 18],
}
CONFIGS = {"grouped": GROUPED, "tied": TIED}


def weights(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Every tensor of such a model by its name in files of Hugging Face, from a formula."""
    hidden, heads, kv = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    wide, head, vocab = config["intermediate_size"], config["head_dim"], config["vocab_size"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    if not config.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = (vocab, hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        rows = {"q_proj": (heads * head, hidden), "k_proj": (kv * head, hidden), "v_proj": (kv * head, hidden)}
        for name, shape in (rows | {"o_proj": (hidden, heads * head)}).items():
            shapes[f"{at}self_attn.{name}.weight"] = shape
            if config.get("attention_bias"):
                shapes[f"{at}self_attn.{name}.bias"] = shape[:1]
        shapes[f"{at}mlp.gate_proj.weight"] = shapes[f"{at}mlp.up_proj.weight"] = (wide, hidden)
        shapes[f"{at}mlp.down_proj.weight"] = (hidden, wide)
        shapes[f"{at}input_layernorm.weight"] = shapes[f"{at}post_attention_layernorm.weight"] = (hidden,)
    found = {}
    for index, (name, shape) in enumerate(sorted(shapes.items())):
        count = np.arange(np.prod(shape), dtype=np.float64)
        wave = np.sin(count * count * 0.37 + count * (1.1 + 0.07 * index) + index)
        scale, middle = (0.2, 1.0) if "norm" in name else (1.0, 0.0) if "embed" in name else (0.35, 0.0)
        found[name] = (middle + scale * wave).astype(np.float32).reshape(shape)
    return found


def written(folder: Path, config: dict[str, Any]) -> Path:
    """A folder with such a model, written by the package safetensors."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights(config), folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def examples() -> Any:
    """The three examples as modules by their names, imported as when one of them is run."""
    names = ("results", "llama", "lora", "tune_llama")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        yield {name: importlib.import_module(name) for name in names}
    for name in names:
        sys.modules.pop(name, None)


def loaded(examples: Any, path: Path) -> Any:
    """The model of a file."""
    config, tensors = examples["llama"].read(path)
    model = examples["llama"].Llama(config)
    load_state_dict(model, tensors)
    return model


def gguf_of(path: Path, config: dict[str, Any], **changed: Any) -> Path:
    """The same model as a GGUF file by the package gguf, with rows of queries and keys as llama.cpp has them."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(changed.get("hidden_size", config["hidden_size"]))
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    if "scaling" in changed:
        writer.add_rope_scaling_type(changed["scaling"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, value in weights(config).items():
        heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}.get(
            name.split(".")[-2]
        )
        if heads is not None:
            value = value.reshape(heads, 2, config["head_dim"] // 2, -1).swapaxes(1, 2).reshape(value.shape)
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grouped", "tied"])
@pytest.mark.parametrize("kind", ["safetensors", "gguf"])
def test_greedy_tokens_are_those_of_transformers(examples: Any, tmp_path: Path, name: str, kind: str) -> None:
    """From a file of either kind; a second prompt on the same memory begins anew, and compiles nothing."""
    source = written(tmp_path, CONFIGS[name]) if kind == "safetensors" else gguf_of(tmp_path / "m.gguf", CONFIGS[name])
    model = loaded(examples, source)
    generator = examples["llama"].Generator(model)
    assert generator(PROMPT, 24) == TOKENS[name]
    assert generator(PROMPT[:3], 24) != TOKENS[name]
    assert generator(PROMPT, 24) == TOKENS[name]
    captures = examples["llama"].Generator.step.captured
    assert generator(PROMPT + TOKENS[name][:8], 16) == TOKENS[name][8:]
    assert examples["llama"].Generator.step.captured == captures
    whole = model(Tensor([PROMPT + TOKENS[name]])).argmax(-1)[0, len(PROMPT) - 1 : -1]
    assert whole.tolist() == TOKENS[name]


@pytest.mark.slow
def test_lora_trains_only_adapters_and_merges(examples: Any, tmp_path: Path) -> None:
    """The base keeps its bits, merged gives what unmerged gave, and saved adapters load under the names of PEFT."""
    lora, tuning = examples["lora"], examples["tune_llama"]
    folder = written(tmp_path / "base", GROUPED)
    model = loaded(examples, folder)
    base = {name: tensor.numpy() for name, tensor in get_state_dict(model).items()}
    tokens = Tensor([PROMPT])
    untouched = model(tokens).numpy()
    adapters = lora.add_lora(model, ["q_proj", "down_proj"], rank=2, alpha=6)
    assert sorted(adapters) == [
        f"model.layers.{i}.{name}" for i in range(2) for name in ("mlp.down_proj", "self_attn.q_proj")
    ]
    np.testing.assert_array_equal(model(tokens).numpy(), untouched)

    learning = [tensor for layer in adapters.values() for tensor in (layer.lora_A.weight, layer.lora_B.weight)]
    rows = (Tensor([PROMPT[:-1]] * 2), Tensor([PROMPT[1:]] * 2))
    losses = tuning.fit(model, learning, rows, steps=30, batch=4, rate=0.02, name="test", seed=0)
    assert losses[-1] < 0.5 * losses[0], losses
    for name, tensor in get_state_dict(model).items():
        if "lora_" not in name:
            np.testing.assert_array_equal(tensor.numpy(), base[name.replace(".base_layer", "")])
            assert tensor.grad is None, name

    trained = model(tokens).numpy()
    assert np.abs(trained - untouched).max() > 0.1
    lora.save_lora(adapters, tmp_path / "adapter")
    saved = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert saved["base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"].shape == (2, 32)
    assert saved["base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"].shape == (32, 2)
    assert len(saved) == 8
    again = loaded(examples, folder)
    lora.load_lora(again, tmp_path / "adapter")
    np.testing.assert_array_equal(again(tokens).numpy(), trained)

    lora.merge_lora(model)
    assert set(get_state_dict(model)) == set(base)
    np.testing.assert_allclose(model(tokens).numpy(), trained, atol=1e-4)
    assert len(get_parameters(model)) == len(base)


@pytest.mark.long
@pytest.mark.slow
def test_the_script_makes_a_base_and_tunes_it(
    examples: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A short run of one seed learns, and leaves what it says; another run takes that base by --weights."""
    main = examples["tune_llama"].main
    main(["--quick", "--seeds", "0", "--out", str(tmp_path)])
    numbers = json.loads((tmp_path / "tune_llama.json").read_text())["numbers"]
    assert numbers["before"] == 0
    assert numbers["after"] >= 0.15, numbers  # an eighth of the steps gave 0.38
    assert numbers["merged"] == numbers["after"]
    assert (tmp_path / "tune_llama.png").read_bytes().startswith(b"\x89PNG")
    assert "base model writes" in capsys.readouterr().out
    base = load_file(tmp_path / "tune_llama_base_0" / "model.safetensors")
    assert base["model.layers.2.self_attn.k_proj.weight"].shape == (32, 64)

    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{number}\tyes\n" for number in range(40)))
    least = main(
        [
            "--weights",
            str(tmp_path / "tune_llama_base_0"),
            "--data",
            str(pairs),
            "--steps",
            "40",
            "--seeds",
            "1",
            "--out",
            str(tmp_path),
        ]
    )
    assert least == 1.0


def test_refusals(examples: Any, tmp_path: Path) -> None:
    """What a file asks for and is not computed is named, before any tensor is read."""
    of = examples["llama"].Config.of
    for change, message in (
        ({"hidden_act": "gelu"}, r"x asks for hidden_act 'gelu', which examples/llama.py has not, only silu"),
        ({"model_type": "qwen2"}, "model_type 'qwen2', which examples/llama.py has not, only llama or mistral"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope scaling 'linear'"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}}, "rope scaling 'llama3'"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"hidden_size": None}, "x gives no number for hidden_size, which a model of Llama's kind needs"),
        ({"num_attention_heads": 0}, "x gives no number for num_attention_heads"),
        ({"vocab_size": True}, "x gives no number for vocab_size"),
        ({"rope_parameters": [1]}, r"x needs an object as rope_parameters, got \[1\]"),
        ({"sliding_window": {"a": 1}}, "x needs a positive integer as sliding_window, got {'a': 1}"),
        ({"mlp_bias": "no"}, "x needs true or false as mlp_bias, got no"),
        ({"rms_norm_eps": float("nan")}, "x needs a positive number as rms_norm_eps, got nan"),
        ({"rope_parameters": {"rope_theta": "1"}}, "x needs a positive number as rope_theta, got 1"),
        ({"eos_token_id": [2, -1]}, "x needs a token as eos_token_id, got -1"),
        ({"eos_token_id": 61}, "x has the eos_token_id 61, and tokens below 61"),
        ({"vocab_size": 1 << 60}, "x gives no number for vocab_size"),
    ):
        with pytest.raises(ValueError, match=message):
            of(GROUPED | change, "x")
    assert of(GROUPED | {"model_type": "mistral", "sliding_window": 16}, "x").max_position_embeddings == 16
    old = {name: value for name, value in GROUPED.items() if name not in ("rope_parameters", "head_dim")}
    assert of(old | {"rope_theta": 500.0, "rope_scaling": None, "eos_token_id": [2, 3]}, "x").rope_theta == 500.0
    assert of(GROUPED | {"eos_token_id": []}, "x").eos_token_id is None
    with pytest.raises(ValueError, match="a prompt of 60 tokens and 10 more have no place in 64"):
        examples["llama"].Generator(examples["llama"].Llama(of(GROUPED, "x")))([1] * 60, 10)
    with pytest.raises(ValueError, match="a prompt has tokens below 61, got 3 to 61"):
        examples["llama"].Generator(examples["llama"].Llama(of(GROUPED, "x")))([3, 61], 10)
    with pytest.raises(ValueError, match="the model has no Linear called w_proj, which LoRA was to be added to"):
        examples["lora"].add_lora(examples["llama"].Llama(of(GROUPED, "x")), ["q_proj", "w_proj"], 2, 4)
    folder = written(tmp_path / "damaged", GROUPED)
    for text, message in (
        ("{", r"damaged/config\.json is no JSON that can be read: Expecting property name"),
        ("[" * 100_000, r"damaged/config\.json is no JSON that can be read: maximum recursion depth"),
        ("[1]", r"damaged/config\.json should have an object, it has a list"),
        (json.dumps(GROUPED | {"num_hidden_layers": 1 << 40}), "tensors, too few for 1099511627776 layers"),
        (
            json.dumps(GROUPED | {"hidden_size": 1 << 44}),
            r"embed_tokens\.weight of shape \(61, 32\), and its config says",
        ),
        (json.dumps(GROUPED | {"head_dim": 1 << 40}), r"layers\.0\.self_attn\.q_proj\.weight of shape \(32, 32\)"),
        (json.dumps(GROUPED | {"num_key_value_heads": 4}), r"k_proj\.weight of shape \(16, 32\)"),
        (json.dumps(GROUPED | {"intermediate_size": 1 << 40}), r"mlp\.gate_proj\.weight of shape \(48, 32\)"),
        (json.dumps(GROUPED) + " " * (1 << 22), r"config\.json has more than 4194304 bytes"),
        ("\udcff", r"config\.json is no JSON that can be read: 'utf-8' codec"),
    ):
        (folder / "config.json").write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(ValueError, match=message):
            examples["llama"].read(folder)
    with pytest.raises(ValueError, match=r"embed_tokens\.weight of shape \(61, 32\), and its config says \(61, 64\)"):
        examples["llama"].read(gguf_of(tmp_path / "wide.gguf", GROUPED, hidden_size=64))
    import gguf

    with pytest.raises(ValueError, match="rope scaling 'yarn'"):
        examples["llama"].read(gguf_of(tmp_path / "m.gguf", GROUPED, scaling=gguf.RopeScalingType.YARN))
    short = {name: value for name, value in weights(GROUPED).items() if "layers.1.mlp" not in name}
    save_file(short, written(tmp_path / "short", GROUPED) / "model.safetensors")
    with pytest.raises(FileFormatError, match=r"model\.layers\.1\.mlp\.down_proj\.weight"):
        loaded(examples, tmp_path / "short")


def test_a_tokenizer_that_lies_is_refused(examples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the package cannot read, one that is too long, one that is not there, and tokens that the model has not.

    The package is a stand-in, which has its errors: an Exception of no class of its own.
    """

    class Tokenizer:
        """What the example calls of the package."""

        @staticmethod
        def from_str(text: str) -> Any:
            """A tokenizer of letters, where the text is JSON."""
            try:
                return types.SimpleNamespace(first=json.loads(text)["first"], encode=encode)
            except ValueError:
                raise Exception("expected value at line 1 column 1") from None

    def encode(text: str, add_special_tokens: bool) -> Any:
        return types.SimpleNamespace(ids=[ord(letter) % 16 + first[0] for letter in text])

    first = [0]
    module = types.ModuleType("tokenizers")
    module.Tokenizer = Tokenizer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tokenizers", module)
    tuning, folder = examples["tune_llama"], written(tmp_path / "model", GROUPED | {"eos_token_id": 2})
    config = examples["llama"].read(folder)[0]
    file = folder / "tokenizer.json"
    for data, message in (
        (b"no JSON", r"tokenizer\.json has no tokenizer that can be read: expected value at line 1"),
        (b"\xff\xfe", r"tokenizer\.json has no tokenizer that can be read: 'utf-8' codec"),
        (bytes((1 << 26) + 1), r"tokenizer\.json has more than 67108864 bytes"),
    ):
        file.write_bytes(data)
        with pytest.raises(SystemExit, match=message):
            tuning.tokenizer_of(folder, config)
    file.write_text('{"first": 0}')
    tokenizer = tuning.tokenizer_of(folder, config)
    assert tuning.as_tokens([("a", "b")], tokenizer, config)[0].shape == (1, 4)
    first[0] = 60
    with pytest.raises(SystemExit, match="the tokenizer gives the token 7. or none for a text, and the model has 61"):
        tuning.as_tokens([("a", "b")], tokenizer, config)
    file.unlink()
    wide = examples["llama"].Config.of(GROUPED | {"vocab_size": 300}, "x")
    with pytest.raises(SystemExit, match=r"300 tokens; their meaning is looked for in .*tokenizer\.json, not there"):
        tuning.tokenizer_of(folder, wide)
    (tmp_path / "one.tsv").write_text("a\tb\n")
    with pytest.raises(SystemExit, match=r"one\.tsv has 1 lines"):
        tuning.main(["--weights", str(folder), "--data", str(tmp_path / "one.tsv"), "--out", str(tmp_path)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_modules": "all-linear"}, "gives no list of names as target_modules, got all-linear"),
        ({"r": 0}, "needs a rank r of 1 to 65536"),
        ({"r": 1 << 40}, "needs a rank r of 1 to 65536"),
        ({"lora_alpha": "16"}, "and a number lora_alpha, got 2 and '16'"),
    ],
)
def test_an_adapter_that_lies_is_refused(examples: Any, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """Before any layer is made."""
    lora, model = examples["lora"], loaded(examples, written(tmp_path / "model", GROUPED))
    lora.save_lora(lora.add_lora(model, ["q_proj"], 2, 4), tmp_path)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings | change))
    with pytest.raises(ValueError, match=message):
        lora.load_lora(loaded(examples, tmp_path / "model"), tmp_path)
