// An answer of a tree allocates nothing: exported kernels may ask for one in each call.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>

#include "heddle/heuristics/trained_tree.h"
#include "heddle/support/decision_tree.h"
#include "heuristics/random_tree.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace heddle {
namespace {

TEST(DecisionTree, AnAnswerAllocatesNothing) {
  Rng rng(5);
  const TreeHolder tree(random_tree(rng));
  std::vector<std::vector<double>> problems;
  for (int i = 0; i < 64; ++i) problems.push_back(random_problem(tree.tree(), rng));
  constexpr int kRounds = 1000;
  int choices = 0;
  const long before = allocations;
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < kRounds; ++round) {
    for (const std::vector<double>& p : problems)
      choices += answer_of(tree.table(), p).verdict == LeafVerdict::Choice;
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(allocations, before);
  RecordProperty("nanoseconds_of_an_answer",
                 std::to_string(took.count() / (kRounds * double(problems.size()))));
  EXPECT_GE(choices, 0);
  // The count sees allocations.
  const auto seen = std::make_unique<int>(choices);
  EXPECT_GT(allocations, before);
}

}  // namespace
}  // namespace heddle
