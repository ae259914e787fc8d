// Barriers, races, shuffles and asynchronous copies of the GPU emulator.
#include "codegen/emulator_testing.h"

namespace heddle::testing {
namespace {

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

// ---- clusters, and the last block ----

// What the first thread of each block reads of the others, in clusters of 2 blocks of 32.
Stmt exchange_in_cluster(const Buffer& from, const Buffer& to, const Buffer& s, const Stmt& start,
                         const Stmt& between, const Stmt& end) {
  return loop(LoopKind::clusters(2), 2, [&](Var c) {
    return make_allocate(s, threads(64, [&](Var t) {
                           return seq({start, store(s, t, at(from, c * 64 + t)), between,
                                       store(to, c * 64 + t, at(s, 63 - t)), end});
                         }));
  });
}

TEST(Emulator, BlocksOfAClusterShareMemoryAcrossItsBarrier) {
  OneKernel k({iota(128), ones(128)}, 4, 32);
  k.kernel.cluster = 2;
  const Buffer s = shared("s", f32, 64);
  const Stmt started = make_sync(SyncKind::Started);
  for (uint64_t seed : {0, 3}) {
    k.run(exchange_in_cluster(k[0], k[1], s, started, barrier(), {}), seed);
    EXPECT_EQ(k.arrays[1].get(0), 63);
    EXPECT_EQ(k.arrays[1].get(127), 64);
  }
}

TEST(Emulator, ClusterMistakes) {
  OneKernel k({iota(128), ones(128)}, 4, 32);
  k.kernel.cluster = 2;
  const Buffer s = shared("s", f32, 64);
  const Stmt started = make_sync(SyncKind::Started);
  EXPECT_THAT(k.error(exchange_in_cluster(k[0], k[1], s, started, {}, {})),
              AllOf(HasSubstr("race on 's'[63]: written by thread (31, 0, 0) of block 1 of its "
                              "cluster"),
                    HasSubstr("then read by thread (0, 0, 0) of block 0 of its cluster with no "
                              "barrier between")));
  EXPECT_THAT(k.error(exchange_in_cluster(k[0], k[1], s, {}, barrier(), {})),
              HasSubstr("blocks of the cluster that may not have begun"));
  EXPECT_THAT(k.error(loop(LoopKind::clusters(2), 2,
                           [&](Var) {
                             return make_allocate(s, threads(64, [&](Var t) {
                                                    return seq({started, store(s, t, Expr(1.f))});
                                                  }));
                           })),
              HasSubstr("may be gone when 's'[0] is stored in its memory"));
  EXPECT_THAT(k.error(barrier()), HasSubstr("a barrier of a cluster before Started"));
  // A barrier that one block of the cluster does not come to.
  EXPECT_THAT(k.error(seq({started, threads(32, [&](Var) { return barrier(); })})),
              HasSubstr("a barrier that 32 of the block's 64 threads reach"));
  k.kernel.grid = {3, 1, 1};
  EXPECT_THAT(k.error(started), HasSubstr("no multiple of its clusters"));
}

// Stores whose arrival is counted need no barrier; the wait is for all elements of the buffer.
TEST(Emulator, WhatIsSentInAClusterIsReceived) {
  OneKernel k({iota(128), ones(128)}, 4, 32);
  k.kernel.cluster = 2;
  const Buffer s = shared("s", f32, 64);
  const Stmt started = make_sync(SyncKind::Started), received = make_sync(SyncKind::AsyncWait);
  const auto program = [&](int64_t senders, const Stmt& start, const Stmt& wait) {
    return loop(LoopKind::clusters(2), 2, [&](Var c) {
      return make_allocate(
          s, threads(64, [&](Var t) {
            return seq(
                {start,
                 make_if(t < senders, store(s, t, at(k[0], c * 64 + t), StoreHint::Async), {}),
                 wait, store(k[1], c * 64 + t, at(s, 63 - t))});
          }));
    });
  };
  for (uint64_t seed : {0, 3}) {
    k.run(program(64, started, received), seed);
    EXPECT_EQ(k.arrays[1].get(0), 63);
    EXPECT_EQ(k.arrays[1].get(127), 64);
  }
  EXPECT_THAT(k.error(program(64, started, {})), HasSubstr("is not complete"));
  EXPECT_THAT(k.error(program(60, started, received)),
              HasSubstr("a wait that has no end: nothing is sent to 's'[60]"));
  EXPECT_THAT(k.error(program(64, {}, received)), HasSubstr("that may not have begun"));
  EXPECT_THAT(k.error(loop(LoopKind::clusters(2), 2,
                           [&](Var) {
                             return make_allocate(
                                 s, threads(64, [&](Var t) {
                                   return seq({started, store(s, t, Expr(1.f), StoreHint::Async)});
                                 }));
                           })),
              HasSubstr("is not received where the buffer's scope ends"));
}

TEST(Emulator, TheLastBlockSeesWhatAllBlocksWrote) {
  OneKernel k({iota(4), ones(1)}, 4, 32);
  const Buffer part = Buffer::make("part", f32, {Expr(4)}, Scope::Global);
  const auto sum = [&] {
    return seq({threads(1, [&](Var) { return store(k[1], 0, Expr(0.f)); }), serial(4, [&](Var i) {
                  return threads(1, [&](Var) { return store(k[1], 0, at(k[1], 0) + at(part, i)); });
                })});
  };
  const auto run = [&](bool as_tail) -> std::string {
    GpuKernel kernel = k.kernel;
    kernel.args.push_back(part);
    kernel.body = blocks(4, [&](Var b) {
      return seq({threads(1, [&](Var) { return store(part, b, at(k[0], b) * 2.f); }),
                  as_tail ? Stmt() : sum()});
    });
    if (as_tail) kernel.tail = sum();
    GpuProgram p;
    p.name = "p";
    p.args = k.kernel.args;
    p.main = {kernel};
    p.workspace = {part};
    try {
      emulate(p, k.arrays, {5});
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(run(true), "no error");
  EXPECT_EQ(k.arrays[1].get(0), 12);
  // With no wait for the others there is no telling.
  EXPECT_THAT(run(false), ::testing::AnyOf(HasSubstr("race on"), HasSubstr("never written")));
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
