"""Transformer layers and stacks are PyTorch's: values, gradients, names, first values; they train in one capture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, nn

torch = pytest.importorskip("torch")


def numbers(*shape: int, seed: int = 0) -> Any:
    """Normal numbers of that shape, float32."""
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def load(ours: Any, theirs: Any) -> None:
    """Give ours the state_dict of PyTorch's, by names."""
    theirs.eval()
    nn.state.load_state_dict(ours, {n: Tensor(t.numpy()) for n, t in theirs.state_dict().items()}, verbose=False)


causal = np.triu(np.ones((5, 5), bool), 1)
padding = np.array([[False] * 5, [False, False, False, True, True]])
FORMS: dict[str, dict[str, Any]] = {
    "relu, batch first": {"batch_first": True},
    "gelu, norm first, no bias": {"norm_first": True, "activation": "gelu", "bias": False},
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_an_encoder_is_pytorchs(form: str) -> None:
    """Two layers and a norm, with both masks; the gradients of all weights."""
    theirs = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(8, 2, 16, **FORMS[form]), 2, torch.nn.LayerNorm(8), enable_nested_tensor=False
    )
    ours = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, **FORMS[form]), 2, nn.LayerNorm(8))
    load(ours, theirs)
    x = numbers(2, 5, 8) if FORMS[form].get("batch_first") else numbers(5, 2, 8)
    found = ours(Tensor(x), Tensor(causal), Tensor(padding))
    wanted = theirs(torch.tensor(x), torch.tensor(causal), torch.tensor(padding))
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
    weights = nn.state.get_state_dict(ours)
    for weight in weights.values():
        weight.requires_grad = True
    ours(Tensor(x), is_causal=True).square().mean().backward()
    theirs(torch.tensor(x), torch.tensor(causal), is_causal=True).square().mean().backward()
    for name, weight in theirs.named_parameters():
        np.testing.assert_allclose(weights[name].grad.numpy(), weight.grad.numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_a_decoder_is_pytorchs(form: str) -> None:
    """Two layers, with a causal mask and the padding of memory."""
    theirs = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(8, 2, 16, **FORMS[form]), 2)
    ours = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, **FORMS[form]), 2)
    load(ours, theirs)
    first = FORMS[form].get("batch_first")
    tgt, memory = (numbers(2, 5, 8, seed=s) if first else numbers(5, 2, 8, seed=s) for s in range(2))
    found = ours(Tensor(tgt), Tensor(memory), tgt_is_causal=True, memory_key_padding_mask=Tensor(padding))
    wanted = theirs(torch.tensor(tgt), torch.tensor(memory), tgt_mask=torch.tensor(causal),
                    memory_key_padding_mask=torch.tensor(padding))  # fmt: skip
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_first_values_are_pytorchs() -> None:
    """Names, shapes and deviations; the copies of a stack begin alike, and have memory of their own."""
    ours, theirs = nn.TransformerDecoderLayer(32, 2, 64), torch.nn.TransformerDecoderLayer(32, 2, 64).state_dict()
    mine = nn.state.get_state_dict(ours)
    assert {n: t.shape for n, t in mine.items()} == {n: tuple(t.shape) for n, t in theirs.items()}
    for name, t in theirs.items():
        assert abs(mine[name].numpy().std() - t.numpy().std()) < 0.3 * t.numpy().std() + 1e-6, name
    stack = nn.TransformerDecoder(ours, 2)
    first, second = (nn.state.get_state_dict(layer) for layer in stack.layers)
    assert all(np.array_equal(first[name].numpy(), second[name].numpy()) for name in first)
    stack.layers[0].norm1.weight.assign(Tensor.zeros(32)).realize()
    assert (stack.layers[1].norm1.weight.sum().item(), ours.norm1.weight.sum().item()) == (32, 32)


@pytest.mark.slow
def test_a_training_step_is_captured() -> None:
    """An encoder learns to repeat the last token, with dropout, in one capture."""
    Tensor.manual_seed(0)
    embedding, head = nn.Embedding(4, 16), nn.Linear(16, 4)
    encoder = nn.TransformerEncoderLayer(16, 2, 16, dropout=0.05, batch_first=True)
    optimizer = nn.optim.AdamW(nn.state.get_parameters([embedding, encoder, head]), lr=0.02)

    @TinyJit
    @Tensor.train()
    def step(tokens: Tensor, wanted: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = head(encoder(embedding(tokens), is_causal=True)).flatten(0, 1).cross_entropy(wanted.flatten()).backward()
        nn.optim.clip_grad_norm(optimizer.params, 1.0)
        return loss.realize(*optimizer.schedule_step())

    random, losses = np.random.RandomState(0), []
    for _ in range(30):
        tokens = random.randint(0, 4, (16, 6)).astype(np.int32)
        losses.append(step(Tensor(tokens), Tensor(tokens)).item())
    assert losses[-1] < 0.4 < losses[0]
    assert step.captured == 1


def test_refusals() -> None:
    """What cannot be meant is named."""
    with pytest.raises(ValueError, match="a transformer has the activation 'relu', 'gelu' or a function, got 'tanh'"):
        nn.TransformerEncoderLayer(8, 2, activation="tanh")
    with pytest.raises(ValueError, match="TransformerDecoderLayer needs a dropout from 0 to 1, got 2"):
        nn.TransformerDecoderLayer(8, 2, dropout=2)
    with pytest.raises(ValueError, match="a transformer needs a layer at least, got 0"):
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 0)
