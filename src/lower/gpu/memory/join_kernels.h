// Horizontal fusion: launches of programs that do not depend on each other become one launch, whose
// blocks are divided among them. Small kernels then run side by side, where one after the other
// would each leave most of the GPU idle.
//
//   before: launch a<<<(6, 8), (32, 4)>>>(x, y)    launch b<<<20, 256>>>(x, z)
//
//   after:  launch a_b<<<68, 256>>>(x, y, x, z):
//             if (blockIdx.x < 48) { if (threadIdx.x >= 128) return; a in block blockIdx.x }
//             else b in block blockIdx.x - 48
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heddle/lower/gpu_program.h"
#include "heddle/target/gpu.h"

namespace heddle::gpu {

/// Whether the kernel can be a part of a launch: it has neither a tail nor clusters, pairs or tensor maps,
/// or is a launch of such parts.
/// Where its threads exchange values or wait for each other, its blocks have whole warps. Where it depends on
/// symbolic sizes, they do neither, and its grid has one dimension.
bool can_join(const GpuKernel& kernel);

/// The number of blocks of a part of a launch, in terms of the sizes.
Expr blocks_of(const GpuKernel& part);

/// Whether a GPU runs all blocks of these kernels at once as one launch, as far as threads, shared memory and
/// usual numbers of registers say, and no block keeps others from much of that. Those of kernels that only move
/// elements may come in as many rounds as `rounds_of_moves`.
bool fit_in_one_launch(const std::vector<const GpuKernel*>& kernels, const Gpu& gpu,
                       int64_t rounds_of_moves = 1);

/// Lets kernels of a program share launches where none reads or writes what another one writes, such as the
/// copies of both operands of a product, and all of a launch fit or only move elements.
///   a_copy = .. a ..; b_copy = .. b ..; c = a_copy * b_copy   -->   a_copy | b_copy; c = a_copy * b_copy
void join_launches(GpuProgram& program, const Gpu& gpu);

/// Programs as one program, whose args and sizes are those of all parts, one part after the other; a size of
/// several parts is one. The first launches of all parts become one, then the second ones, and so on: those that
/// become one must be of kernels that can_join. Preparation, persistent buffers and workspaces are
/// those of all parts. Buffers of the result are new, so a program may be several parts. `name` is
/// that of the result, and begins the names of its kernels.
GpuProgram join_programs(const std::string& name, std::span<const GpuProgram> parts);

}  // namespace heddle::gpu
