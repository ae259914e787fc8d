// Runs the fuzz targets without a fuzzer: on their seeds, on inputs that a fuzzer found
// (found/TARGET/*), and on seeds with a few random changes. HEDDLE_FUZZ_ROUNDS=100000 makes this a
// longer search. The last input is stored in the file HEDDLE_FUZZ_KEEP, so that a crash can be
// reproduced.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "fuzz/fuzz_target.h"
#include "fuzz/mutate.h"
#include "heddle/support/json.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle::fuzz {
namespace {

class Fuzzed : public ::testing::TestWithParam<FuzzTarget> {};

}  // namespace

void PrintTo(Verdict verdict, std::ostream* out) {
  *out << (verdict == Verdict::Accepted  ? "accepted"
           : verdict == Verdict::Refused ? "refused"
                                         : "a bug");
}

namespace {

/// Escapes characters that a terminal does not show.
std::string shortened(const std::string& text) { return Json(text.substr(0, 2000)).dump(); }

TEST_P(Fuzzed, TakesItsSeeds) {
  const FuzzTarget& target = GetParam();
  const std::vector<std::string> seeds = target.seeds();
  ASSERT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) {
    const Outcome outcome = outcome_of(target, seed);
    EXPECT_EQ(outcome.verdict, Verdict::Accepted) << outcome.message << "\n" << shortened(seed);
  }
}

TEST_P(Fuzzed, WhatWasFoundIsMended) {
  const FuzzTarget& target = GetParam();
  const std::filesystem::path folder =
      std::filesystem::path(source_dir() + "/tests/fuzz/found") / target.name;
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const Outcome outcome = outcome_of(target, read_file(entry.path().string()));
    EXPECT_NE(outcome.verdict, Verdict::Bug) << entry.path() << ": " << outcome.message;
  }
}

TEST_P(Fuzzed, ChangedSeedsAreNeverMoreThanAnError) {
  const FuzzTarget& target = GetParam();
  const std::vector<std::string> seeds = target.seeds();
  const char* chosen = std::getenv("HEDDLE_FUZZ_ROUNDS");
  const char* keep = std::getenv("HEDDLE_FUZZ_KEEP");
  const int rounds = chosen != nullptr ? std::atoi(chosen) : 200;
  std::mt19937_64 random(7);
  for (int round = 0; round < rounds; ++round) {
    std::string input = seeds[random() % seeds.size()];
    const size_t changes = 1 + random() % 3;
    for (size_t i = 0; i < changes; ++i) {
      const auto bytes = [&](const std::string& text) { return mutate_bytes(text, random()); };
      input = target.format == Format::JsonLines && random() % 4 != 0
                  ? mutate_json_lines(input, random(), bytes)
                  : bytes(input);
    }
    if (keep != nullptr) std::ofstream(keep, std::ios::binary) << input;
    const Outcome outcome = outcome_of(target, input);
    EXPECT_NE(outcome.verdict, Verdict::Bug) << "round " << round << ": " << outcome.message << "\n"
                                             << shortened(input);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Fuzzed,
                         ::testing::ValuesIn(fuzz_targets().begin(), fuzz_targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace heddle::fuzz
