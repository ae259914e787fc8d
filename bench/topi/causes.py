"""What is not covered, and why families are slower than their peer."""

# Schedules of calls of other libraries, which schedule nothing.
LIBRARIES = set("extern batch_matmul_cblas batch_matmul_cublas batch_matmul_mkl conv2d_cudnn conv2d_nchw_dnnl conv2d_nhwc_dnnl conv3d_cudnn "
                "dense_cblas dense_cublas dense_dnnl dense_mkl dense_mkldnn log_softmax_cudnn matmul_cblas matmul_cublas matmul_dnnl "
                "matmul_mkl matmul_mkldnn softmax_cudnn".split())

MISSING = {}

_MERGE = "merging compares log(n)^2 times and writes every step to memory, where a sort by radix or in registers does not"
_NODES = "a node for each step, which start one after the other, where the peer is one loop over a few elements"
_CHANNELS = "the four elements of a sample are looked up one by one, each with its bounds, which are data"
_LONG = " (calls of several ms meet other processes of the machine: {} in quiet runs)"
CAUSES = {
    "scatter": "which update an element takes is found by a scatter of numbers first, of as many 64-bit indices as elements (four fifths of the "
               "time), where the peer is told that the last update of a thread counts",
    "scatter with sums": "sums are added element by element in the order of the updates, where the peer adds rows",
    "sort": _MERGE, "sort of one long row": _MERGE + _LONG.format(0.31), "different elements": _MERGE,
    "DFT": "two products with matrices of the roots of 32, of n^1.5 operations, and moves between them, where the peer has a fast transform of "
           "n log(n) in cache",
    "positions that are not 0": _NODES,
    "ROI pool": "extents of loops are not data, so each bin passes over all columns and rows of the image, most of which it leaves out" +
                _LONG.format(0.13),
    "ROI align": _CHANNELS, "grid_sample": _CHANNELS,
    "conv1d": "results lie 16 KiB apart for neighbouring filters, so that a tile's stores fall into one set of the L1 cache; with 4000 positions "
              "in place of 4096 it is faster than the peer",
    "transposed conv2d": "the image is transposed to its channels' order in a node of its own behind the product",
    "sparse dense": "places behind the end of shorter rows are computed and masked",
    "csrmm": "places behind the end of shorter rows are computed and masked",
    "sparse conv2d 3 x 3": "windows of the image are copied before the sparse product; the peer is the dense convolution",
    "sparse dense of blocks": "rows of a block read the same elements of x one by one",
    "deformable conv2d": _CHANNELS,
    "STFT": "windows are copied, and transformed by products with matrices of roots, of n^1.5 operations",
}
_NOISE = "near 1 in other runs (0.94 to 1.5): what a shared machine moves between runs"
CAUSES |= dict.fromkeys(("dense", "reductions", "transpose", "concatenate"), _NOISE)

# Why families are slower on a GPU, where the cause is another one than on a CPU.
_SOURCES = ("sums have the order of the updates: each lane owns rows of a column and goes through all updates of it, and those that it finds follow each "
            "other, where the peer's threads race")
_SIMT = "products of f32 without matrix units, near the rate of the best tile that the rule has"
CAUSES_GPU = {
    "scatter with sums": _SOURCES,
    "DFT": "products of f32 by matrices of roots in two kernels, and moves between them, of n^1.5 operations",
    "sparse dense": "lanes of a warp take the elements of one row, of which there are about 50",
    "csrmm": "lanes of a warp take the elements of one row, of which there are about 50",
    "sort": "one block a row, whose threads wait for each other after each of log(n)^2 / 2 steps, where the peer sorts by radix in registers",
    "different elements": "one block sorts the row by merging, log(n)^2 / 2 steps that follow each other, and other multiprocessors wait",
    "sort of one long row": "a kernel for each of tens of steps, because a row of 16384 values and positions does not fit the memory of a block",
    "dense": _SIMT, "conv3d": _SIMT, "transposed conv2d": _SIMT + "; what the taps give is put together in a launch of its own",
    "grouped conv2d": "a few microseconds: 4 channels of a group for each result, of which a thread has few at a time",
    "deformable conv2d": "what windows see is written to memory for the product, as by the peer, and positions of all channels were computed in "
                         "it when this was measured",
}
