// The static choice for every subject of the command line is legal and can be lowered: random
// subjects in random types, for each kind of machine, with few and many threads, by the rules alone
// and with what is shipped. HEDDLE_PROPERTY_COUNT and HEDDLE_PROPERTY_SEED set the number of draws
// and the first seed. A failure prints the command that shows it.
#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <set>

#include "environment.h"
#include "network/static_legality.h"
#include "property/random_subject.h"
#include "subjects/target_text.h"

namespace heddle::testing {
namespace {

struct Draw {
  std::string subject, dtype, target;
  int threads = 1;
  bool shipped = false;  ///< with the records and trees of tophub

  std::string command() const {
    return std::string(shipped ? "" : "HEDDLE_TOPHUB=off ") + "heddle explain " + subject +
           " --dtype " + dtype + " --threads " + std::to_string(threads) + " --target \"" + target +
           "\"";
  }
};

Draw random_draw(Rng& rng) {
  static const std::vector<std::string> targets(std::begin(kStaticTargets),
                                                std::end(kStaticTargets));
  Draw d;
  d.subject = random_subject(rng);
  d.dtype = rng.choose<std::string>({"f32", "f16", "f16", "bf16", "bf16", "i8"});
  d.target = rng.choose(targets);
  d.threads = rng.choose<int>({1, 4, 16});
  d.shipped = rng.chance(0.5);
  return d;
}

/// The problem of a draw; nothing where the declaration makes no sense.
std::optional<cli::Problem> declared(const Draw& d) {
  try {
    return cli::make_problem(d.subject, cli::dtype_of(d.dtype));
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User) << d.command() << ": " << e.what();
    return std::nullopt;
  }
}

std::string why_illegal(const cli::Problem& p, const Draw& d) {
  const Variable tophub("HEDDLE_TOPHUB", d.shipped ? "" : "off");
  return why_not_lowered(p.outputs, p.args(), cli::target_of(d.target, d.threads));
}

TEST(StaticSubjects, AreLegalInEveryTypeOnEveryTarget) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 600),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  int64_t made = 0;
  for (int64_t seed = first; seed < first + count; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    std::optional<cli::Problem> problem;
    Draw d;
    // A seed is one problem: what makes no sense is drawn again.
    for (int attempt = 0; attempt < 50 && !problem; ++attempt)
      problem = declared(d = random_draw(rng));
    if (!problem) continue;
    ++made;
    EXPECT_EQ(why_illegal(*problem, d), "")
        << d.command() << "\n  HEDDLE_PROPERTY_COUNT=1 HEDDLE_PROPERTY_SEED=" << seed;
  }
  EXPECT_EQ(made, count) << "subjects that make sense are drawn too rarely";
}

// What draws have found.
TEST(StaticSubjects, ThatWereOnceIllegal) {
  const Draw found[] = {
      {"lenet:128", "f16", "llvm -mcpu=znver3", 1, false},
      {"lenet:57", "bf16", "llvm -mcpu=neoverse-n1", 1, false},
      {"avg_pool2d:c=64,h=18,n=32,r=7,stride=1,pad=0,layout=nhwc", "f16", "cuda -gpu=h200", 1,
       false},
      {"conv2d:n=32,c=768,h=7,k=768,groups=768,r=7,pad=3,layout=nhwc", "f16", "cuda -gpu=h200", 1,
       false},
      {"attention:h=16,l=1,d=16,s=7,kv=2,causal=1", "f16", "cuda -gpu=h200", 1, false},
      {"conv3d:n=32,c=100,d=36,h=14,k=100,r=11,pad=5", "f16", "cuda -gpu=h200", 1, false},
  };
  for (const Draw& d : found) {
    const std::optional<cli::Problem> problem = declared(d);
    ASSERT_TRUE(problem) << d.command();
    EXPECT_EQ(why_illegal(*problem, d), "") << d.command();
  }
}

// Each kind of subject, type and target is drawn, so that none is left out by an accident of the
// generator.
TEST(StaticSubjects, DrawEverything) {
  std::set<std::string> kinds, rest;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Rng rng(seed);
    const Draw d = random_draw(rng);
    if (!declared(d)) continue;
    kinds.insert(d.subject.substr(0, d.subject.find(':')));
    rest.insert(d.dtype + " " + d.target);
  }
  EXPECT_EQ(kinds.size(), cli::subject_kinds().size());
  EXPECT_EQ(rest.size(), 4 * std::size(kStaticTargets));
}

}  // namespace
}  // namespace heddle::testing
