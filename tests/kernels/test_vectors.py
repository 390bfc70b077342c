"""Directions as whole numbers: products are exact whatever the blocks, and cosines are those of float64."""

import numpy as np
import pytest

from dataplane.kernels.vectors import MAX_WIDTH, cosines, lengths, products, whole_numbers


@pytest.mark.parametrize("width", [1, 7, 384, 1536, MAX_WIDTH])
def test_products_are_exact_and_cosines_close(width: int) -> None:
    draw = np.random.default_rng(width)
    vectors = draw.standard_normal((40, width)) ** 3
    vectors[1] = vectors[0]
    vectors[2] = np.eye(1, width)[0]
    whole = whole_numbers(vectors)
    exact = whole.astype(np.int64) @ whole.astype(np.int64).T
    assert np.array_equal(products(whole, whole), exact)
    assert exact.max() < 1 << 24
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.abs(cosines(whole, whole) - unit @ unit.T).max() < 1e-3
    for start in range(0, 40, 7):
        assert np.array_equal(cosines(whole[start : start + 7], whole), cosines(whole, whole)[start : start + 7])


def test_a_vector_of_zeros_is_like_nothing() -> None:
    whole = whole_numbers(np.array([[0.0, 0.0], [3.0, 4.0]]))
    assert whole.tolist() == [[0, 0], [2400, 3200]]
    assert lengths(whole).tolist() == [1.0, 4000.0]
    assert cosines(whole, whole).tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_vectors_that_are_too_wide_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 16384"):
        whole_numbers(np.ones((1, MAX_WIDTH + 1)))
