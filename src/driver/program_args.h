// Functions that build() and export_kernel() share: the target, lowering under the options, and the
// arguments of the result.
#pragma once

#include <set>
#include <vector>

#include "heddle/driver/build.h"

namespace heddle::driver {

/// The target of the schedule. Throws a User error where the options name another one, and for
/// loops bound to blocks and threads in a schedule that is not for a GPU.
const Target& target_of(const Schedule& schedule, const BuildOptions& options);

/// `listed`, followed by the constants with values that the declaration reads and the list leaves
/// out. The kernel supplies those.
std::vector<Tensor> with_bound(const Schedule& schedule, const std::vector<Tensor>& listed);

LoweredProgram lower_for_build(const Schedule& schedule, const std::vector<Tensor>& args,
                               const BuildOptions& options);
GpuProgram lower_for_gpu(const Schedule& schedule, const std::vector<Tensor>& args,
                         const BuildOptions& options);

/// The inputs of a declaration in order of use, then its outputs.
std::vector<Tensor> declared_args(const ComputeDag& dag);

/// Whether the schedule of a CPU has products of tiles of a matrix unit.
bool uses_tiles(const Schedule& schedule);

/// Throws where a schedule that was made for another machine or other extents cannot be compiled for
/// its target.
void check_lowers(const Schedule& schedule);

/// The arguments: the listed ones, then the constants, then the kept results of constants. `all` is
/// the result of with_bound, of which the first `listed` are arguments of the kernel.
/// `constant_args` says which of them `prepare` takes. `sizes` are those of the program, on which
/// extents may depend.
std::vector<KernelArg> kernel_args(const std::vector<Tensor>& all, size_t listed,
                                   const std::vector<int>& constant_args,
                                   const std::vector<Var>& sizes = {});
/// The extents that depend on `sizes`.
std::vector<SymbolicExtent> symbolic_extents(const Shape& shape, const std::vector<Var>& sizes);
std::vector<KernelSize> kernel_sizes(const std::vector<Var>& sizes);
std::vector<BoundConstant> bound_constants(const std::vector<Tensor>& all, size_t listed);
std::vector<KernelArg> persistent_args(const LoweredProgram& program);

/// The buffers that a function reads, writes or prefetches.
std::set<const BufferNode*> touched_buffers(const Stmt& body);

/// The floating-point types of the values of a graph, the shortest first.
std::vector<DataType> float_types(const ComputeDag& dag);

/// The work of a call: the arithmetic of all stages that are not precomputed, without keys of attention that no row needs. Its roof is for the shortest floating-point type of the graph.
KernelWork work_of(const ComputeDag& dag, const Target& target);

}  // namespace heddle::driver
