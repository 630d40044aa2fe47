import numpy as np

from solar_tf.baselines.convolution import mean_activations, windows


def test_windows_end_with_their_title():
    found = windows(np.array([0, 3, 3, 4]), np.array([7, 8, 9, 5], np.int32))
    assert found.tolist() == [
        [-1, -1, 7, 8, 9],
        [-1, 7, 8, 9, -1],
        [7, 8, 9, -1, -1],
        [-1, -1, 5, -1, -1],
    ]


def test_activations_are_keras_convolutions():
    """Over padded titles of each length, as SNRM's authors have it."""
    import keras

    generator = np.random.default_rng(0)
    shapes = {"convolution": (5 * 4, 6), "narrow": (6, 3), "wide": (3, 9)}
    weights = {name: generator.normal(size=s).astype(np.float32) for name, s in shapes.items()}
    weights["word_vectors"] = generator.normal(size=(11, 4)).astype(np.float32)
    splits, words = np.array([0, 7, 7, 8, 10]), generator.integers(11, size=10).astype(np.int32)
    found = mean_activations(weights, splits, words)
    assert found.dtype == np.float32 and not found[1].any()
    for row in (0, 2, 3):
        x = weights["word_vectors"][words[splits[row] : splits[row + 1]]][None]
        for name, width in (("convolution", 5), ("narrow", 1), ("wide", 1)):
            units = shapes[name][1]
            layer = keras.layers.Conv1D(
                units, width, padding="same", activation="relu", use_bias=False
            )
            layer.build(x.shape)
            layer.set_weights([weights[name].reshape(width, -1, units)])
            x = layer(x)
        np.testing.assert_allclose(found[row], np.asarray(x)[0].mean(axis=0), atol=1e-4)
