// A result that differs from a peer's is found and has no time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "bench/bench_case.h"
#include "bench/tables.h"
#include "common/machine.h"
#include "subjects/peer_set.h"

namespace heddle::cli {
namespace {

using ::testing::HasSubstr;

// Runs an 8x8x8 product beside a peer whose result is that of the naive schedule plus `error` in
// the last element.
CaseResult beside_peer(double error) {
  Problem problem = make_problem("matmul:8x8x8", f32);
  problem.peers = [error](PeerSet& set) {
    const NDArray a = set.input(0), b = set.input(1);
    NDArray c = NDArray::zeros({8, 8}, f32);
    for (int64_t i = 0; i < 8; ++i) {
      for (int64_t j = 0; j < 8; ++j) {
        for (int64_t k = 0; k < 8; ++k)
          c.at<float>({i, j}) += a.at<float>({i, k}) * b.at<float>({k, j});
      }
    }
    c.at<float>({7, 7}) += static_cast<float>(error);
    set.add({"other", "by hand", [] {}, [c] { return c; }});
  };
  CaseOptions options;
  options.seconds = 0.001;
  return run_case(problem, problem.make_inputs(), options, [](const std::string&) {});
}

TEST(Verify, AcceptsTheSameUpToRounding) {
  const CaseResult r = beside_peer(1e-7);
  EXPECT_THAT(r.verified, ::testing::ElementsAre("naive", "other"));
  EXPECT_TRUE(r.mismatches.empty());
  EXPECT_TRUE(to_json(r).at("times_ms").contains("static"));
}

TEST(Verify, FindsOneWrongElement) {
  const CaseResult r = beside_peer(1e-3);
  EXPECT_THAT(r.verified, ::testing::ElementsAre("naive"));
  ASSERT_EQ(r.mismatches.size(), 1u);
  EXPECT_THAT(r.mismatches[0], HasSubstr("static differs from other: 1 of 64 elements"));
  EXPECT_FALSE(to_json(r).at("times_ms").contains("static"));
  Machine machine;
  EXPECT_THAT(case_table(r, machine), HasSubstr("MISMATCH: static differs from other"));
  EXPECT_THAT(summary_table({r}, machine), HasSubstr("MISMATCH"));
}

// An element that a kernel does not write keeps a value that no comparison accepts.
TEST(Verify, OutputsStartAsNaN) {
  const Problem problem = make_problem("argmax:2x3", f32);
  EXPECT_EQ(problem.make_outputs()[0].get(0), 77);
  EXPECT_TRUE(std::isnan(make_problem("row_sum:2x3", f32).make_outputs()[0].get(1)));
}

TEST(Subjects, AreAllDeclarable) {
  for (const SubjectKind& kind : subject_kinds()) {
    const Problem p = make_problem(kind.grammar.example, f32);
    EXPECT_GT(p.flops + static_cast<double>(p.bytes), 0) << kind.grammar.example;
    EXPECT_FALSE(p.outputs.empty());
  }
  for (const Workload& w : workloads_of("all")) EXPECT_NO_THROW(make_problem(w.subject, w.dtype));
}

}  // namespace
}  // namespace heddle::cli
