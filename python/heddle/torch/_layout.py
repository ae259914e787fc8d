"""The order of elements in memory: tensors that are dense in another order of dimensions than theirs, such as channels_last."""


def order_of_strides(shape, strides):
    """The order of dimensions, outermost first, in which the elements lie densely; None where there is none, as in a slice.

    Row by row it is 0, 1, 2 and so on. Where dimensions of one element lie does not matter.
    """
    wide = [d for d in range(len(shape)) if shape[d] != 1]
    order = sorted(wide, key=lambda d: -strides[d])
    step = 1
    for d in reversed(order):
        if strides[d] != step:
            return None
        step *= shape[d]
    if order == wide:
        return list(range(len(shape)))
    return [d for d in range(len(shape)) if shape[d] == 1] + order


def is_usual(order):
    return all(place == axis for place, axis in enumerate(order))


def inverse(order):
    """The order that undoes `order`."""
    back = [0] * len(order)
    for place, axis in enumerate(order):
        back[axis] = place
    return back
