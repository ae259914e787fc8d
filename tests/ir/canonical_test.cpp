#include "ir/canonical.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

Buffer global(const std::string& name, DataType t = f32, int64_t n = 8) {
  return Buffer::make(name, t, {Expr(n)}, Scope::Global);
}

// for i < n: to[i] = from[i * step] + 1
Stmt copy(const Buffer& from, const Buffer& to, int64_t n, int64_t step = 1,
          LoopKind kind = LoopKind::Serial) {
  const Var i("i" + from->name);
  return make_for(i, n, kind,
                  make_store(to, {i}, cast(f32, make_load(from, {i * step})) + Expr(1.0f)));
}

TEST(Canonical, NamesAndIdentitiesDoNotMatter) {
  const Buffer a = global("a"), b = global("b"), c = global("c"), d = global("d");
  const CanonicalForm x = canonical_form(copy(a, b, 8)), y = canonical_form(copy(c, d, 8));
  EXPECT_EQ(x.key, y.key);
  EXPECT_TRUE(x.closed);
  ASSERT_EQ(x.buffers.size(), 2u);
  ASSERT_EQ(y.buffers.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(x.buffers[i] == a, y.buffers[i] == c);
    EXPECT_EQ(x.buffers[i] == b, y.buffers[i] == d);
  }
}

TEST(Canonical, EverythingElseDoes) {
  const Buffer a = global("a"), b = global("b");
  const CanonicalKey key = canonical_form(copy(a, b, 8)).key;
  EXPECT_NE(key, canonical_form(copy(a, a, 8)).key);  // in place
  EXPECT_NE(key, canonical_form(copy(a, b, 4)).key);
  EXPECT_NE(key, canonical_form(copy(a, b, 8, 2)).key);
  EXPECT_NE(key, canonical_form(copy(a, b, 8, 1, LoopKind::Parallel)).key);
  EXPECT_NE(key, canonical_form(copy(global("a", f64), b, 8)).key);
  EXPECT_NE(key, canonical_form(copy(a, global("b", f32, 9), 8)).key);
  EXPECT_NE(key, canonical_form(make_block({copy(a, b, 8), copy(a, b, 8)})).key);
  const Var i("i");
  EXPECT_NE(canonical_form(make_for(i, 8, LoopKind::Serial, make_store(a, {i}, Expr(0.0f)))).key,
            canonical_form(make_for(i, 8, LoopKind::Serial, make_store(a, {i}, Expr(-0.0f)))).key);
  EXPECT_NE(canonical_form(make_store(a, {i}, Expr(0.0f))).key,
            canonical_form(make_store(a, {i}, Expr(0.0f), StoreHint::NonTemporal)).key);
}

TEST(Canonical, WhichLoopAVariableIsOfMatters) {
  const Buffer a = global("a");
  auto nest = [&](bool inner) {
    const Var i("i"), j("j");
    return make_for(i, 8, LoopKind::Serial,
                    make_for(j, 8, LoopKind::Serial, make_store(a, {inner ? j : i}, Expr(1.0f))));
  };
  EXPECT_EQ(canonical_form(nest(true)).key, canonical_form(nest(true)).key);
  EXPECT_NE(canonical_form(nest(true)).key, canonical_form(nest(false)).key);
}

TEST(Canonical, AGraphIsTheTreeThatItStandsFor) {
  const Buffer a = global("a");
  auto nest = [&](bool shared) {
    const Var i("i");
    const Expr x = make_load(a, {i}) + Expr(3.0f);
    const Expr y = shared ? x : make_load(a, {i}) + Expr(3.0f);
    return make_for(i, 8, LoopKind::Serial, make_store(a, {i}, x * y));
  };
  EXPECT_EQ(canonical_form(nest(true)).key, canonical_form(nest(false)).key);
}

TEST(Canonical, WhatComesFromOutsideIsSeen) {
  const Buffer a = global("a");
  const Var i("i"), outside("outside");
  EXPECT_FALSE(
      canonical_form(make_for(i, 8, LoopKind::Serial, make_store(a, {i}, cast(f32, Expr(outside)))))
          .closed);
  const Buffer registers = Buffer::make("r", f32, {Expr(8)}, Scope::Local);
  const Stmt fill = make_for(i, 8, LoopKind::Serial, make_store(registers, {i}, Expr(1.0f)));
  EXPECT_FALSE(canonical_form(fill).closed);
  const CanonicalForm whole = canonical_form(make_allocate(registers, fill));
  EXPECT_TRUE(whole.closed);
  EXPECT_TRUE(whole.buffers.empty());
}

}  // namespace
}  // namespace heddle
