// Threads and memory of the GPU emulator.
#include "codegen/emulator_testing.h"

namespace heddle::testing {
namespace {

TEST(Emulator, CopyWithGuard) {
  OneKernel k({iota(100), ones(100)}, 4, 32);
  const auto body = blocks(4, [&](Var b) {
    return threads(32, [&](Var t) {
      const Expr i = b * 32 + t;
      return make_if(i < 100, store(k[1], i, at(k[0], i) * 2.f), {});
    });
  });
  for (uint64_t seed : {0, 1, 2}) {
    k.arrays[1].fill(-1);
    k.run(body, seed);
    for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(k.arrays[1].get(i), 2.0 * static_cast<double>(i));
  }
}

TEST(Emulator, MissingGuardIsOutOfBounds) {
  OneKernel k({iota(100), ones(128)}, 4, 32);
  const std::string e = k.error(blocks(4, [&](Var b) {
    return threads(32, [&](Var t) { return store(k[1], b * 32 + t, at(k[0], b * 32 + t)); });
  }));
  EXPECT_THAT(e, HasSubstr("access to 'A' at [100], outside its extents [100]"));
  EXPECT_THAT(e, HasSubstr("kernel 'k', block (3, 0, 0), thread (4, 0, 0)"));
}

// Two-dimensional blocks: x is fastest, and loops shorter than the block mask threads.
TEST(Emulator, ThreadIndicesAndShortLoops) {
  OneKernel k({NDArray::full({6 * 8}, i32, -1)}, 1, 8);
  k.kernel.block = {8, 6, 1};
  k.run(loop(LoopKind::ThreadY, 5, [&](Var y) {
    return threads(7, [&](Var x) { return store(k[0], y * 8 + x, cast(i32, y * 10 + x)); });
  }));
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 8; ++x) {
      EXPECT_EQ(k.arrays[0].get(y * 8 + x), y < 5 && x < 7 ? y * 10 + x : -1);
    }
  }
  EXPECT_THAT(k.error(threads(9, [&](Var x) { return store(k[0], x, make_int(i32, 0)); })),
              HasSubstr("a loop of 9 iterations over 8 threads"));
}

TEST(Emulator, VectorAccessesAndLocals) {
  OneKernel k({iota(64), ones(64)}, 1, 16);
  const Buffer r = local("r", f32, 4);
  k.run(threads(16, [&](Var t) {
    return make_allocate(r, seq({store(r, make_ramp(0, 1, 4), at(k[0], make_ramp(t * 4, 1, 4))),
                                 store(k[1], make_ramp(t * 4, 1, 4),
                                       at(r, make_ramp(0, 1, 4)) + make_broadcast(Expr(1.f), 4))}));
  }));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(k.arrays[1].get(i), i + 1);
}

TEST(Emulator, LoopsWithAnExtentOfTheirOwnInEachThread) {
  OneKernel k({NDArray::zeros({32}, i32)}, 1, 32);
  k.run(threads(32, [&](Var t) {
    const Var i("i");
    return make_for(
        i, t % 5, LoopKind::Serial,
        store(k[0], t, at(k[0], t) + make_select(i < 3, make_int(i32, 1), make_int(i32, 10))));
  }));
  for (int t = 0; t < 32; ++t) EXPECT_EQ(k.arrays[0].get(t), t % 5 == 4 ? 13 : t % 5);
}

TEST(Emulator, LetsDifferBetweenThreads) {
  OneKernel k({iota(32), ones(32)}, 1, 32);
  k.run(threads(32, [&](Var t) {
    const Var x("x", f32);
    return make_let(x, at(k[0], 31 - t), store(k[1], t, x + x));
  }));
  for (int t = 0; t < 32; ++t) EXPECT_EQ(k.arrays[1].get(t), 2 * (31 - t));
}

TEST(Emulator, HalvesAreRoundedAfterEveryOperation) {
  NDArray h = NDArray::full({32}, f16, 2048);
  OneKernel k({h}, 1, 32);
  k.run(threads(32, [&](Var t) {
    return store(k[0], t, at(k[0], t) + make_float(f16, 1) + make_float(f16, 1));
  }));
  EXPECT_EQ(h.get(0), 2048);  // 2049 is no f16
}

TEST(Emulator, ReadsOfWhatWasNeverWritten) {
  OneKernel k({ones(32)}, 1, 32);
  const Buffer r = local("r", f32, 2), s = shared("s", f32, 32);
  // Only even threads write, and only the first iteration's register is written.
  EXPECT_THAT(k.error(make_allocate(r, threads(32,
                                               [&](Var t) {
                                                 return seq({make_if(t % 2 == 0,
                                                                     store(r, 0, Expr(1.f)), {}),
                                                             store(k[0], t, at(r, 0))});
                                               }))),
              AllOf(HasSubstr("read of 'r'[0], which was never written"),
                    HasSubstr("thread (1, 0, 0)"), HasSubstr("in: A[tx] = r[0]")));
  EXPECT_THAT(k.error(threads(32,
                              [&](Var t) {
                                return serial(2, [&](Var i) {
                                  return make_allocate(
                                      r, seq({make_if(i == 0, store(r, 1, Expr(1.f)), {}),
                                              store(k[0], t, at(r, 1))}));
                                });
                              })),
              HasSubstr("'r'[1], which was never written"));
  EXPECT_THAT(k.error(make_allocate(
                  s, seq({threads(31, [&](Var t) { return store(s, t, Expr(0.f)); }), barrier(),
                          threads(32, [&](Var t) { return store(k[0], t, at(s, t)); })}))),
              HasSubstr("read of 's'[31], which was never written"));
}

TEST(Emulator, WorkspaceGoesFromKernelToKernelAndStartsUnwritten) {
  NDArray a = iota(32), c = ones(32);
  OneKernel k({a, c}, 1, 32);
  const Buffer w = Buffer::make("w", f32, {Expr(32)}, Scope::Global);
  GpuKernel first = k.kernel, second = k.kernel;
  first.args = {k[0], w};
  first.body = threads(32, [&](Var t) { return store(w, 31 - t, at(k[0], t)); });
  second.args = {w, k[1]};
  second.body = threads(32, [&](Var t) { return store(k[1], t, at(w, t)); });
  GpuProgram p;
  p.args = k.kernel.args;
  p.workspace = {w};
  p.main = {first, second};
  emulate(p, {a, c});
  EXPECT_EQ(c.get(0), 31);
  EXPECT_EQ(c.get(31), 0);

  p.persistent = {w};  // written by `prepare` in place of the first kernel
  p.workspace = {};
  p.prepare = {first};
  p.main = {second};
  c.fill(-1);
  emulate(p, {a, c});
  EXPECT_EQ(c.get(5), 26);

  p.prepare = {};
  EXPECT_THROW(
      try { emulate(p, {a, c}); } catch (const Error& e) {
        EXPECT_THAT(e.what(), HasSubstr("read of 'w'[0], which was never written"));
        throw;
      },
      Error);
}

TEST(Emulator, RefusesWhatTheContractDoesNotAllow) {
  OneKernel k({ones(32)}, 2, 32);
  EXPECT_THAT(k.error(blocks(3, [&](Var b) { return store(k[0], b, Expr(0.f)); })),
              HasSubstr("a loop of 3 iterations over 2 blocks"));
  EXPECT_THAT(
      k.error(loop(LoopKind::Parallel, 4, [&](Var i) { return store(k[0], i, Expr(0.f)); })),
      HasSubstr("a loop over threads of a CPU"));
  const Buffer unknown = Buffer::make("u", f32, {Expr(32)}, Scope::Global);
  EXPECT_THAT(k.error(store(unknown, 0, Expr(0.f))), HasSubstr("neither an argument"));
  k.kernel.block = {1024, 2, 1};
  EXPECT_THAT(k.error(store(k[0], 0, Expr(0.f))), HasSubstr("blocks of 2048 threads"));
  GpuProgram p;
  p.args = k.kernel.args;
  EXPECT_THROW(emulate(p, {}), Error);
}

TEST(Emulator, PlacesInSharedMemory) {
  OneKernel k({ones(32)}, 2, 32);
  k.place_shared = false;
  const Buffer s = shared("s", f32, 100), u = shared("u", f16, 8);
  const auto fill = [](const Buffer& b) {
    return threads(8, [&](Var t) { return store(b, t, make_float(b->dtype, 1)); });
  };
  const Stmt one = make_allocate(s, fill(s)), both = make_allocate(u, seq({fill(u), one}));
  EXPECT_THAT(k.error(one), HasSubstr("the kernel has no place in shared memory for 's'"));
  k.kernel.shared = {{s, 0}, {u, 400}};
  k.kernel.shared_bytes = 399;
  EXPECT_THAT(k.error(one),
              HasSubstr("bytes 0 to 400 of shared memory, of which the kernel has 399"));
  k.kernel.shared_bytes = 416;
  EXPECT_EQ(k.error(both), "no error");
  k.kernel.shared = {{s, 8}, {u, 0}};
  EXPECT_THAT(k.error(both), HasSubstr("offsets are multiples of 16"));
  k.kernel.shared = {{s, 0}, {u, 384}};
  EXPECT_THAT(k.error(both), HasSubstr("'s' overlaps 'u' in shared memory"));

  // One after the other in one place: a barrier is needed between them.
  const auto after = [&](Stmt between) {
    return seq({make_allocate(u, fill(u)), between,
                make_allocate(s, threads(4, [&](Var t) { return store(s, 96 + t, Expr(1.f)); }))});
  };
  EXPECT_EQ(k.error(after(barrier())), "no error");
  EXPECT_THAT(k.error(after({})), AllOf(HasSubstr("race on 's'[96]: written by thread (1, 0, 0)"),
                                        HasSubstr("then written by thread (0, 0, 0)")));
}

}  // namespace
}  // namespace heddle::testing
