// Compares evolutionary search with a cost model against random search, on one subject.
//
//   search_compare matmul:512x512x512 --threads 1
//
// A machine whose speed changes between two runs would make the comparison worthless. The runs of
// all policies and seeds therefore advance together, batch by batch, with one measurer, and each
// config is timed once, whichever run proposes it. The best configs of each run at each stage are
// raced in the end, in one process and in interleaved rounds. Only times of the race are compared.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "comparison.h"
#include "support/file.h"
#include "support/table.h"

namespace {

using namespace heddle;
using bench::CompareOptions, bench::Comparison;

std::string text_of(const Json& r, const CompareOptions& o) {
  std::string out = o.subject + ": " + std::to_string(r.at("configs_timed").as_int()) +
                    " configs timed of " + format_fixed(r.at("space").as_double(), 0) + ", " +
                    std::to_string(r.at("raced").as_int()) + " raced in " +
                    std::to_string(r.at("race_rounds").as_int()) + " rounds, static " +
                    format_fixed(r.at("static_ms").as_double(), 4) + " ms\n";
  for (const char* name : {"random", "evolution", "warm"}) {
    const Json* s = r.find(name);
    if (!s) continue;
    char line[64];
    std::snprintf(line, sizeof line, "  %-10s", name);
    out += line;
    for (const Json& run : s->at("runs").elements()) {
      out += " " + format_fixed(run.at("raced_ms").as_double(), 4);
      if (const Json* all = run.find("raced_ms_of_all")) {
        out += " (" + format_fixed(all->as_double(), 4) + ")";
      } else {
        const int64_t n = run.at("reaches_random_after").as_int();
        out += n < 0 ? " (never)" : " (at " + std::to_string(n) + ")";
      }
    }
    if (const Json* gain = r.find(std::string(name) + "_gain")) {
      out += "  gain " + format_fixed(gain->as_double(), 3) + ", without the static choice " +
             format_fixed(r.at(std::string(name) + "_gain_found").as_double(), 3);
    }
    out += "\n";
  }
  return out;
}

int run(const CompareOptions& o) {
  Comparison comparison(o);
  if (!comparison.run()) {
    std::cerr << "the time was up; " << (o.log.empty() ? "" : "the same command goes on\n");
    return 3;
  }
  comparison.race();
  const Json result = comparison.result();
  if (!o.json.empty()) write_file_atomic(o.json, result.dump(1) + "\n");
  std::cout << text_of(result, o);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CompareOptions o;
  CLI::App app{
      "Evolution with a cost model against random search: equal trials, several seeds, all runs "
      "at\n"
      "the same time on one measurer, their best raced in the end. Prints, for each seed, the "
      "raced\n"
      "time in ms of what was found in --trials (random: and in all of its trials; evolution: the\n"
      "trial that reached it); gain: geometric mean of random's over evolution's, with\n"
      "the static choice, which both are given, and without."};
  app.add_option("subject", o.subject, "As heddle tune takes it")->required();
  app.add_option("--threads", o.threads, "Of the kernels (1)")->check(CLI::Range(1, 1024));
  app.add_option("--seeds", o.seeds, "Runs of each policy (3)")->check(CLI::Range(1, 100));
  app.add_option("--batch", o.batch, "Candidates of a round (32)")->check(CLI::Range(1, 4096));
  app.add_option("--trials", o.model_trials, "Of evolution (150)")->check(CLI::Range(1, 100000));
  app.add_option("--random-trials", o.random_trials, "Of random search (500)")
      ->check(CLI::Range(1, 100000));
  app.add_option("--seconds", o.seconds, "At most so long, without the race (600)");
  app.add_option("--race", o.race_seconds, "Seconds of the race (6)");
  app.add_option("--log", o.log, "Times are kept here, and taken from here");
  app.add_option("--json", o.json, "Write the result to this file, too");
  app.add_flag("--warm-start", o.warm_start, "Also evolution with seeds and model from tophub");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
