"""Checkpoints of ranks in one process: what the folder has, damaged ones, an end between files and index."""

import json
from pathlib import Path

import numpy as np
import pytest

from tinygraft import Tensor, nn
from tinygraft.errors import DTypeError, FileFormatError
from tinygraft.nn import rank_checkpoints
from tinygraft.nn.parallel import load_checkpoint, save_checkpoint


def trained() -> tuple[nn.Linear, nn.optim.Optimizer]:
    """A layer with an optimizer that has a state."""
    layer = nn.Linear(200, 150)
    optimizer = nn.optim.Adam(nn.state.get_parameters(layer), lr=0.01)
    with Tensor.train():
        (layer(Tensor.ones(2, 200)) ** 2).mean().backward()
        optimizer.step()
    return layer, optimizer


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    """Parts, plain values, the step and random numbers; what is not asked for is returned."""
    layer, optimizer = trained()
    save_checkpoint(tmp_path / "new" / "run", layer=layer, optimizer=optimizer, notes={"lr": 0.5}, step=(3, "x"))
    expected = Tensor.rand(4).tolist()
    again, other = trained()
    found = load_checkpoint(tmp_path / "new" / "run", layer=again, optimizer=other)
    assert found == {"step": (3, "x"), "notes": {"lr": 0.5}}
    assert Tensor.rand(4).tolist() == expected
    assert (again.weight.numpy() == layer.weight.numpy()).all()
    ours, theirs = optimizer.state_dict()["state"], other.state_dict()["state"]
    for number in (0, 1):
        for name, t in ours[number].items():
            assert (t.numpy() == theirs[number][name].numpy()).all(), name


def test_a_second_one_replaces_the_first(tmp_path: Path) -> None:
    """The files of the first, and those that a killed program left, are gone; others stay."""
    for number in (1, 2):
        save_checkpoint(tmp_path, layer=nn.Linear(2, 2), step=number)
        (tmp_path / "notes.txt").write_text("mine")
        if number == 1:
            (tmp_path / "0123456789ab-00000-of-00004.safetensors").write_text("left behind")
    assert load_checkpoint(tmp_path)["step"] == 2
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".safetensors", ".txt"]


def test_an_end_before_the_index_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the index is replaced, what it names is there."""

    def ended(path: object) -> None:
        raise KeyboardInterrupt

    layer = nn.Linear(2, 2)
    save_checkpoint(tmp_path, layer=layer, step=1)
    monkeypatch.setattr(rank_checkpoints, "replacing", ended)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, layer=nn.Linear(2, 2), step=2)
    again = nn.Linear(2, 2)
    assert load_checkpoint(tmp_path, layer=again)["step"] == 1
    assert (again.weight.numpy() == layer.weight.numpy()).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda index: index.pop("tensors"), "is no index of a checkpoint of ranks"),
        (lambda index: index.update(version=9), "is a checkpoint of version 9; version 1 is read"),
        (lambda index: index.update(files=["../x"]), "is damaged: it does not name a file and a state of each rank"),
        (lambda index: index.update(ranks=2), "is damaged"),
        (lambda index: index.update(content=[]), "is damaged"),
        (
            lambda index: index.update(files=["none.safetensors"]),
            "names files that are not there: ['none.",
        ),
        (lambda index: index["tensors"]["layer.weight"].update(shape=[3, 2]), "should have shape (3, 2), its pieces"),
        (lambda index: index["tensors"]["layer.weight"].update(pieces=[[7, 1]]), "has no whole tensor 'layer.weight'"),
        (lambda index: index["tensors"]["layer.weight"].update(pieces=3), "has no whole tensor 'layer.weight'"),
    ],
)
def test_a_damaged_index_is_refused(change: object, text: str, tmp_path: Path) -> None:
    """Each with a sentence, and the layer is as it was."""
    save_checkpoint(tmp_path, layer=nn.Linear(2, 2))
    index = json.loads((tmp_path / "checkpoint.json").read_text())
    change(index)  # type: ignore[operator]
    (tmp_path / "checkpoint.json").write_text(json.dumps(index))
    layer = nn.Linear(2, 2)
    before = layer.weight.numpy()
    with pytest.raises(FileFormatError, match=text.replace("(", r"\(").replace(")", r"\)").replace("[", r"\[")):
        load_checkpoint(tmp_path, layer=layer)
    assert (layer.weight.numpy() == before).all()


def test_what_is_no_index(tmp_path: Path) -> None:
    """Text that is not JSON, no file at all, a part that the checkpoint lacks, a reserved name."""
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path)
    (tmp_path / "checkpoint.json").write_text("{")
    with pytest.raises(FileFormatError, match="is no index of a checkpoint of ranks"):
        load_checkpoint(tmp_path)
    save_checkpoint(tmp_path, step=1, rng=False)
    with pytest.raises(FileFormatError, match=r"has the parts \[\], not \['layer'\]"):
        load_checkpoint(tmp_path, layer=nn.Linear(2, 2))
    with pytest.raises(DTypeError, match="a checkpoint has no part 'strict'"):
        save_checkpoint(tmp_path, **{"strict": nn.Linear(2, 2)})


def test_dtypes_and_shapes(tmp_path: Path) -> None:
    """Every dtype, no elements, no axes; complex numbers too."""
    given = {name: Tensor([1, 0, 2]).cast(name) for name in ("bool", "uchar", "half", "bfloat16", "double", "long")}
    given |= {"empty": Tensor.ones(0, 3), "scalar": Tensor(2.5), "complex": Tensor([1 + 2j])}
    save_checkpoint(tmp_path, given=given)
    found = load_checkpoint(tmp_path)["given"]
    for name, t in given.items():
        assert (found[name].dtype, found[name].shape) == (t.dtype, t.shape)
        assert np.array_equal(found[name].numpy(), t.numpy()), name
