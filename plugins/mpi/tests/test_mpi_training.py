"""Data parallel training on real ranks: the losses of one process with the same batch, and what a step does."""

import json

import pytest

from ranks import launched, printed

pytestmark = pytest.mark.needs("mpi")

TRAIN = """
import json
from tinygraft import dtypes

class Digits:
    def __init__(self):
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.linear = nn.Linear(16 * 16, 10)

    def __call__(self, x):
        return self.linear(self.conv2(self.conv1(x).relu()).relu().max_pool2d((2, 2)).flatten(1))

class Block:
    def __init__(self, dim):
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def __call__(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, t, 3, 2, d // 2).permute(2, 0, 3, 1, 4).split(1)
        mixed = q[0].scaled_dot_product_attention(k[0], v[0], is_causal=True)
        x = x + self.out(mixed.permute(0, 2, 1, 3).reshape(b, t, d))
        return x + self.down(self.up(self.norm2(x)).gelu())

class CharGPT:
    def __init__(self):
        self.tokens, self.places = nn.Embedding(28, 32), nn.Embedding(16, 32)
        self.blocks, self.norm, self.head = [Block(32), Block(32)], nn.LayerNorm(32), nn.Linear(32, 28)

    def __call__(self, x):
        x = self.tokens(x) + self.places(Tensor.arange(16))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).reshape(-1, 28)

def batches(name, steps):
    chance = np.random.default_rng(7)
    if name == "digits":
        from sklearn.datasets import load_digits
        x, y = load_digits(return_X_y=True)
        for _ in range(steps):
            rows = chance.integers(0, len(x), 32)
            yield (x[rows] / 16).reshape(-1, 1, 8, 8), y[rows].astype(np.int32)
    else:
        text = np.array([ord(c) - 97 if c.isalpha() else 26 for c in "the quick brown fox jumps over a lazy dog " * 40])
        for _ in range(steps):
            at = chance.integers(0, len(text) - 17, 16)
            yield np.stack([text[i:i + 16] for i in at]).astype(np.int32), np.stack(
                [text[i + 1:i + 17] for i in at]).astype(np.int32)

def trained(name, steps=50, jit=True):
    Tensor.manual_seed(100 + comm.rank)  # other weights on each rank, until data_parallel
    if comm.rank == 0:
        Tensor.manual_seed(1)
    model = Digits() if name == "digits" else CharGPT()
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=0.003)
    nn.parallel.data_parallel(optimizer, bucket_mb=0.01)

    @Tensor.train()
    def step(x, y):
        optimizer.zero_grad()
        loss = model(x).sparse_categorical_crossentropy(y.reshape(-1)).backward()
        optimizer.step()
        return loss.realize()

    step, losses = TinyJit(step) if jit else step, []
    for x, y in batches(name, steps):
        x = Tensor(x, dtype=dtypes.default_float if x.dtype == np.float64 else None)
        loss = step(nn.parallel.part(x).contiguous().realize(), nn.parallel.part(Tensor(y)).contiguous().realize())
        losses.append(float(comm.all_reduce(loss.numpy(), "mean")))
    weights = np.concatenate([p.numpy().reshape(-1) for p in optimizer.params])
    assert (comm.all_gather(weights) == weights).all(), "weights differ between ranks"
    return losses, step
"""


def losses(count, folder, dtype):
    """The losses of 50 steps of both models on some ranks, as rank 0 prints them."""
    code = (
        TRAIN + "found = [trained(name)[0] for name in ('digits', 'gpt')]\nif comm.rank == 0: print(json.dumps(found))"
    )
    ended = launched(count, code, folder, DEFAULT_FLOAT=dtype, timeout=300)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance", "counts"), [
    pytest.param("float64", 1e-10, (2, 4), marks=pytest.mark.long),
    pytest.param("float32", 1e-4, (2, 4), marks=pytest.mark.long),
])  # fmt: skip
def test_ranks_reach_the_losses_of_one_process(dtype, tolerance, counts, tmp_path):
    """A digits network and a character GPT have, on 1, 2 and 4 ranks, the losses of one rank with the same batches."""
    alone = losses(1, tmp_path, dtype)
    assert all(one[-1] < one[0] / 2 for one in alone)
    for count in counts:
        found = losses(count, tmp_path, dtype)
        for ours, theirs in zip(found, alone, strict=True):
            assert len(ours) == 50
            assert ours == pytest.approx(theirs, rel=tolerance)


@pytest.mark.slow
def test_a_captured_step_is_the_same_as_a_written_one(tmp_path):
    """Under TinyJit a step is replayed, collectives included, and trains as without it, bit for bit."""
    code = (
        TRAIN
        + """
jitted, step = trained("digits", 6)
plain, _ = trained("digits", 6, jit=False)
names = step.kernels[0]
print(comm.rank, jitted == plain, sum("all_reduce" in name for name in names) > 1)
"""
    )
    assert printed(2, code, tmp_path) == ["0 True True", "1 True True"]


STEP = """
def model_and_optimizer(seed=3):
    Tensor.manual_seed(seed + comm.rank)
    model = nn.Linear(4, 3)
    return model, nn.optim.SGD(nn.state.get_parameters(model), lr=0.1)

rows, targets = np.random.default_rng(0).random((2, 8, 4), np.float32)
targets = targets[:, :3]

def same(value):
    return bool((comm.all_gather(value) == value).all())
"""


def test_accumulated_gradients_are_reduced_once(tmp_path):
    """Two backwards before a step cost one reduction, and give the gradients of both batches."""
    code = (
        STEP
        + """
model, optimizer = model_and_optimizer()
nn.parallel.data_parallel(optimizer)
x, y = nn.parallel.part(Tensor(rows)), nn.parallel.part(Tensor(targets))
before = comm._number
with Tensor.train():
    for half in (slice(0, 2), slice(2, 4)):
        ((model(x[half]) - y[half]) ** 2).mean().div(2).backward()
    assert comm._number == before
    optimizer.step()
assert comm._number == before + 1
weight = model.weight.detach()
grad = model.weight.grad.numpy()
first, _ = model_and_optimizer()
for p in (first.weight, first.bias):
    p.assign(nn.parallel.broadcast(p.detach())).realize()
((first(Tensor(rows)) - Tensor(targets)) ** 2).mean().backward()
print(comm.rank, bool(np.allclose(grad, first.weight.grad.numpy(), rtol=1e-5, atol=1e-7)), same(grad))
"""
    )
    assert printed(2, code, tmp_path) == ["0 True True", "1 True True"]


def test_gradients_are_clipped_by_the_norm_over_all_ranks(tmp_path):
    """As PyTorch's data parallel models: the norm is that of the mean, and the step does not reduce again.

    So after reduce_gradients and without it, and for clip_grad_value, which cuts the means.
    """
    code = (
        STEP
        + """
model, optimizer = model_and_optimizer()
nn.parallel.data_parallel(optimizer)
x, y = nn.parallel.part(Tensor(rows)), nn.parallel.part(Tensor(targets))
with Tensor.train():
    ((model(x) - y) ** 2).mean().backward()
    nn.parallel.reduce_gradients(optimizer)
    number = comm._number
    norm = nn.optim.clip_grad_norm(optimizer.params, 0.01).numpy()
    optimizer.step()
    assert comm._number == number, "reduced twice"
    grads = np.concatenate([p.grad.numpy().reshape(-1) for p in optimizer.params])
    ((model(x) - y) ** 2).mean().backward()
    optimizer.step()
    assert comm._number == number + 1, "not reduced after another backward"
    optimizer.zero_grad()
    p = optimizer.params[0]
    for clip in (lambda: nn.optim.clip_grad_norm(optimizer.params, 0.01), lambda: nn.optim.clip_grad_value([p], 0.5)):
        (p.reshape(-1)[0] * (4 if comm.rank else -1) + sum(q.sum() for q in optimizer.params) * 0).backward()
        found = clip()
        first = p.grad.reshape(-1)[0].item()
        assert abs(first - (0.5 if found is None else 0.01)) < 1e-4
        assert found is None or abs(found.item() - 1.5) < 1e-5
        optimizer.zero_grad()
print(comm.rank, same(norm), bool(abs(np.linalg.norm(grads) - 0.01) < 1e-4), same(model.weight.numpy()))
"""
    )
    assert printed(2, code, tmp_path) == ["0 True True True", "1 True True True"]


@pytest.mark.slow
def test_a_loss_scaler_skips_a_step_on_all_ranks(tmp_path):
    """Where the gradient of one rank overflows, every rank leaves the step out."""
    code = (
        STEP
        + """
model, optimizer = model_and_optimizer()
nn.parallel.data_parallel(optimizer)
scaler = nn.optim.LossScaler()
before = model.weight.numpy()
with Tensor.train():
    loss = (model(Tensor(rows)) ** 2).mean() * (float("inf") if comm.rank else 1.0)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(comm.rank, bool((model.weight.numpy() == before).all()))
"""
    )
    assert printed(2, code, tmp_path) == ["0 True", "1 True"]


@pytest.mark.slow
def test_uneven_parts_of_a_batch(tmp_path):
    """`weighted` makes the average over ranks of uneven parts that of all rows."""
    code = (
        STEP
        + """
model, optimizer = model_and_optimizer()
nn.parallel.data_parallel(optimizer)
five, of_five = Tensor(rows[:5]), Tensor(targets[:5])
x, y = nn.parallel.part(five), nn.parallel.part(of_five)
with Tensor.train():
    nn.parallel.weighted(((model(x) - y) ** 2).mean(), x.shape[0]).backward()
    nn.parallel.reduce_gradients(optimizer)
found = model.weight.grad.numpy()
model.weight.grad = None
((model(five) - of_five) ** 2).mean().backward()
print(comm.rank, x.shape[0], bool(np.allclose(found, model.weight.grad.numpy(), rtol=1e-5, atol=1e-7)))
"""
    )
    assert printed(2, code, tmp_path) == ["0 3 True", "1 2 True"]


def test_the_words_on_tensors(tmp_path):
    """Every collective of tensors has its value, of floats, half types, integers and bool, on two devices."""
    code = """
P, r, n = nn.parallel, comm.rank, comm.size
for device in ("CPU", "PYTHON"):
    for dtype in ("float", "double", "half", "bfloat16", "int", "uchar"):
        t = Tensor([[1, 2], [3, 4]], device=device).cast(dtype) * (r + 1)
        assert P.all_reduce(t).tolist() == [[3, 6], [9, 12]], dtype
        assert P.all_reduce(t, "max").tolist() == [[2, 4], [6, 8]], dtype
        assert P.all_gather(t).tolist() == [[1, 2], [3, 4], [2, 4], [6, 8]], dtype
        assert P.reduce_scatter(t).tolist() == [[3, 6], [9, 12]][r:r + 1], dtype
        assert P.broadcast(t, 1).tolist() == [[2, 4], [6, 8]], dtype
        assert P.all_to_all(t).tolist() == ([[1, 2], [2, 4]] if r == 0 else [[3, 4], [6, 8]]), dtype
        assert P.all_reduce(t).dtype == t.dtype and P.all_reduce(t).device == device
    assert P.all_reduce(Tensor([True, r == 0], device=device), "min").tolist() == [True, False]
assert P.all_reduce(Tensor(2.0)).item() == 4.0
assert P.all_reduce(Tensor.zeros(0, 3)).shape == (0, 3)
view = Tensor.arange(12).reshape(3, 4).T
assert P.all_reduce(view).tolist() == (view * 2).tolist()
t = Tensor([1.0])
t.assign(t + 1)
assert P.all_reduce(t).tolist() == [4.0]

def refused(error, text, call):
    try:
        call()
    except error as found:
        assert text in str(found), found
    else:
        raise AssertionError(text)

from tinygraft.errors import CollectiveError, DTypeError, ShapeError, TrainingError
refused(TrainingError, "all_reduce has no gradient, and this tensor requires one; give it tensor.detach()",
        lambda: P.all_reduce(Tensor([1.0], requires_grad=True) * 2))
refused(ShapeError, "which do not divide its 3 rows", lambda: P.reduce_scatter(Tensor.ones(3)))
refused(ShapeError, "this one has no axes", lambda: P.all_gather(Tensor(1.0)))
refused(DTypeError, "cannot take the sum of bool", lambda: P.all_reduce(Tensor([True])))
refused(ValueError, "there is no rank 2: the 2 ranks are 0 to 1", lambda: P.broadcast(Tensor([1.0]), 2))
refused(CollectiveError, "is on several devices", lambda: P.all_reduce(Tensor.ones(2).shard(("CPU", "CPU:1"))))
refused(CollectiveError, "differs", lambda: P.all_reduce(Tensor.ones(2 + r)))
for call in (P.all_reduce, P.all_gather, P.reduce_scatter, P.all_to_all, P.broadcast):
    assert call(Tensor.ones(0, 3, dtype="bfloat16")).shape == (0, 3)
    # without elements on one rank only: what the other one sends may not meet what this one calls next
    refused(CollectiveError, "differs", lambda: call(Tensor.ones(2 * r)))
model = nn.Linear(2, 2)
optimizer = nn.optim.SGD(nn.state.get_parameters(model))
P.data_parallel(optimizer)
refused(TrainingError, "data_parallel was called for this optimizer before", lambda: P.data_parallel(optimizer))
print(r, "done")
"""
    assert printed(2, code, tmp_path) == ["0 done", "1 done"]


@pytest.mark.slow
def test_validate_counts_what_other_ranks_compute(tmp_path):
    """VALIDATE=1 compares the schedules of a step, and says that it skips what other ranks compute."""
    code = (
        STEP
        + """
model, optimizer = model_and_optimizer()
nn.parallel.data_parallel(optimizer)
with Tensor.train():
    (model(Tensor(rows)) ** 2).mean().backward()
    optimizer.step()
"""
    )
    ended = launched(2, code, tmp_path, VALIDATE="1")
    assert ended.code == 0, ended.err
    assert "what other ranks compute" in ended.out + ended.err


def test_a_loss_read_after_the_step_is_computed_with_it(tmp_path):
    """A loss, and what else reads the weights, is kept from before the step: nothing is computed for it again."""
    code = (
        STEP
        + """
def kernels(read, jit):
    model, optimizer = model_and_optimizer()
    nn.parallel.data_parallel(optimizer)
    old, bias = model.weight.numpy(), model.bias.numpy()

    @Tensor.train()
    def step(x):
        optimizer.zero_grad()
        out = model(x)
        loss = (out ** 2).mean().backward()
        optimizer.step()
        return (loss.realize(), out.sum().realize()) if read else optimizer.params[0].grad.realize()

    x = Tensor(rows).realize()
    if not jit:
        loss, total = step(x)
        plain = rows @ old.T + bias
        assert np.allclose(loss.item(), (plain ** 2).mean(), rtol=1e-5), (loss.item(), (plain ** 2).mean())
        return 0
    step = TinyJit(step)
    for _ in range(3):
        step(x)
    return len(step.kernels[0])

kernels(True, False)
without, with_loss = kernels(False, True), kernels(True, True)
assert with_loss <= without + 2, (with_loss, without)    # the two sums
print(comm.rank, "done")
"""
    )
    assert printed(2, code, tmp_path) == ["0 done", "1 done"]


def test_what_cannot_be_data_parallel_is_refused(tmp_path):
    """LBFGS, whose moves depend on a rank's own loss, and reading the rows of all ranks in a captured step."""
    code = (
        STEP
        + """
from tinygraft.errors import TrainingError
model, _ = model_and_optimizer()
try:
    nn.parallel.data_parallel(nn.optim.LBFGS(nn.state.get_parameters(model)))
except TrainingError as error:
    assert "LBFGS cannot be data parallel" in str(error)
else:
    raise AssertionError("LBFGS")
jitted = TinyJit(lambda x: nn.parallel.weighted(x.sum(), 2).realize())
try:
    for _ in range(3):
        jitted(Tensor.ones(2).contiguous().realize())
except TrainingError as error:
    assert "weighted reads how many rows all ranks have" in str(error)
else:
    raise AssertionError("weighted")
print(comm.rank, "refused")
"""
    )
    assert printed(2, code, tmp_path) == ["0 refused", "1 refused"]


SYNC = """
class Net:
    def __init__(self, sync):
        self.first, self.norm1 = nn.Conv2d(1, 3, 3), nn.BatchNorm(3, sync=sync)
        self.second, self.norm2 = nn.Conv2d(3, 4, 3), nn.BatchNorm(4, sync=sync, momentum=None)

    def __call__(self, x):
        return self.norm2(self.second(self.norm1(self.first(x)).relu())).square().mean((1, 2, 3))

def losses_and_state(x, y, divisor, sync, jit=False):
    Tensor.manual_seed(1)
    net = Net(sync)
    optimizer = nn.optim.SGD(nn.state.get_parameters(net), lr=0.1)
    if sync:
        nn.parallel.data_parallel(optimizer)

    @Tensor.train()
    def step(x, y):
        optimizer.zero_grad()
        loss = ((net(x) - y).square().sum() / divisor).backward()
        optimizer.step()
        return loss.realize()

    step = TinyJit(step) if jit else step
    found = [step(x, y).numpy() for _ in range(5)]
    state = [t.numpy().reshape(-1).astype(np.float64) for t in nn.state.get_state_dict(net).values()]
    return np.array(found), np.concatenate(state)

chance = np.random.default_rng(0)
x, y = Tensor(chance.standard_normal((5, 1, 8, 8))), Tensor(chance.standard_normal(5))
losses, state = losses_and_state(x, y, 5, sync=False)
for rows in (5, 1):    # of one row, one rank has none
    mine = [nn.parallel.part(t[:rows]).contiguous().realize() for t in (x, y)]
    whole, there = losses_and_state(x[:rows], y[:rows], rows, sync=False)
    for jit in (False, True):
        parts, here = losses_and_state(*mine, rows / comm.size, sync=True, jit=jit)
        assert np.allclose(comm.all_reduce(parts, "mean"), whole, rtol=1e-12, atol=0), (rows, jit)
        assert np.allclose(here, there, rtol=1e-12, atol=1e-14), (rows, jit)
        assert (comm.all_gather(here) == here).all()
half = Tensor(chance.standard_normal((4, 3)), dtype="half")
with Tensor.train():
    found = nn.BatchNorm(3, sync=True)(nn.parallel.part(half))
    wanted = nn.BatchNorm(3)(half)
assert found.dtype == half.dtype and np.allclose(found.numpy(), nn.parallel.part(wanted).numpy(), rtol=2e-3, atol=1e-3)
try:
    with Tensor.train():
        nn.BatchNorm(2, sync=True)(Tensor.ones(1 - comm.rank, 2))
except Exception as error:
    assert "all ranks have one together" in str(error), error
else:
    raise AssertionError("one value")
x = Tensor(chance.standard_normal((4, 2)), requires_grad=True)
assert np.isfinite((nn.BatchNorm(2, sync=True)(x) ** 2).sum().gradient(x)[0].numpy()).all()    # of running statistics
print(comm.rank, "done")
"""


@pytest.mark.long
@pytest.mark.slow
def test_a_synchronised_batchnorm_is_that_of_the_whole_batch(tmp_path):
    """sync=True: losses, weights and running statistics of one process with the whole batch, of uneven and empty parts.

    Forward and backward, under TinyJit, and of half types.
    """
    ended = launched(2, SYNC, tmp_path, DEFAULT_FLOAT="float64", timeout=300)
    assert ended.code == 0, ended.err
    assert sorted(ended.out.splitlines()) == ["0 done", "1 done"]
