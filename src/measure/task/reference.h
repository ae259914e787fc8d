// The reference results of a task, in memory that all worker processes map, and the comparison with
// them.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "driver/tolerance.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/schedule/schedule.h"
#include "heddle/support/function_ref.h"
#include "measure/task/shared_memory.h"

namespace heddle::measuring {

/// Positions of elements (in row-major order) of each output that are compared in place of all of
/// them. An output without positions is compared whole.
using Sample = std::vector<std::vector<int64_t>>;

/// The elements of `from`, an array in the memory of this process, at `positions`.
NDArray gather(const NDArray& from, std::span<const int64_t> positions);

/// The outputs of a DAG. The tuner makes the memory, one worker fills it, and all read it. Readers
/// map it read-only, so that a candidate that writes to a wrong address crashes and does not change
/// the reference.
class Reference {
 public:
  /// With `allow_tf32`, candidates may round products to tf32 (AutoSchedulerOptions). `memory`
  /// makes or finds the requested number of bytes; new ones are zeros.
  explicit Reference(const ComputeDag& dag, bool allow_tf32 = false,
                     FunctionRef<SharedRegion(int64_t)> memory = SharedRegion::anonymous);
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  /// Stores outputs in the order of the DAG. `allowed` is the allowed difference of each element
  /// (f32). Where it is empty, the tolerance is relative to the largest element.
  void store(std::span<const NDArray> outputs, std::span<const NDArray> allowed = {});
  bool ready() const;
  int64_t bytes() const { return region_.bytes(); }
  /// The place of the memory, for other processes.
  Json place() const { return region_.place(); }

  /// The first element, the last one and a thousand drawn by `seed` of each large output.
  Sample sample(uint64_t seed) const;
  /// Compares `outputs` with the reference: all elements, or those of sample(seed). Returns "" when
  /// they agree, else a description of the difference.
  std::string difference(std::span<const NDArray> outputs, bool all, uint64_t seed) const;
  /// The same for the elements that `sample` names, where only those were taken from the outputs.
  std::string difference(std::span<const NDArray> gathered, const Sample& sample) const;

 private:
  struct Header {
    std::atomic<bool> ready{false};
    bool bounded = false;  ///< whether there is an allowed difference for each element
  };
  struct Output {
    std::string name;
    std::vector<int64_t> shape;
    DataType dtype;
    size_t offset = 0, allowed_offset = 0;
    double magnitude = 0;
  };
  std::string difference_of(size_t i, const NDArray& got, std::span<const int64_t> positions) const;
  NDArray values(const Output& o) const;
  NDArray allowed(const Output& o) const;
  driver::Tolerance& tolerance(size_t i) const;

  ComputeDag dag_;
  bool allow_tf32_;
  std::vector<Output> outputs_;
  SharedRegion region_;
  char* memory_ = nullptr;  ///< address of the region
};

/// The naive schedule with rows of a reduction summed as vectors, in the declaration's order. It is
/// as simple, and 20 to 100 times faster where the naive schedule would take seconds.
Schedule vector_schedule(const ComputeDag& dag, const Target& target = Target::host());

/// Fills outputs with values that no kernel computes, so that an unwritten element is detected.
void poison(const NDArray& array);

}  // namespace heddle::measuring
