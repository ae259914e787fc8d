// Declarations shared by the files of this folder.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/support/function_ref.h"

namespace heddle {

struct ComputeDag::Impl {
  std::vector<Tensor> outputs;
  std::vector<Ref<const Operation>> stages;
  std::unordered_map<const Operation*, int> index;
  std::vector<StageInfo> infos;
  /// The hash is made when it is first asked for: graphs between passes are never asked.
  mutable std::once_flag hashed;
  mutable uint64_t hash = 0;

  /// Finds the stages that `of` needs and their edges, producers first.
  void add_stages(const std::vector<Tensor>& of);
  /// Fills in the facts and the class of stage `s`. Its producers must have been analysed.
  void analyze(std::size_t s);
};

namespace dag {

/// The constant extent, or the largest that a symbolic one can be.
int64_t extent_of(const Expr& extent);

/// `text` with its items as "a", "a and b", "a, b and c".
std::string join_words(const std::vector<std::string>& items);

/// The expressions that are evaluated in the innermost loop: the sources of a reduction, else the
/// bodies.
const std::vector<Expr>& inner_bodies(const Operation& op);

/// The name of a read for messages: "A", or "A[i, k]" where `reads` has A more than once.
std::string read_name(const Access& read, const std::vector<Access>& reads);

// ---- work.cpp ----
struct Work {
  double flops = 0;    ///< operations of one innermost evaluation
  double special = 0;  ///< of which transcendental
};
Work count_work(const Operation& op);

// ---- cases.cpp ----
/// StageInfo::case_periods; `periods_of` are those of the producers.
std::vector<int64_t> case_periods(const Operation& op, const std::vector<Access>& reads,
                                  FunctionRef<const std::vector<int64_t>&(int)> periods_of);

// ---- scan.cpp ----
/// StageInfo::scan.
std::optional<ScanInfo> find_scan(const Operation& op);

// ---- classify.cpp ----
struct Consumer {
  std::string name;
  AccessPattern pattern = AccessPattern::Elementwise;  ///< the most general of its reads
};
/// Fills stage_class and reason from the rest of `info`.
void classify(const Operation& op, const std::vector<Consumer>& consumers, StageInfo* info);

// ---- structural_hash.cpp ----
using StageIndex = std::unordered_map<const Operation*, int>;
enum class Detail : uint8_t {
  Whole,      ///< extents and all
  Structure,  ///< without extents and what follows from them
};
uint64_t hash_stages(const std::vector<Ref<const Operation>>& stages, const StageIndex& index,
                     const std::vector<Tensor>& outputs, Detail detail = Detail::Whole);

}  // namespace dag
}  // namespace heddle
