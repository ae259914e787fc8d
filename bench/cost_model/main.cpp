// cost_model_bench collect samples.tsv [configs a task]
// cost_model_bench evaluate samples.tsv [rounds=n] [depth=n] [eta=x] [objective=name] ...
#include <cstdio>
#include <cstdlib>

#include "bench.h"
#include "heddle/support/error.h"

int main(int argc, char** argv) try {
  std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() >= 2 && args[0] == "collect")
    return heddle::bench::collect(args[1], args.size() > 2 ? std::atoi(args[2].c_str()) : 150);
  if (args.size() >= 2 && args[0] == "evaluate")
    return heddle::bench::evaluate(args[1], {args.begin() + 2, args.end()});
  std::fprintf(stderr,
               "usage: cost_model_bench collect FILE [configs a task] | "
               "evaluate FILE [name=value...]\n");
  return 2;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
