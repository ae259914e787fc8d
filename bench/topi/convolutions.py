"""Convolutions of all kinds, and what is beside them in networks."""
import numpy as np
import torch
import torch.nn.functional as F
import torchvision

import heddle as hd

from cases import Case, case, f32, ints

ops = hd.ops


@case("conv2d NCHW", "conv2d_nchw conv2d_NCHWc direct_cuda", "64 x 56 x 56, 64 of 3 x 3")
def conv2d():
    return Case([f32(1, 64, 56, 56), f32(64, 64, 3, 3)], lambda x, w: ops.conv2d(x, w, padding=[1]),
                lambda x, w: F.conv2d(x, w, padding=1), constants=(1,))


@case("conv2d NHWC", "conv2d_nhwc conv2d_nhwc_direct conv2d_nhwc_pack conv2d_nhwc_tensorcore nhwc_tensorcore_cuda "
      "conv2d_gemm_weight_transform", "56 x 56 x 64, 64 of 3 x 3")
def conv2d_nhwc():
    def theirs(x, w):
        return F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1).permute(0, 2, 3, 1)
    return Case([f32(1, 56, 56, 64), f32(3, 3, 64, 64)], lambda x, w: ops.conv2d(x, w, padding=[1], layout="NHWC"),
                theirs, constants=(1,))


@case("conv2d HWCN", "conv2d_hwcn conv2d_hwnc_tensorcore hwnc_tensorcore_cuda", "28 x 28 x 64, batch 16, 64 of 3 x 3")
def conv2d_hwcn():
    def ours(x, w):
        c, r, s = hd.reduce_axis(64), hd.reduce_axis(3), hd.reduce_axis(3)
        return hd.compute((26, 26, 64, 16), lambda i, j, k, n: hd.sum(x[i + r, j + s, c, n] * w[r, s, c, k], [r, s, c]))

    def theirs(x, w):
        return F.conv2d(x.permute(3, 2, 0, 1), w.permute(3, 2, 0, 1)).permute(2, 3, 1, 0)
    return Case([f32(28, 28, 64, 16), f32(3, 3, 64, 64)], ours, theirs, constants=(1,))


@case("conv2d by Winograd's rule", "conv2d_nchw_winograd conv2d_nchw_winograd_without_weight_transform "
      "conv2d_winograd_weight_transform conv2d_winograd_without_weight_transform conv2d_winograd_nnpack_weight_transform "
      "conv2d_nhwc_winograd_direct conv2d_nhwc_winograd_direct_without_weight_transform conv2d_nhwc_winograd_tensorcore "
      "conv2d_nhwc_winograd_tensorcore_without_weight_transform nhwc_winograd_cuda winograd_cuda bgemm_direct "
      "bgemm_tensorcore", "256 x 14 x 14, 256 of 3 x 3")
def winograd():
    return Case([f32(1, 256, 14, 14), f32(256, 256, 3, 3)], lambda x, w: ops.conv2d(x, w, padding=[1]),
                lambda x, w: F.conv2d(x, w, padding=1), constants=(1,))


@case("conv2d of int8", "conv2d_nchw_int8 conv2d_NCHWc_int8 conv_NCHWc_cpu_1x1_int8 conv_NCHWc_cpu_common_int8 "
      "conv2d_nhwc_pack_int8 group_conv2d_nchw_int8 group_conv2d_NCHWc_int8", "56 x 56 x 64 of u8, 64 of 3 x 3 of i8")
def conv2d_int8():
    x, w = ints(0, 255, 1, 56, 56, 64, dtype=np.uint8), ints(-127, 127, 3, 3, 64, 64, dtype=np.int8)

    def theirs(x, w):
        y = F.conv2d(x.permute(0, 3, 1, 2).float(), w.permute(3, 2, 0, 1).float(), padding=1)
        return y.permute(0, 2, 3, 1)
    return Case([x, w], lambda x, w: ops.conv2d(x, w, padding=[1], layout="NHWC", accumulate="i32", output="i32"), theirs,
                constants=(1,))


@case("grouped conv2d", "group_conv2d_nchw group_conv2d_nhwc group_conv2d_nchwc", "128 x 28 x 28, 128 of 3 x 3, 32 groups")
def group_conv2d():
    return Case([f32(1, 128, 28, 28), f32(128, 4, 3, 3)], lambda x, w: ops.conv2d(x, w, padding=[1], groups=32),
                lambda x, w: F.conv2d(x, w, padding=1, groups=32), constants=(1,))


@case("depthwise conv2d NCHW", "depthwise_conv2d_nchw depthwise_conv2d_NCHWc", "96 x 56 x 56, 3 x 3")
def depthwise():
    return Case([f32(1, 96, 56, 56), f32(96, 1, 3, 3)], lambda x, w: ops.depthwise_conv2d(x, w, padding=[1]),
                lambda x, w: F.conv2d(x, w, padding=1, groups=96), constants=(1,))


@case("depthwise conv2d NHWC", "depthwise_conv2d_nhwc", "56 x 56 x 96, 3 x 3")
def depthwise_nhwc():
    def theirs(x, w):
        return F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1, groups=96).permute(0, 2, 3, 1)
    return Case([f32(1, 56, 56, 96), f32(3, 3, 1, 96)],
                lambda x, w: ops.depthwise_conv2d(x, w, padding=[1], layout="NHWC"), theirs, constants=(1,))


@case("gradient of depthwise conv2d by its input", "depthwise_conv2d_backward_input_nhwc", "56 x 56 x 96, 3 x 3")
def depthwise_backward_input():
    def ours(g, w):
        x = hd.placeholder((1, 56, 56, 96))
        return hd.gradient(ops.depthwise_conv2d(x, w, padding=[1], layout="NHWC"), [x], [g])[0]

    def theirs(g, w):
        y = torch.nn.grad.conv2d_input((1, 96, 56, 56), w.permute(3, 2, 0, 1), g.permute(0, 3, 1, 2), padding=1, groups=96)
        return y.permute(0, 2, 3, 1)
    return Case([f32(1, 56, 56, 96), f32(3, 3, 1, 96)], ours, theirs, constants=(1,))


@case("gradient of depthwise conv2d by its weight", "depthwise_conv2d_backward_weight_nhwc", "56 x 56 x 96, 3 x 3")
def depthwise_backward_weight():
    def ours(g, x):
        w = hd.placeholder((3, 3, 1, 96))
        return hd.gradient(ops.depthwise_conv2d(x, w, padding=[1], layout="NHWC"), [w], [g])[0]

    def theirs(g, x):
        y = torch.nn.grad.conv2d_weight(x.permute(0, 3, 1, 2), (96, 1, 3, 3), g.permute(0, 3, 1, 2), padding=1, groups=96)
        return y.permute(2, 3, 1, 0)
    return Case([f32(1, 56, 56, 96), f32(1, 56, 56, 96, seed=1)], ours, theirs, tolerance=1e-3)


@case("conv1d", "conv1d_ncw conv1d_nwc group_conv1d_ncw group_conv1d_nwc", "64 x 4096, 64 of 5")
def conv1d():
    return Case([f32(1, 64, 4096), f32(64, 64, 5)], lambda x, w: ops.conv1d(x, w, padding=[2]),
                lambda x, w: F.conv1d(x, w, padding=2), constants=(1,))


@case("transposed conv1d", "conv1d_transpose_ncw group_conv1d_transpose_ncw", "128 x 512, 64 of 4, stride 2")
def conv1d_transpose():
    return Case([f32(1, 128, 512), f32(128, 64, 4)], lambda x, w: ops.conv_transpose1d(x, w, stride=[2], padding=[1]),
                lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1), constants=(1,))


@case("transposed conv2d", "conv2d_transpose_nchw group_conv2d_transpose_nchw", "128 x 28 x 28, 64 of 4 x 4, stride 2")
def conv2d_transpose():
    return Case([f32(1, 128, 28, 28), f32(128, 64, 4, 4)], lambda x, w: ops.conv_transpose2d(x, w, stride=[2], padding=[1]),
                lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), constants=(1,))


@case("conv3d", "conv3d_ncdhw conv3d_ndhwc direct_conv3d_cuda conv3d_ndhwc_tensorcore ndhwc_tensorcore_cuda "
      "conv3d_ncdhw_winograd conv3d_ncdhw_winograd_without_weight_transform conv3d_winograd_weight_transform "
      "winograd_no_depth_cuda", "32 x 8 x 28 x 28, 32 of 3 x 3 x 3")
def conv3d():
    return Case([f32(1, 32, 8, 28, 28), f32(32, 32, 3, 3, 3)], lambda x, w: ops.conv3d(x, w, padding=[1]),
                lambda x, w: F.conv3d(x, w, padding=1), constants=(1,))


@case("transposed conv3d", "conv3d_transpose_ncdhw group_conv3d_transpose_ncdhw", "32 x 8 x 14 x 14, 16 of 2 x 2 x 2, stride 2")
def conv3d_transpose():
    return Case([f32(1, 32, 8, 14, 14), f32(32, 16, 2, 2, 2)], lambda x, w: ops.conv_transpose3d(x, w, stride=[2]),
                lambda x, w: F.conv_transpose3d(x, w, stride=2), constants=(1,))


@case("deformable conv2d", "deformable_conv2d_nchw deformable_conv2d_nhwc", "64 x 28 x 28, 64 of 3 x 3")
def deformable():
    return Case([f32(1, 64, 28, 28), f32(64, 64, 3, 3), f32(1, 18, 28, 28, low=-2, high=2)],
                lambda x, w, o: ops.deform_conv2d(x, w, o, padding=[1]),
                lambda x, w, o: torchvision.ops.deform_conv2d(x, o, w, padding=1), constants=(1,))


@case("correlation", "correlation_nchw", "32 x 32 x 48, displacements up to 4")
def correlation():
    def theirs(a, b):
        padded = F.pad(b, (4, 4, 4, 4))
        return torch.stack([(a * padded[:, :, i:i + 32, j:j + 48]).mean(1) for i in range(9) for j in range(9)], 1)
    return Case([f32(1, 32, 32, 48), f32(1, 32, 32, 48, seed=1)],
                lambda a, b: ops.correlation(a, b, displacement=4, padding=4), theirs)


@case("grey dilation", "dilation2d_nchw dilation2d_nhwc", "32 x 56 x 56, 3 x 3")
def dilation():
    def theirs(x, w):
        padded = F.pad(x, (1, 1, 1, 1), value=-float("inf"))
        windows = padded.unfold(2, 3, 1).unfold(3, 3, 1)
        return (windows + w[None, :, None, None]).amax((-1, -2))
    return Case([f32(1, 32, 56, 56), f32(32, 3, 3)], lambda x, w: ops.dilation2d(x, w, padding=[1]), theirs, constants=(1,))


@case("pooling", "pool", "64 x 112 x 112, 3 x 3, stride 2")
def pool():
    return Case([f32(1, 64, 112, 112)], lambda x: ops.max_pool(x, kernel=[3], stride=[2], padding=[1]),
                lambda x: F.max_pool2d(x, 3, 2, 1))


@case("adaptive pooling", "adaptive_pool", "256 x 28 x 28 to 7 x 7")
def adaptive_pool():
    return Case([f32(1, 256, 28, 28)], lambda x: ops.adaptive_avg_pool(x, [7, 7]), lambda x: F.adaptive_avg_pool2d(x, 7))


@case("gradient of pooling", "pool_grad", "64 x 56 x 56, 3 x 3, stride 2")
def pool_grad():
    def ours(g, x):
        return hd.gradient(ops.max_pool(x, kernel=[3], stride=[2], padding=[1]), [x], [g])[0]

    def theirs(g, x):
        y, at = F.max_pool2d_with_indices(x, 3, 2, 1)
        return torch.ops.aten.max_pool2d_with_indices_backward(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, at)
    return Case([f32(1, 64, 28, 28), f32(1, 64, 56, 56)], ours, theirs)


@case("local response normalisation", "lrn", "64 x 56 x 56, 5 channels")
def lrn():
    return Case([f32(1, 64, 56, 56)], lambda x: ops.lrn(x, 5, 1e-4, 0.75, 1.0),
                lambda x: F.local_response_norm(x, 5, 1e-4, 0.75, 1.0))


@case("batch normalisation", "batch_norm", "64 x 56 x 56")
def batch_norm():
    return Case([f32(1, 64, 56, 56), f32(64), f32(64, seed=1), f32(64, seed=2), f32(64, seed=3, low=0.5)],
                lambda x, s, b, m, v: ops.batch_norm(x, s, b, m, v), lambda x, s, b, m, v: F.batch_norm(x, m, v, s, b),
                constants=(1, 2, 3, 4))
