// Threads, memory, barriers, races and asynchronous copies of the GPU emulator.
#include "codegen/emulator_testing.h"

namespace heddle::testing {
namespace {

NDArray iota(int64_t n) {
  NDArray a = NDArray::empty({n}, f32);
  for (int64_t i = 0; i < n; ++i) a.data<float>()[i] = static_cast<float>(i);
  return a;
}
NDArray ones(int64_t n) { return NDArray::full({n}, f32, 1); }

// ---- threads and memory ----

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
  EXPECT_THAT(k.error(both), HasSubstr("'s' lies upon 'u' in shared memory"));

  // One after the other in one place: a barrier is needed between them.
  const auto after = [&](Stmt between) {
    return seq({make_allocate(u, fill(u)), between,
                make_allocate(s, threads(4, [&](Var t) { return store(s, 96 + t, Expr(1.f)); }))});
  };
  EXPECT_EQ(k.error(after(barrier())), "no error");
  EXPECT_THAT(k.error(after({})), AllOf(HasSubstr("race on 's'[96]: written by thread (1, 0, 0)"),
                                        HasSubstr("then written by thread (0, 0, 0)")));
}

// ---- barriers and races ----

// Block sum: strided partial sums, a tree within each warp by shuffles, then one warp over the
// warps' sums in shared memory.
Stmt block_sum(const OneKernel& k, bool with_barrier) {
  const Buffer acc = local("acc", f32, 1), part = shared("part", f32, 4);
  const auto tree = [&](int from) {
    std::vector<Stmt> steps;
    for (int d = from; d > 0; d /= 2) {
      steps.push_back(store(acc, 0, at(acc, 0) + make_shuffle(at(acc, 0), d)));
    }
    return seq(std::move(steps));
  };
  return blocks(2, [&](Var b) {
    return make_allocate(
        part,
        make_allocate(
            acc, threads(128, [&](Var t) {
              return seq(
                  {store(acc, 0, Expr(0.f)),
                   serial(3,
                          [&](Var i) {
                            return store(acc, 0, at(acc, 0) + at(k[0], b * 384 + i * 128 + t));
                          }),
                   tree(16), make_if(t % 32 == 0, store(part, floordiv(t, 32), at(acc, 0)), {}),
                   with_barrier ? barrier() : Stmt(),
                   make_if(
                       t < 32,
                       seq({store(acc, 0, make_select(t < 4, at(part, min(t, Expr(3))), Expr(0.f))),
                            tree(2), make_if(t == 0, store(k[1], b, at(acc, 0)), {})}),
                       {})});
            })));
  });
}

TEST(Emulator, BlockReduction) {
  OneKernel k({iota(768), ones(2)}, 2, 128);
  for (uint64_t seed : {0, 5}) {
    k.run(block_sum(k, true), seed);
    EXPECT_EQ(k.arrays[1].get(0), 384 * 383 / 2);
    EXPECT_EQ(k.arrays[1].get(1), 768 * 767 / 2 - 384 * 383 / 2);
  }
}

TEST(Emulator, MissingBarrierIsARace) {
  OneKernel k({iota(768), ones(2)}, 2, 128);
  const std::string e = k.error(block_sum(k, false));
  EXPECT_THAT(e, HasSubstr("race on 'part'[1]: written by thread (32, 0, 0) in `part["));
  EXPECT_THAT(e, HasSubstr("then read by thread (1, 0, 0) with no barrier between"));
}

Stmt exchange(const OneKernel& k, const Buffer& s, Stmt between, int shift) {
  return make_allocate(
      s, threads(64, [&](Var t) {
        return seq({store(s, t, at(k[0], t)), between, store(k[1], t, at(s, (t + shift) % 64))});
      }));
}

TEST(Emulator, WarpBarrierOrdersWithinAWarpOnly) {
  OneKernel k({iota(64), ones(64)}, 1, 64);
  const Buffer s = shared("s", f32, 64);
  EXPECT_THAT(k.error(exchange(k, s, {}, 1)), HasSubstr("race on 's'[1]"));
  EXPECT_THAT(k.error(exchange(k, s, make_sync(SyncKind::Warp), 1)),
              HasSubstr("race on 's'[32]: written by thread (32, 0, 0)"));
  k.run(exchange(k, s, barrier(), 1));
  EXPECT_EQ(k.arrays[1].get(63), 0);
  // Pairs within a warp.
  const auto pairs = [&](Stmt between) {
    return make_allocate(
        s, threads(64, [&](Var t) {
          return seq({store(s, t, at(k[0], t)), between, store(k[1], t, at(s, t + 1 - t % 2 * 2))});
        }));
  };
  k.run(pairs(make_sync(SyncKind::Warp)));
  EXPECT_EQ(k.arrays[1].get(4), 5);
  EXPECT_EQ(k.arrays[1].get(5), 4);
  EXPECT_THAT(k.error(pairs({})), HasSubstr("race on 's'"));
}

// The next iteration overwrites what slower threads still read.
TEST(Emulator, WriteAfterReadIsARaceAcrossIterations) {
  OneKernel k({iota(64), ones(64)}, 1, 64);
  const Buffer s = shared("s", f32, 64), acc = local("acc", f32, 1);
  const auto body = [&](bool second_barrier) {
    return make_allocate(acc,
                         seq({store(acc, 0, Expr(0.f)),
                              serial(3,
                                     [&](Var) {
                                       return make_allocate(
                                           s, threads(64, [&](Var t) {
                                             return seq({store(s, t, at(k[0], t)), barrier(),
                                                         store(acc, 0, at(acc, 0) + at(s, 63 - t)),
                                                         second_barrier ? barrier() : Stmt()});
                                           }));
                                     }),
                              threads(64, [&](Var t) { return store(k[1], t, at(acc, 0)); })}));
  };
  k.run(body(true));
  EXPECT_EQ(k.arrays[1].get(0), 3 * 63);
  EXPECT_THAT(k.error(body(false)), AllOf(HasSubstr("race on 's'[0]: read by thread (63, 0, 0)"),
                                          HasSubstr("then written by thread (0, 0, 0)")));
}

TEST(Emulator, EqualValuesRaceToo) {
  OneKernel k({ones(4)}, 1, 32);
  // Outside of thread loops every thread runs the statement.
  EXPECT_THAT(k.error(store(k[0], 0, Expr(3.f))),
              AllOf(HasSubstr("race on 'A'[0]: written by thread (0, 0, 0) in `A[0] = 3"),
                    HasSubstr("then written by thread (1, 0, 0)")));
  k.run(threads(1, [&](Var) { return store(k[0], 0, Expr(3.f)); }));
  EXPECT_EQ(k.arrays[0].get(0), 3);
}

TEST(Emulator, BlocksRaceWhateverTheirBarriers) {
  OneKernel k({ones(64)}, 2, 32);
  const auto body = [&](Expr read_from) {
    return blocks(2, [&](Var b) {
      const Var r("r");
      return threads(32, [&](Var t) {
        return seq({store(k[0], b * 32 + t, Expr(2.f)), barrier(),
                    make_let(r, read_from,
                             make_if(at(k[0], r) < 0.f, store(k[0], b * 32 + t, Expr(1.f)), {}))});
      });
    });
  };
  k.run(blocks(2, [&](Var b) {
    return threads(32, [&](Var t) {
      return seq({store(k[0], b * 32 + t, Expr(2.f)), barrier(),
                  store(k[0], b * 32 + 31 - t, at(k[0], b * 32 + 31 - t) + 1.f)});
    });
  }));
  EXPECT_EQ(k.arrays[0].get(40), 3);
  EXPECT_THAT(k.error(body(Expr(int64_t{5}))),
              AllOf(HasSubstr("race on 'A'[5]: written by thread (5, 0, 0) of another block"),
                    HasSubstr("block (1, 0, 0)")));
}

// Every kind of pair, so that two remembered reads are enough: who reads, then who writes.
TEST(Emulator, RacesOfReadersWithALaterWriter) {
  const auto outcome = [](std::vector<int> readers, bool sync_warp, int writer) {
    OneKernel k({ones(1)}, 1, 96);
    const Buffer s = shared("s", f32, 1), r = local("r", f32, 1);
    std::vector<Stmt> stmts{threads(1, [&](Var) { return store(s, 0, Expr(1.f)); }), barrier()};
    for (const int reader : readers) {
      stmts.push_back(
          threads(96, [&](Var t) { return make_if(t == reader, store(r, 0, at(s, 0)), {}); }));
      if (sync_warp) stmts.push_back(make_sync(SyncKind::Warp));
    }
    stmts.push_back(
        threads(96, [&](Var t) { return make_if(t == writer, store(s, 0, Expr(2.f)), {}); }));
    const std::string e = k.error(make_allocate(s, make_allocate(r, seq(std::move(stmts)))));
    return e != "no error";
  };
  EXPECT_FALSE(outcome({5}, false, 5));
  EXPECT_TRUE(outcome({5}, false, 6));
  EXPECT_FALSE(outcome({5}, true, 6));
  EXPECT_TRUE(outcome({5}, true, 40));
  EXPECT_TRUE(outcome({5, 6}, false, 5));
  EXPECT_TRUE(outcome({5, 6}, false, 6));
  EXPECT_FALSE(outcome({5, 6, 7}, true, 8));
  EXPECT_TRUE(outcome({5, 6}, true, 70));
  EXPECT_TRUE(outcome({5, 40}, true, 6));
  EXPECT_TRUE(outcome({5, 40}, true, 41));
  EXPECT_TRUE(outcome({5, 6, 40}, false, 40));
  EXPECT_TRUE(outcome({40, 5, 6, 5}, true, 40));
}

TEST(Emulator, BarriersThatNotAllReach) {
  OneKernel k({ones(64)}, 1, 64);
  EXPECT_THAT(k.error(threads(64, [&](Var t) { return make_if(t < 32, barrier(), {}); })),
              AllOf(HasSubstr("a barrier that 32 of the block's 64 threads reach"),
                    HasSubstr("thread (0, 0, 0) among them but not thread (32, 0, 0)")));
  // Both arms have one, but not the same.
  EXPECT_THAT(k.error(threads(64, [&](Var t) { return make_if(t < 32, barrier(), barrier()); })),
              HasSubstr("a barrier that 32"));
  const Var i("i");
  EXPECT_THAT(k.error(threads(
                  64, [&](Var t) { return make_for(i, 1 + t % 2, LoopKind::Serial, barrier()); })),
              HasSubstr("a barrier that 32 of the block's 64 threads reach"));
  EXPECT_THAT(
      k.error(threads(64, [&](Var t) { return make_if(t < 16, make_sync(SyncKind::Warp), {}); })),
      HasSubstr("a warp's barrier that 16 of the warp's 32 lanes reach"));
  EXPECT_EQ(
      k.error(threads(64, [&](Var t) { return make_if(t < 32, make_sync(SyncKind::Warp), {}); })),
      "no error");
}

TEST(Emulator, ShufflesNeedTheLanesTheyRead) {
  OneKernel k({iota(64), ones(64)}, 1, 64);
  const auto body = [&](int64_t n, int lane_xor) {
    return threads(64, [&, n, lane_xor](Var t) {
      return make_if(t < n, store(k[1], t, make_shuffle(at(k[0], t) + 1.f, lane_xor)), {});
    });
  };
  k.run(body(16, 8));  // lanes 0..15 read one another
  EXPECT_EQ(k.arrays[1].get(3), 12);
  EXPECT_THAT(k.error(body(16, 16)),
              AllOf(HasSubstr("a shuffle reads lane 16 of the warp, which does not run it"),
                    HasSubstr("thread (0, 0, 0)")));
  EXPECT_THAT(k.error(threads(64,
                              [&](Var t) {
                                return store(
                                    k[1], t,
                                    make_select(t < 5, make_shuffle(at(k[0], t), 1), Expr(0.f)));
                              })),
              HasSubstr("a shuffle where evaluation is lazy"));
  // One within another.
  k.run(threads(64, [&](Var t) {
    return store(k[1], t, make_shuffle(make_shuffle(at(k[0], t), 1) * 10.f, 2));
  }));
  EXPECT_EQ(k.arrays[1].get(0), 30);
}

// ---- asynchronous copies ----

struct Pipeline {
  int wait = 1;         // groups that may be pending when a stage is read
  bool barrier = true;  // between waiting and reading what others copied
  bool commit = true;
  int stages = 2;
};

// B[t] = sum over i of A[i*64 + 63 - t], through shared memory filled one iteration ahead.
Stmt pipelined_sum(const OneKernel& k, const Pipeline& p) {
  const Buffer s = shared("s", f32, p.stages * 64), acc = local("acc", f32, 1);
  const auto fill = [&](Var t, Expr i) {
    return seq(
        {make_if(i < 5, store(s, i % p.stages * 64 + t, at(k[0], i * 64 + t), StoreHint::Async),
                 {}),
         p.commit ? make_sync(SyncKind::AsyncCommit) : Stmt()});
  };
  return make_allocate(
      s,
      make_allocate(
          acc, threads(64, [&](Var t) {
            return seq({store(acc, 0, Expr(0.f)), fill(t, 0),
                        serial(5,
                               [&](Var i) {
                                 return seq(
                                     {fill(t, i + 1), make_sync(SyncKind::AsyncWait, p.wait),
                                      p.barrier ? barrier() : Stmt(),
                                      store(acc, 0, at(acc, 0) + at(s, i % p.stages * 64 + 63 - t)),
                                      barrier()});
                               }),
                        store(k[1], t, at(acc, 0))});
          })));
}

TEST(Emulator, AsyncPipeline) {
  OneKernel k({iota(320), ones(64)}, 1, 64);
  for (uint64_t seed : {0, 9}) {
    k.run(pipelined_sum(k, {}), seed);
    EXPECT_EQ(k.arrays[1].get(0), 5 * 63 + 640);
    EXPECT_EQ(k.arrays[1].get(63), 640);
  }
}

TEST(Emulator, AsyncMistakes) {
  OneKernel k({iota(320), ones(64)}, 1, 64);
  EXPECT_THAT(k.error(pipelined_sum(k, {.wait = 2})),
              AllOf(HasSubstr("access to 's'[63], to which an asynchronous copy of thread (63, 0, "
                              "0) is not complete"),
                    HasSubstr("thread (0, 0, 0)")));
  EXPECT_THAT(k.error(pipelined_sum(k, {.barrier = false})),
              HasSubstr("race on 's'[63]: written by thread (63, 0, 0) in `async wait"));
  EXPECT_THAT(k.error(pipelined_sum(k, {.commit = false})), HasSubstr("is not complete"));
  // With one stage the copy runs into what is being read.
  EXPECT_THAT(k.error(pipelined_sum(k, {.stages = 1})), HasSubstr("is not complete"));

  const Buffer s = shared("s", f32, 64);
  EXPECT_THAT(
      k.error(make_allocate(
          s, threads(64, [&](Var t) { return store(s, t, at(k[0], t), StoreHint::Async); }))),
      HasSubstr("is not complete where the buffer's scope ends"));
  EXPECT_THAT(
      k.error(make_allocate(
          s, threads(64, [&](Var t) { return store(s, t, at(k[0], t) + 1.f, StoreHint::Async); }))),
      HasSubstr("no copy from global to shared memory"));
  EXPECT_THAT(
      k.error(threads(64, [&](Var t) { return store(k[1], t, at(k[0], t), StoreHint::Async); })),
      HasSubstr("no copy from global to shared memory"));
}

}  // namespace
}  // namespace heddle::testing
