import keras
import numpy as np
import pytest
import tensorflow as tf

from solar_tf.config import SolarConfig
from solar_tf.run.weights import NAMES
from solar_tf.runtime.devices import cpu_has_bfloat16
from solar_tf.training.checkpoints import Rows
from solar_tf.training.model import ChunkModel, chunk_logits, inputs_of, probability_function
from solar_tf.training.optimizer import LinearDecay

INPUT_DIM, HIDDEN_DIM, NUM_BUCKETS = 13, 7, 11
RATE, STILL = 1e-2, 0.0


def make_model(chunk=0, weights=None, mixed_precision=False, scores=None, **changes):
    config = SolarConfig(hidden_dim=HIDDEN_DIM, num_buckets=NUM_BUCKETS, **changes)
    options = {"weights": weights, "mixed_precision": mixed_precision, "scores": scores}
    model = ChunkModel(config, INPUT_DIM, chunk, **options)
    model.compile_adam(RATE)
    return model


def train(model, batch, rate=RATE):
    """One step; returns the loss before it."""
    model.optimizer.learning_rate = rate
    model.reset_metrics()
    return float(model.train_step(batch)["loss"])


def array(model, name):
    return model.weights_by_name()[name].numpy()


def random_weights(seed=0):
    generator = np.random.default_rng(seed)
    shapes = [(INPUT_DIM, HIDDEN_DIM), HIDDEN_DIM, (HIDDEN_DIM, NUM_BUCKETS), NUM_BUCKETS]
    return {
        name: generator.normal(0, 0.7, shape).astype(np.float32)
        for name, shape in zip(NAMES, shapes, strict=True)
    }


class Batch:
    """Random rows, as the model takes them and as plain matrices; some are empty."""

    def __init__(self, seed, size, dense=False, input_ids=INPUT_DIM):
        generator = np.random.default_rng(seed)
        tokens = [
            generator.choice(input_ids, min(n, input_ids), False)
            for n in generator.integers(0, 6, size)
        ]
        buckets = [
            np.sort(generator.choice(NUM_BUCKETS, n, False)) for n in generator.integers(0, 4, size)
        ]
        if size > 2:
            tokens[1], buckets[2] = tokens[1][:0], buckets[2][:0]
        self.inputs, self.targets = np.zeros((size, INPUT_DIM)), np.zeros((size, NUM_BUCKETS))
        values = []
        for row in range(size):
            values.append(generator.normal(0, 1, len(tokens[row])).astype(np.float32))
            self.inputs[row, tokens[row]] = values[row]
            self.targets[row, buckets[row]] = 1
        self.touched = np.unique(np.concatenate(tokens))
        self.tensors = {"buckets": flat(buckets, np.int32), "bucket_splits": splits(buckets)}
        if dense:
            self.inputs = generator.normal(0, 1, (size, INPUT_DIM)).astype(np.float32)
            self.tensors["dense"] = tf.constant(self.inputs)
        else:
            self.tensors |= {
                "ids": flat(tokens, np.int32),
                "values": flat(values, np.float32),
                "row_splits": splits(tokens),
            }


def flat(lists, dtype):
    return tf.constant(np.concatenate([*lists, []]).astype(dtype))


def splits(lists):
    return tf.constant(np.cumsum([0, *map(len, lists)]), tf.int32)


class Oracle:
    """The network as matrices in float64, its gradients by autodiff, Adam as its paper has it."""

    def __init__(self, weights, lazy):
        self.weights = {name: np.array(weight, np.float64) for name, weight in weights.items()}
        self.moments = {name: np.zeros((2, *weight.shape)) for name, weight in weights.items()}
        self.lazy, self.step = lazy, 0

    def logits(self, weights, inputs, mask=1.0):
        hidden = tf.nn.relu(inputs @ weights["hidden_kernel"] + weights["hidden_bias"])
        return (hidden * mask) @ weights["output_kernel"] + weights["output_bias"]

    def train(self, batch, rate, mask=1.0):
        """One step; returns the loss before it."""
        variables = {name: tf.Variable(weight) for name, weight in self.weights.items()}
        with tf.GradientTape() as tape:
            logits = self.logits(variables, tf.constant(batch.inputs, tf.float64), mask)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(batch.targets, logits)
            loss = tf.reduce_mean(tf.reduce_sum(losses, axis=1))
        gradients = tape.gradient(loss, variables)
        self.step += 1
        for name, gradient in gradients.items():
            rows = batch.touched if self.lazy and name == "hidden_kernel" else ...
            self._adam(name, rows, gradient.numpy()[rows], rate)
        return loss.numpy()

    def _adam(self, name, rows, gradient, rate):
        first, second = self.moments[name]
        first[rows] = 0.9 * first[rows] + 0.1 * gradient
        second[rows] = 0.999 * second[rows] + 0.001 * gradient**2
        rate *= np.sqrt(1 - 0.999**self.step) / (1 - 0.9**self.step)
        self.weights[name][rows] -= rate * first[rows] / (np.sqrt(second[rows]) + 1e-8)


def assert_follows(model, oracle, batches, mask=lambda batch: 1.0):
    for batch in batches:
        factor = mask(batch)
        loss = train(model, batch.tensors)
        assert loss == pytest.approx(oracle.train(batch, np.float32(RATE), factor), rel=1e-5)
    for name, weight in model.weights_by_name().items():
        np.testing.assert_allclose(weight.numpy(), oracle.weights[name], rtol=1e-5, atol=1e-5)
        for part, expected in zip("mv", oracle.moments[name], strict=True):
            moment = model.state()[f"{name}.{part}"].numpy()
            np.testing.assert_allclose(moment, expected, rtol=1e-4, atol=1e-6)


def batches(dense=False):
    """Of all sizes; the lower ids come up seldom, so that lazy Adam has rows to skip."""
    sizes = (8, 5, 1, 16, 3, 3)
    return [
        Batch(i, size, dense, input_ids=INPUT_DIM if i % 3 == 0 else 6)
        for i, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("optimizer", ["adam", "lazy_adam"])
@pytest.mark.parametrize("dense", [False, True])
def test_steps_equal_autodiff_and_plain_adam(optimizer, dense):
    model = make_model(weights=random_weights(), optimizer=optimizer)
    lazy = optimizer == "lazy_adam" and not dense
    assert_follows(model, Oracle(random_weights(), lazy), batches(dense))


def test_steps_with_dropout_equal_autodiff_under_the_same_masks():
    model = make_model(weights=random_weights(), optimizer="adam", dropout=0.4)

    def mask(batch):
        seed = [model.noise_seed, 2 * int(model.optimizer.iterations) + 1]
        kept = tf.random.stateless_uniform((len(batch.inputs), HIDDEN_DIM), seed) >= 0.4
        return kept.numpy() / 0.6

    assert_follows(model, Oracle(random_weights(), lazy=False), batches(), mask)


def test_lazy_adam_leaves_untouched_rows_and_their_moments_alone():
    model = make_model(weights=random_weights())
    train(model, Batch(0, 30).tensors)
    before = {name: value.numpy() for name, value in model.state().items()}
    batch = Batch(1, 4, input_ids=5)
    train(model, batch.tensors)
    untouched = np.setdiff1d(np.arange(INPUT_DIM), batch.touched)
    assert len(untouched) >= INPUT_DIM - 5
    for name in ("hidden_kernel", "hidden_kernel.m", "hidden_kernel.v"):
        changed = model.state()[name].numpy() != before[name]
        assert not changed[untouched].any()
        assert changed[batch.touched].any()


@pytest.mark.parametrize("bias", [-100, -30, 30, 100])
def test_extreme_logits_give_a_finite_loss_and_finite_weights(bias):
    weights = random_weights() | {"output_bias": np.full(NUM_BUCKETS, bias, np.float32)}
    model = make_model(weights=weights)
    batch = Batch(0, 8)
    loss = train(model, batch.tensors)
    if bias < 0:  # what the ones cost is exact
        logits = Oracle(weights, False).logits(Oracle(weights, False).weights, batch.inputs)
        expected = np.sum(-logits.numpy() * batch.targets) / len(batch.targets)
        assert loss == pytest.approx(expected, rel=1e-4)
    assert np.isfinite(loss)
    assert all(np.isfinite(value.numpy()).all() for value in model.state().values())


def test_a_batch_without_any_tokens_or_targets_trains_the_biases_only():
    model = make_model(weights=random_weights())
    nothing, splits = tf.zeros([0], tf.int32), tf.zeros([4], tf.int32)
    batch = {"ids": nothing, "values": tf.zeros([0]), "row_splits": splits}
    train(model, batch | {"buckets": nothing, "bucket_splits": splits})
    start = random_weights()
    np.testing.assert_array_equal(array(model, "hidden_kernel"), start["hidden_kernel"])
    assert (array(model, "output_bias") < start["output_bias"]).all()


def test_tokens_that_occur_twice_in_a_row_add_up():
    model = make_model(weights=random_weights())
    twice = {"ids": [3, 5, 3], "values": [1.0, 2.0, 0.5], "row_splits": [0, 3]}
    once = {"ids": [3, 5], "values": [1.5, 2.0], "row_splits": [0, 2]}
    one, other = (
        model.predict_step({name: tf.constant(value) for name, value in inputs.items()})
        for inputs in (twice, once)
    )
    np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)


@pytest.mark.parametrize("dense", [False, True])
def test_the_model_and_its_pure_function_are_the_plain_network(dense):
    model = make_model(weights=random_weights(), dropout=0.5, input_dropout=0.5)
    weights = {name: weight.read_value() for name, weight in model.weights_by_name().items()}
    probabilities = probability_function(model.config, INPUT_DIM, dense)
    oracle = Oracle(random_weights(), lazy=False)
    for batch in batches(dense):
        inputs = inputs_of(batch.tensors)
        assert inputs.keys() == ({"dense"} if dense else {"ids", "values", "row_splits"})
        np.testing.assert_array_equal(chunk_logits(inputs, weights), model(inputs))
        expected = tf.sigmoid(oracle.logits(oracle.weights, batch.inputs))
        for found in (model.predict_step(batch.tensors), probabilities(inputs, weights)):
            np.testing.assert_allclose(found, expected, rtol=1e-5)


def dataset(some_batches):
    """Batches of many sizes as one tf.data.Dataset, whose element spec is the reader's."""
    signature = {
        name: tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)
        for name, tensor in some_batches[0].tensors.items()
    }
    return tf.data.Dataset.from_generator(
        lambda: (batch.tensors for batch in some_batches), output_signature=signature
    )


@pytest.mark.parametrize("dense", [False, True])
def test_fit_makes_the_same_steps_and_traces_batches_of_any_size_once(dense):
    fitted, stepped = (make_model(dropout=0.5, input_dropout=0.5) for _ in range(2))
    traces = []
    step = fitted.train_step
    fitted.train_step = lambda data: traces.append(1) or step(data)
    history = fitted.fit(dataset(batches(dense)), shuffle=False, verbose=0).history
    losses = [train(stepped, batch.tensors) for batch in batches(dense)]
    assert len(traces) == 1
    assert history["loss"] == [pytest.approx(np.mean(losses))]
    for name, value in stepped.state().items():
        np.testing.assert_allclose(fitted.state()[name], value, rtol=1e-4, atol=1e-6)


def test_a_layer_can_be_swapped_and_callbacks_stop_the_training():
    """As a Keras user expects: autodiff goes through any layer, sparse input layer included."""
    wide = keras.layers.Dense(20, activation="relu")
    scores = keras.Sequential([keras.Input([HIDDEN_DIM]), wide, keras.layers.Dense(NUM_BUCKETS)])
    model = make_model(scores=scores)
    stopper = keras.callbacks.EarlyStopping(monitor="loss", patience=0, min_delta=1e9)
    before = wide.kernel.numpy()
    options = {"epochs": 9, "callbacks": [stopper], "shuffle": False, "verbose": 0}
    assert len(model.fit(dataset(batches()), **options).history["loss"]) == 2
    assert (wide.kernel.numpy() != before).any()


def test_a_linear_decay_is_that_of_python_in_every_bit():
    decay = LinearDecay(3e-3, 2079)
    for step in (0, 1, 77, 1040, 2078):
        assert decay(tf.constant(step)).numpy() == np.float32(3e-3 * (1 - step / 2079))


def state_after(model, some_batches):
    for batch in some_batches:
        train(model, batch.tensors)
    return {name: value.numpy() for name, value in model.state().items()}


def test_training_repeats_itself_bit_for_bit_also_when_taken_up_from_state_and_step():
    noise = {"dropout": 0.5, "input_dropout": 0.3}
    unbroken, first, resumed = (make_model(**noise) for _ in range(3))
    state = state_after(first, batches()[:3])
    for name, variable in resumed.state().items():
        variable.assign(state[name])
    resumed.optimizer.iterations.assign(3)
    expected = state_after(unbroken, batches())
    assert {*expected} == {name + part for name in NAMES for part in ("", ".m", ".v")}
    for model in (first, resumed):
        np.testing.assert_equal(state_after(model, batches()[3:]), expected)


def test_rows_of_variables_are_those_of_the_whole():
    model = make_model()
    whole = state_after(model, batches()[:2])
    for name, variable in model.state().items():
        rows = Rows(variable)
        assert (len(rows), rows.shape) == (len(whole[name]), whole[name].shape)
        for part in (slice(2, 5), slice(0, 99)):
            np.testing.assert_array_equal(rows[part], whole[name][part], strict=True)


def test_weights_differ_between_seeds_and_chunks_and_layers_but_not_between_calls():
    kernels = [
        array(make_model(seed=seed, chunk=chunk), "hidden_kernel")
        for seed, chunk in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    assert len({kernel.tobytes() for kernel in kernels}) == 4
    np.testing.assert_array_equal(array(make_model(seed=0, chunk=1), "hidden_kernel"), kernels[1])
    square = ChunkModel(SolarConfig(hidden_dim=9, num_buckets=9), 9, 0)
    assert (array(square, "hidden_kernel") != array(square, "output_kernel")).all()


def test_kernels_start_from_a_truncated_normal_and_biases_from_zero():
    model = ChunkModel(SolarConfig(hidden_dim=100, num_buckets=300, init_stddev=0.2), 300, 0)
    for kernel in (array(model, "hidden_kernel"), array(model, "output_kernel")):
        assert kernel.mean() == pytest.approx(0, abs=0.005)
        assert kernel.std() == pytest.approx(0.2, rel=0.15)
        assert np.abs(kernel).max() <= 0.4 / 0.87962566  # two deviations, as Keras counts them
    assert not array(model, "hidden_bias").any()
    assert not array(model, "output_bias").any()


def test_weights_of_another_shape_are_refused():
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        make_model(weights=random_weights() | {"output_bias": np.zeros(NUM_BUCKETS + 1, "f4")})


@pytest.mark.parametrize(
    ("dense", "changes", "different"),
    [
        (False, {"dropout": 0.5}, 8),
        (False, {"input_dropout": 0.5}, 8),
        (True, {"dropout": 0.5}, 8),
        (True, {"input_dropout": 0.5}, 1),  # it drops tokens, and dense inputs have none
        (False, {}, 1),
    ],
)
def test_dropout_draws_anew_at_every_step_and_for_every_chunk(dense, changes, different):
    batch = Batch(0, 16, dense).tensors
    models = [make_model(chunk, random_weights(), **changes) for chunk in (0, 1)]
    assert len({train(model, batch, STILL) for model in models for _ in range(4)}) == different


def test_input_dropout_keeps_the_mean_of_what_the_hidden_layer_sums():
    """A network that is linear on one positive token: its mean logit survives dropout."""
    weights = {
        "hidden_kernel": np.ones((INPUT_DIM, HIDDEN_DIM), np.float32),
        "hidden_bias": np.zeros(HIDDEN_DIM, np.float32),
        "output_kernel": np.full((HIDDEN_DIM, NUM_BUCKETS), -1 / HIDDEN_DIM, np.float32),
        "output_bias": np.full(NUM_BUCKETS, -20, np.float32),
    }
    model = make_model(weights=weights, input_dropout=0.25)
    zeros, splits = tf.zeros(20_000, tf.int32), tf.range(20_001)
    batch = {"ids": zeros, "values": tf.ones(20_000), "row_splits": splits}
    batch |= {"buckets": zeros, "bucket_splits": splits}
    # So far below zero the loss of a one is minus its logit, and the zeros cost nothing.
    assert train(model, batch, STILL) == pytest.approx(21, abs=0.02)


@pytest.mark.parametrize(("mixed", "kind"), [(True, tf.bfloat16), (False, tf.float32)])
def test_products_have_the_precision_asked_for_and_weights_float32(mixed, kind):
    """Traced, not run: not every CPU that claims bfloat16 survives it."""
    model = make_model(mixed_precision=mixed)
    for function in (model.train_step, model.predict_step):
        graph = tf.function(function).get_concrete_function(Batch(0, 4).tensors).graph
        nodes = [node for node in graph.get_operations() if node.type == "MatMul"]
        assert {node.outputs[0].dtype for node in nodes} == {kind}
    assert {value.dtype for value in model.state().values()} == {tf.float32}


@pytest.mark.skipif(not cpu_has_bfloat16(), reason="a CPU that is slow at bfloat16, or crashes")
def test_mixed_precision_learns_the_same_within_its_precision():
    losses = []
    for mixed in (False, True):
        model = make_model(weights=random_weights(), mixed_precision=mixed)
        losses.append([train(model, Batch(step % 4, 20).tensors) for step in range(40)])
    assert losses[0] != losses[1]
    np.testing.assert_allclose(*losses, rtol=0.03)
    assert losses[1][-1] < 0.7 * losses[1][0]
