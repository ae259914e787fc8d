// heddle selftest: compares random declarations under random schedules with the interpreter.
#include <iostream>

#include "commands.h"
#include "common/progress.h"
#include "heddle/support/error.h"
#include "heddle/target/target.h"
#include "selftest/pair.h"

namespace heddle::cli {
namespace {

constexpr int kMostFailures = 10;  // further failures are not printed

std::string command_for(const Request& o, uint64_t seed) {
  return "heddle selftest --target \"" + o.target + "\"" + (o.emulate ? " --emulate" : "") +
         (o.compile_for.empty() ? "" : " --compile-for \"" + o.compile_for + "\"") +
         " --count 1 --seed " + std::to_string(seed);
}

selftest::PairOptions pair_options(const Request& o) {
  selftest::PairOptions pair;
  pair.target = Target::parse(o.target);
  pair.emulate = o.emulate;
  pair.only = o.filter;
  pair.config = o.config;
  pair.keep_kernels = o.verbose;
  pair.only_code = o.only_code;
  if (o.only_code && o.emulate)
    throw_user_error("--code runs nothing, and --emulate runs kernels", {}, "leave one out");
  if (o.emulate && !pair.target.is_cuda()) {
    throw_user_error("only GPUs are emulated, not '" + o.target + "'", {},
                     "write --target cuda --emulate, or leave --emulate out");
  }
  if (!o.compile_for.empty()) {
    pair.compile_for = Target::parse(o.compile_for);
    if (pair.target.is_cuda() || pair.compile_for->is_cuda()) {
      throw_user_error("schedules are compiled for another machine between CPUs alone", {},
                       "leave --compile-for out");
    }
  }
  const std::string& compiled = o.compile_for.empty() ? o.target : o.compile_for;
  if (!o.only_code && !o.emulate && !pair.compile_for.value_or(pair.target).runs_here()) {
    throw_user_error("kernels for '" + compiled + "' do not run on this machine", {},
                     pair.target.is_cuda() ? "--emulate runs them on the CPU"
                     : o.compile_for.empty()
                         ? "--compile-for names a CPU that its schedules are compiled for"
                         : "");
  }
  return pair;
}

}  // namespace

int run_selftest(const Request& options) {
  const selftest::PairOptions pair = pair_options(options);
  selftest::Coverage coverage;
  Progress progress;
  int64_t done = 0, passed = 0;
  // The number of draws is limited, because --only may name something that is never drawn.
  const int64_t most_draws = 1000 + 1000 * options.count;
  for (int64_t draw = 0; done < options.count && draw < most_draws; ++draw) {
    const uint64_t seed = options.seed + static_cast<uint64_t>(draw);
    progress.show(std::to_string(done) + " of " + std::to_string(options.count) + " pairs");
    const selftest::PairResult r = selftest::run_pair(seed, pair, &coverage);
    if (!selftest::is_wanted(r, pair)) continue;
    ++done;
    if (r.problem.empty()) ++passed;
    if (r.problem.empty() && !options.verbose && !options.only_code) continue;
    progress.clear();
    if (r.problem.empty()) {
      std::cout << "seed " << seed << ": " << r.text << "\n" << r.code;
      continue;
    }
    std::cout << r.kernels << "seed " << seed << ": " << r.problem << "\n  " << r.text
              << "\n  reproduce: " << command_for(options, seed) << std::endl;
    if (done - passed == kMostFailures) break;
  }
  progress.clear();
  if (done == 0) {
    throw_user_error(options.config.empty() ? "no declaration has the text '" + options.filter + "'"
                                            : "no pair has the text '" + options.config + "'",
                     {}, "--verbose shows what there is");
  }
  if (options.verbose) coverage.print(std::cout);
  std::cout << passed << " of " << done
            << (options.only_code ? " pairs have code" : " pairs passed") << std::endl;
  return passed == done ? 0 : 1;
}

}  // namespace heddle::cli
