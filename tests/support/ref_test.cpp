#include "heddle/support/ref.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace heddle {
namespace {

struct Node : RefCounted {
  explicit Node(int* alive) : alive(alive) { ++*alive; }
  ~Node() override { --*alive; }
  int* alive;
  Ref<Node> next;
};
struct Special : Node {
  using Node::Node;
};

TEST(Ref, DeletesWithTheLastOwner) {
  int alive = 0;
  {
    Ref<Node> a = make_ref<Special>(&alive);
    Ref<Node> b = a;
    EXPECT_EQ(a->use_count(), 2U);
    Ref<Node> c = std::move(a);
    EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(b, c);
    b = nullptr;
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Ref, AssigningFromAPartOfItselfIsSafe) {
  int alive = 0;
  Ref<Node> list = make_ref<Node>(&alive);
  list->next = make_ref<Node>(&alive);
  list = list->next;
  EXPECT_EQ(alive, 1);
  Ref<Node>& same = list;
  list = same;
  EXPECT_EQ(alive, 1);
}

TEST(Ref, CountsAcrossThreads) {
  int alive = 0;
  {
    const Ref<Node> shared = make_ref<Node>(&alive);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([shared] {
        for (int i = 0; i < 20000; ++i) Ref<Node> copy = shared;
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(shared->use_count(), 1U);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Ref, DetachKeepsTheCount) {
  int alive = 0;
  Ref<Node> a = make_ref<Node>(&alive);
  Node* raw = a.detach();
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(raw->use_count(), 1U);
  raw->release();
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace heddle
