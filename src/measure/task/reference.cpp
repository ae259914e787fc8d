#include "measure/task/reference.h"

#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "runtime/array/compare_each.h"

namespace heddle::measuring {
namespace {

constexpr size_t kPage = 4096;
constexpr int64_t kSampled = 1024;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

std::string index_text(int64_t position, const std::vector<int64_t>& shape) {
  std::string index;
  for (size_t i = shape.size(); i-- > 0;) {
    index = std::to_string(position % shape[i]) + (index.empty() ? "" : ", ") + index;
    position /= shape[i];
  }
  return "[" + index + "]";
}

std::vector<int64_t> draw_positions(int64_t size, uint64_t seed) {
  std::vector<int64_t> positions{0, size - 1};
  Rng rng(seed);
  while (static_cast<int64_t>(positions.size()) < kSampled) {
    positions.push_back(rng.uniform_int(0, size - 1));
  }
  return positions;
}

}  // namespace

NDArray gather(const NDArray& from, std::span<const int64_t> positions) {
  NDArray out = NDArray::empty({static_cast<int64_t>(positions.size())}, from.dtype());
  const auto width = static_cast<size_t>(from.dtype().bytes());
  for (size_t i = 0; i < positions.size(); ++i) {
    std::memcpy(static_cast<char*>(out.data()) + i * width,
                static_cast<const char*>(from.data()) + static_cast<size_t>(positions[i]) * width,
                width);
  }
  return out;
}

Reference::Reference(const ComputeDag& dag, bool allow_tf32,
                     FunctionRef<SharedRegion(int64_t)> memory)
    : dag_(dag), allow_tf32_(allow_tf32) {
  const size_t count = dag.outputs().size();
  size_t end = round_up(sizeof(Header), 64) + round_up(count * sizeof(driver::Tolerance), 64);
  for (const Tensor& t : dag.outputs()) {
    Output o{t.name(), t.extents(), t.dtype(), end};
    size_t count = 1;
    for (int64_t e : o.shape) count *= static_cast<size_t>(e);
    end += round_up(count * static_cast<size_t>(t.dtype().bytes()), 64);
    o.allowed_offset = end;  // untouched pages take no memory
    end += round_up(count * sizeof(float), 64);
    // A single sum of very many terms is the only case in which a result does not show how large
    // its terms were.
    if (t.op()->is_reduction()) {
      const StageInfo& info = dag.info(dag.index_of(t.op()));
      o.magnitude = 0.5 * std::sqrt(static_cast<double>(info.reduce_points));
    }
    outputs_.push_back(std::move(o));
  }
  // A header of zeros means that the reference is not ready.
  region_ = memory(static_cast<int64_t>(round_up(end, kPage)));
  memory_ = region_.data();
}

bool Reference::ready() const {
  return reinterpret_cast<const Header*>(memory_)->ready.load(std::memory_order_acquire);
}

driver::Tolerance& Reference::tolerance(size_t i) const {
  return reinterpret_cast<driver::Tolerance*>(memory_ + round_up(sizeof(Header), 64))[i];
}

NDArray Reference::values(const Output& o) const {
  return NDArray::wrap(memory_ + o.offset, o.shape, o.dtype);
}

NDArray Reference::allowed(const Output& o) const {
  return NDArray::wrap(memory_ + o.allowed_offset, o.shape, f32);
}

void Reference::store(std::span<const NDArray> outputs, std::span<const NDArray> allowed) {
  HEDDLE_ICHECK(outputs.size() == outputs_.size(), "a reference has all outputs");
  for (size_t i = 0; i < outputs.size(); ++i) {
    values(outputs_[i]).copy_from(outputs[i]);
    tolerance(i) = driver::rounding_tolerance(dag_, outputs[i], outputs_[i].magnitude, allow_tf32_);
    if (!allowed.empty()) this->allowed(outputs_[i]).copy_from(allowed[i]);
  }
  reinterpret_cast<Header*>(memory_)->bounded = !allowed.empty();
  reinterpret_cast<Header*>(memory_)->ready.store(true, std::memory_order_release);
}

Sample Reference::sample(uint64_t seed) const {
  Sample out;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const int64_t size = values(outputs_[i]).size();
    out.push_back(size > 4 * kSampled ? draw_positions(size, seed + i) : std::vector<int64_t>());
  }
  return out;
}

std::string Reference::difference(std::span<const NDArray> outputs, bool all, uint64_t seed) const {
  HEDDLE_ICHECK(outputs.size() == outputs_.size(), "a comparison has all outputs");
  const Sample at = all ? Sample(outputs.size()) : sample(seed);
  std::vector<NDArray> got;
  for (size_t i = 0; i < outputs.size(); ++i)
    got.push_back(at[i].empty() ? outputs[i] : gather(outputs[i], at[i]));
  return difference(got, at);
}

std::string Reference::difference(std::span<const NDArray> gathered, const Sample& sample) const {
  HEDDLE_ICHECK(ready() && gathered.size() == outputs_.size() && sample.size() == outputs_.size(),
                "the reference is not there yet");
  ::mprotect(memory_, static_cast<size_t>(region_.bytes()),
             PROT_READ);  // read-only in this process; a failure only costs protection
  for (size_t i = 0; i < outputs_.size(); ++i) {
    std::string why = difference_of(i, gathered[i], sample[i]);
    if (!why.empty()) return why;
  }
  return "";
}

std::string Reference::difference_of(size_t i, const NDArray& got,
                                     std::span<const int64_t> positions) const {
  const Output& o = outputs_[i];
  const driver::Tolerance t = tolerance(i);
  const bool bounded = reinterpret_cast<const Header*>(memory_)->bounded;
  const bool sampled = !positions.empty();
  const NDArray right = sampled ? gather(values(o), positions) : values(o);
  if (right.size() == 0) return "";
  Difference d;
  if (bounded) {
    d = compare_each(got, right, sampled ? gather(allowed(o), positions) : allowed(o));
  } else if (sampled || !allclose(got, right, t.rtol, t.atol)) {
    d = compare(got, right, t.rtol, t.atol);
  }
  if (d.ok()) return "";
  const int64_t first =
      sampled ? positions[static_cast<size_t>(d.first_mismatch)] : d.first_mismatch;
  char values[96];
  std::snprintf(values, sizeof values, "%.9g for %.9g", d.first_a, d.first_b);
  return "output '" + o.name + "': " + std::to_string(d.mismatches) + " of " +
         std::to_string(right.size()) + (sampled ? " sampled" : "") +
         " elements are wrong, first at " + index_text(first, o.shape) + ": " + values;
}

Schedule vector_schedule(const ComputeDag& dag, const Target& target) {
  constexpr int kColumns = 64;
  Schedule s(dag, target);
  for (int i = 0; i < dag.size(); ++i) {
    const Operation& op = dag.stage(i);
    if (op.is_placeholder() || op.axes().empty()) continue;
    StageRef stage = s.stage(i);
    std::vector<Loop> outer = stage.all_axes();
    if (outer.size() > 1) {
      const Loop last = outer.back();
      outer.pop_back();
      if (op.is_reduction()) {
        auto [block, column] = stage.split(last, kColumns);
        std::vector<Loop> order{block};
        for (const Loop k : stage.all_reduce_axes()) order.push_back(k);
        order.push_back(column);
        stage.reorder(order);
        stage.vectorize(column);
      }
    }
    stage.parallel(stage.fuse(outer));
  }
  return s;
}

void poison(const NDArray& array) {
  // The pattern is NaN in every floating-point type, and an unlikely value of an integer.
  if (array.dtype() == boolean) {
    array.fill(1);
  } else if (array.dtype().is_float()) {
    std::memset(array.data(), 0xff, static_cast<size_t>(array.bytes()));
  } else {
    std::memset(array.data(), 0xab, static_cast<size_t>(array.bytes()));
  }
}

}  // namespace heddle::measuring
