"""Samples and regions of images, boxes, suppression."""
import numpy as np
import torch
import torch.nn.functional as F
import torchvision

import heddle as hd

from cases import Case, case, f32, ints

ops = hd.ops


@case("resize, nearest", "", "64 x 56 x 56 to 112 x 112")
def resize_nearest():
    return Case([f32(1, 64, 56, 56)], lambda x: ops.resize(x, [112, 112], "nearest", "asymmetric", "floor"),
                lambda x: F.interpolate(x, (112, 112)))


@case("resize, linear", "", "64 x 56 x 56 to 112 x 112")
def resize_linear():
    return Case([f32(1, 64, 56, 56)], lambda x: ops.resize(x, [112, 112]), lambda x: F.interpolate(x, (112, 112), mode="bilinear"))


@case("resize, cubic", "", "3 x 224 x 224 to 320 x 320")
def resize_cubic():
    return Case([f32(1, 3, 224, 224)], lambda x: ops.resize(x, [320, 320], "cubic"),
                lambda x: F.interpolate(x, (320, 320), mode="bicubic"))


@case("grid_sample", "", "32 x 64 x 64 at 64 x 64")
def grid_sample():
    return Case([f32(1, 32, 64, 64), f32(1, 64, 64, 2)], lambda x, g: ops.grid_sample(x, g),
                lambda x, g: F.grid_sample(x, g, align_corners=False))


@case("affine_grid", "", "16 of 128 x 128")
def affine_grid():
    return Case([f32(16, 2, 3)], lambda t: ops.affine_grid(t, [128, 128]),
                lambda t: F.affine_grid(t, (16, 1, 128, 128), align_corners=False))


def boxes_in(count, width, height, seed=0):
    r = np.random.default_rng(seed)
    low = r.random((count, 2)) * [width * 0.7, height * 0.7]
    size = (0.05 + 0.2 * r.random((count, 2))) * [width, height]
    return np.concatenate([low, low + size], 1).astype(np.float32)


@case("crop_and_resize", "", "16 regions of 32 x 64 x 64 to 14 x 14")
def crop_and_resize():
    boxes = boxes_in(16, 1, 1)[:, [1, 0, 3, 2]]

    def expected(x, b, i):
        places = [np.linspace(b[:, s], b[:, s + 2], 14, axis=1).astype(np.float32) for s in (0, 1)]
        grid = np.stack(np.broadcast_arrays(places[1][:, None, :], places[0][:, :, None]), -1) * 2 - 1
        return F.grid_sample(torch.from_numpy(x[i]), torch.from_numpy(grid), align_corners=True).numpy()
    return Case([f32(2, 32, 64, 64), boxes, ints(0, 2, 16)], lambda x, b, i: ops.crop_and_resize(x, b, i, 14, 14), numpy=expected)


@case("ROI align", "roi_align", "32 regions of 64 x 50 x 50 to 7 x 7")
def roi_align():
    boxes = boxes_in(32, 800, 800)
    return Case([f32(1, 64, 50, 50), boxes, np.zeros(32, np.int64)],
                lambda x, r, b: ops.roi_align(x, r, b, 7, 7, 1 / 16, 2, half_pixel=False),
                lambda x, r, b: torchvision.ops.roi_align(x, torch.cat([b[:, None].float(), r], 1), 7, 1 / 16, 2))


@case("ROI pool", "roi_pool", "32 regions of 64 x 50 x 50 to 7 x 7")
def roi_pool():
    boxes = np.concatenate([np.zeros((32, 1), np.float32), boxes_in(32, 800, 800)], 1)
    return Case([f32(1, 64, 50, 50), boxes], lambda x, r: ops.roi_max_pool(x, r, 7, 7, 1 / 16),
                lambda x, r: torchvision.ops.roi_pool(x, r, 7, 1 / 16))


@case("reorg", "reorg", "64 x 26 x 26, stride 2")
def reorg():
    def theirs(x):
        return x.reshape(1, 64, 13, 2, 13, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 256, 13, 13)
    return Case([f32(1, 64, 26, 26)], lambda x: ops.space_to_depth(x, 2), theirs)


@case("valid counts", "get_valid_counts", "2500 boxes by score")
def valid_counts():
    def ours(rows):
        keep = hd.compute((2500,), lambda i: rows[i, 1] > 0.5)
        return ops.compress(rows, keep, 0)
    return Case([f32(2500, 6, low=0)], ours, lambda rows: rows[rows[:, 1] > 0.5], rows=lambda out: out[0][:int(out[1])])


@case("non-maximum suppression", "nms", "1000 boxes, the best 50")
def nms():
    boxes, scores = boxes_in(1000, 200, 200), f32(1000, low=0)

    def ours(b, s):
        kept, count = ops.non_max_suppression(ops.reshape(b, [1, 1000, 4]), ops.reshape(s, [1, 1, 1000]), 50, 0.5)
        return [kept, count]
    return Case([boxes, scores], ours, lambda b, s: torchvision.ops.nms(b, s, 0.5)[:50],
                rows=lambda out: out[0][:int(out[1]), 2])


@case("prior boxes", "multibox_prior", "38 x 38, 2 sizes, 3 ratios")
def multibox_prior():
    shapes = np.array([(s * r ** 0.5, s / r ** 0.5) for s, r in ((0.1, 1), (0.14, 1), (0.1, 2), (0.1, 0.5))], np.float32)

    def ours(s):
        def side(i, j, k, c):
            half = hd.cast("f32", hd.select(c < 2, -0.5, 0.5))
            place = hd.cast("f32", hd.select(c % 2 == 0, j, i))
            return (place + 0.5) / 38.0 + half * s[k, c % 2]
        return hd.compute((38, 38, 4, 4), side)

    def expected(s):
        i, j = np.meshgrid(np.arange(38), np.arange(38), indexing="ij")
        centre = (np.stack([j, i], -1)[:, :, None] + 0.5) / 38
        return np.concatenate([centre - s / 2, centre + s / 2], -1)
    return Case([shapes], ours, numpy=expected)


def moved(anchors, deltas, xp_exp, stack):
    """Boxes: anchors moved and scaled, as in Faster R-CNN."""
    w, h = anchors[:, 2] - anchors[:, 0], anchors[:, 3] - anchors[:, 1]
    x, y = anchors[:, 0] + w / 2 + deltas[:, 0] * w, anchors[:, 1] + h / 2 + deltas[:, 1] * h
    w, h = xp_exp(deltas[:, 2]) * w, xp_exp(deltas[:, 3]) * h
    return stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1)


def moved_boxes(anchors, deltas, count):
    def side(i, c):
        at = c % 2
        size = anchors[i, at + 2] - anchors[i, at]
        centre = anchors[i, at] + size * 0.5 + deltas[i, at] * size
        half = hd.cast("f32", hd.select(c < 2, -0.5, 0.5))
        return centre + half * (hd.exp(deltas[i, at + 2]) * size)
    return hd.compute((count, 4), side)


@case("boxes from anchors", "multibox_transform_loc", "5776 boxes")
def transform_loc():
    return Case([boxes_in(5776, 1, 1), f32(5776, 4)], lambda a, d: moved_boxes(a, d, 5776),
                lambda a, d: moved(a, d, torch.exp, torch.stack))


def detected(boxes, scores, count, most):
    kept, found = ops.non_max_suppression(ops.reshape(boxes, [1, count, 4]), ops.reshape(scores, [1, 1, count]), most, 0.7)
    rows = hd.compute((most, 4), lambda i, c: boxes[hd.min(hd.max(kept[i, 2], 0), count - 1), c])
    return [rows, found]


def first_rows(out):
    return out[0][:int(out[1])]


@case("detection: boxes from anchors, suppressed", "multibox_detection", "1000 boxes, the best 20")
def multibox_detection():
    def theirs(a, d, s):
        boxes = moved(a, d, torch.exp, torch.stack)
        return boxes[torchvision.ops.nms(boxes, s, 0.7)[:20]]
    return Case([boxes_in(1000, 1, 1), f32(1000, 4), f32(1000, low=0)],
                lambda a, d, s: detected(moved_boxes(a, d, 1000), s, 1000, 20), theirs, rows=first_rows)


@case("proposals: the best boxes, moved, suppressed", "proposal", "4096 anchors, 512 before and 20 after")
def proposal():
    def ours(a, d, s):
        best, at = ops.top_k(s, 512)
        boxes = moved_boxes(ops.gather(a, at), ops.gather(d, at), 512)
        return detected(ops.clip(boxes, 0.0, 1.0), best, 512, 20)

    def theirs(a, d, s):
        best, at = s.topk(512)
        boxes = moved(a[at], d[at], torch.exp, torch.stack).clip(0, 1)
        return boxes[torchvision.ops.nms(boxes, best, 0.7)[:20]]
    return Case([boxes_in(4096, 1, 1), f32(4096, 4), f32(4096, low=0)], ours, theirs, rows=first_rows)
