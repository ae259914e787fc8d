// The right answer of a task, in memory that all worker processes see, and the comparison with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/driver/tolerance.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/schedule/schedule.h"
#include "heddle/support/function_ref.h"
#include "measure/shared_memory.h"

namespace heddle::measuring {

/// The outputs of a DAG. Made by the tuner, filled by one worker, read by all. Readers map it
/// read-only, so that a candidate that writes astray dies of it rather than changing what is right.
class Reference {
 public:
  /// `allow_tf32`: candidates may round products to it (AutoSchedulerOptions). `memory`: makes, or
  /// finds, as many bytes as it is asked for; zeros when they are new.
  explicit Reference(const ComputeDag& dag, bool allow_tf32 = false,
                     FunctionRef<SharedRegion(int64_t)> memory = SharedRegion::anonymous);
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  /// Outputs in the order of the DAG's. `allowed`: how far each element of each may be from a right
  /// answer (f32); empty: a tolerance that goes by the largest.
  void store(std::span<const NDArray> outputs, std::span<const NDArray> allowed = {});
  bool ready() const;
  int64_t bytes() const { return region_.bytes(); }
  /// Where it is, for other processes.
  Json place() const { return region_.place(); }

  /// Empty when `outputs` are right, else where they are not. All elements, or the first, the last
  /// and a thousand drawn by `seed`.
  std::string difference(std::span<const NDArray> outputs, bool all, uint64_t seed) const;

 private:
  struct Header {
    std::atomic<bool> ready{false};
    bool bounded = false;  ///< there is an allowed difference of each element
  };
  struct Output {
    std::string name;
    std::vector<int64_t> shape;
    DataType dtype;
    size_t offset = 0, allowed_offset = 0;
    double magnitude = 0;
  };
  NDArray values(const Output& o) const;
  NDArray allowed(const Output& o) const;
  Tolerance& tolerance(size_t i) const;

  ComputeDag dag_;
  bool allow_tf32_;
  std::vector<Output> outputs_;
  SharedRegion region_;
  char* memory_ = nullptr;  ///< of the region
};

/// The naive schedule, but rows of a reduction are summed as vectors, in the declaration's order:
/// as simple, and 20 to 100 times faster, where the naive one would take seconds.
Schedule vector_schedule(const ComputeDag& dag, const Target& target = Target::host());

/// Fills outputs with what no kernel computes, so that an element that is not written is seen.
void poison(const NDArray& array);

}  // namespace heddle::measuring
