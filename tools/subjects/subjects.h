// What the command line can explain and time: a subject's text becomes a declaration, the arrays it
// takes, and the calls of other libraries that compute the same.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heddle/dsl/dim.h"
#include "heddle/dsl/tensor.h"
#include "heddle/dsl/update.h"
#include "heddle/runtime/ndarray.h"
#include "peers/gemm_shape.h"
#include "subjects/arguments.h"

namespace heddle::cli {

class PeerSet;

/// Which of the machine's ceilings a subject is held against.
enum class Bound : uint8_t {
  Compute,  ///< multiply-adds
  Read,     ///< memory that is read, and little written
  Copy,     ///< memory that is read and written
};

/// Random numbers of an argument lie in here.
struct Range {
  double low = -1, high = 1;
};

/// A subject, declared.
struct Problem {
  std::string subject;  ///< as typed
  DataType dtype;
  std::vector<Tensor> inputs, outputs;
  Bound bound = Bound::Compute;
  double flops = 0;   ///< of the textbook algorithm; 0: as the DAG counts them
  int64_t bytes = 0;  ///< every input read once, every output written once
  /// How large partial results get, where the results themselves do not tell: a sum of very many
  /// numbers may come out near zero, and its rounding errors do not.
  double magnitude = 0;
  std::vector<Range> ranges = {};  ///< of the leading inputs; the others lie in the default range
  std::vector<Dim> dims = {};      ///< of a model over ranges of sizes
  Updates updates = {};            ///< of the states of a model, which are among the inputs
  std::function<void(PeerSet&)> peers = {};  ///< adds what libraries for CPUs have for this
  /// The product of inputs 0 and 1 that it is, for libraries on GPUs.
  std::optional<peers::GemmShape> product = {};

  std::vector<Tensor> args() const;  ///< inputs, then outputs: the order of the kernel's arguments
  NDArray make_input(size_t i) const;
  std::vector<NDArray> make_inputs() const;
  std::vector<NDArray> make_outputs() const;  ///< filled with what no kernel would write
};

struct SubjectKind {
  std::string group;  ///< heading in `heddle list`
  std::string about;
  Grammar grammar;
  Problem (*declare)(const Arguments& arguments, DataType dtype) = nullptr;
  bool network = false;  ///< tuned part by part, not as one kernel
};

const std::vector<SubjectKind>& subject_kinds();
/// The kind of this name; an unknown one is a User error with a hint.
const SubjectKind& subject_kind(const std::string& name);

/// Parses and declares. A subject that makes no sense is a User error.
Problem make_problem(const std::string& subject, DataType dtype);

/// A named list of subjects, as in the benchmark plan.
struct Workload {
  std::string subject;
  DataType dtype = f32;
};
struct WorkloadList {
  std::string name, about;
  std::vector<Workload> workloads;
};
const std::vector<WorkloadList>& workload_lists();
/// "all" gives every list's; an unknown name is a User error with a hint.
std::vector<Workload> workloads_of(const std::string& list);

// The parts of the registry, one a source file.
std::vector<SubjectKind> linalg_subjects();
std::vector<SubjectKind> conv_subjects();
std::vector<SubjectKind> row_subjects();
std::vector<SubjectKind> image_subjects();
std::vector<SubjectKind> block_subjects();

}  // namespace heddle::cli
