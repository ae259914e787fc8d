// A random declaration with a random config of its template: run, and held against the interpreter.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "selftest/coverage.h"
#include "selftest/random_program.h"
#include "selftest/random_schedule.h"

namespace heddle::selftest {

/// A declaration with inputs, and what the interpreter makes of them.
class Case {
 public:
  /// `seed`: of the inputs. `allow_tf32`: results may be as far off as tf32 is.
  Case(const RandomProgram& program, uint64_t seed, bool allow_tf32 = false);

  /// The arrays of a call: the inputs, and outputs full of a value that no result has.
  std::vector<NDArray> fresh_arrays() const;
  /// "" when the outputs among `arrays` are right, else the first difference.
  /// `growth`: by which factor rounding errors may exceed the declaration's.
  std::string difference(const std::vector<NDArray>& arrays, double growth = 1) const;

 private:
  NDArray gathered(const NDArray& memory, const NDArray& want) const;

  const RandomProgram& program_;
  std::vector<NDArray> inputs_, want_;
  bool allow_tf32_;
};

/// Runs `schedule` on `arrays` in some way: compiled, or emulated.
using Run = std::function<void(const Schedule& schedule, const std::vector<Tensor>& args,
                               const std::vector<NDArray>& arrays)>;

/// Lowers for a GPU and emulates, blocks and warps in the order that `seed` draws.
Run emulated(uint64_t seed);
/// Compiles for `target`, which must be one that runs here, whatever the schedule was made for.
Run compiled(const Target& target);

struct PairResult {
  std::string declaration;  ///< for people
  std::string text;         ///< the same, with the template and its config
  std::string kernels;      ///< with PairOptions::keep_kernels: what a GPU runs
  std::string code;         ///< with PairOptions::only_code: CUDA text or LLVM IR
  std::string problem;      ///< empty: the results are right
};
struct PairOptions {
  Target target;
  bool emulate = false;
  /// The CPU that schedules of `target` are compiled for; none: `target`. Instructions that it
  /// lacks are expanded.
  std::optional<Target> compile_for = {};
  std::string only = {};    ///< not empty: declarations without this text are not run
  std::string config = {};  ///< not empty: pairs without this text in their configs are not run
  bool keep_kernels = false;
  bool only_code = false;  ///< generates code, and runs nothing; any target will do
};
/// A rewrite of `dag` that is legal, whatever is expected of it, each rule as often as the others;
/// or none: "".
std::string random_rewrite(const ComputeDag& dag, const Target& target, Rng& rng);

/// The pair that `seed` draws. What is thrown is a problem, too.
PairResult run_pair(uint64_t seed, const PairOptions& options, Coverage* coverage);

/// Whether run_pair would run what `seed` draws.
bool is_wanted(const PairResult& result, const PairOptions& options);

}  // namespace heddle::selftest
